"""Iteration axes of a tensor's dimensions, split on demand as index arithmetic requires."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from .affine import Affine, Axis, SplitAxis, offset, row_major
from .guards import Bound

T = TypeVar("T")


class Axes:
    """Tensor dimensions as affine expressions of axes. Starts with one axis per dimension; `split` replaces one axis by two."""

    def __init__(self, shape: tuple[int, ...], name: str = "d") -> None:
        self.axes = [Axis(n, f"{name}{i}") for i, n in enumerate(shape)]
        self.index: tuple[Affine, ...] = tuple(Affine.of(a) for a in self.axes)

    def split(self, axis: Axis, inner: int) -> bool:
        """Splits `axis` in place and returns True; returns False if it is not an axis of this space."""
        if axis not in self.axes:
            return False
        at = self.axes.index(axis)
        outer_axis, inner_axis = Axis(axis.extent // inner, axis.name + "o"), Axis(inner, axis.name + "i")
        self.axes[at : at + 1] = [outer_axis, inner_axis]
        change = {axis: Affine.of(outer_axis, inner) + Affine.of(inner_axis)}
        self.index = tuple(i.rename(change) for i in self.index)
        return True


def linear_position(axes: Sequence[Axis]) -> Affine:
    """Returns the row-major position over axes."""
    return offset(tuple(map(Affine.of, axes)), row_major(tuple(a.extent for a in axes)))


def cut_axes(axes: Sequence[Axis], bound: Bound) -> int:
    """Returns how many of the axes, from the outermost on, a bound cuts off at an end: its index is the row-major position over
    them. Returns 0 for other bounds."""
    if bound.message or bound.low != 0:
        return 0
    return next((i for i in range(1, len(axes) + 1) if linear_position(axes[:i]) == bound.index), 0)


def retry_with_splits(build: Callable[[], T], *spaces: Axes) -> T:
    """Returns `build()`, called again after each SplitAxis that it raises. Raises SplitAxis for an axis of none of `spaces`."""
    while True:
        try:
            return build()
        except SplitAxis as s:
            if not any(space.split(s.axis, s.inner) for space in spaces):
                raise
