"""Coalesces loops: adjacent axes become one where every access has a single stride over both."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lamina.core.sizes import Size, SizeLike, with_symbol

from ..ir.affine import ZERO, Affine, Axis
from ..ir.expressions import Expr


@dataclass(frozen=True)
class Merged:
    """Axes after merging.

    rows, columns  the merged axes
    rename         what replaces the old axes in an index
    axis_of        the new axis of each old one that was merged
    lengths        products of symbols, such as the pixels of an image, and the symbols that stand for them in extents and strides
    quotients      terms of indices that are an axis divided by a number (see flatten.py), and that number
    """

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    rename: dict[Axis, Affine]
    axis_of: dict[Axis, Axis]
    lengths: Mapping[Size, Size] = field(default_factory=dict)
    quotients: dict[Expr, int] = field(default_factory=dict)

    def index(self, index: Affine) -> Affine:
        """Returns an index over the old axes as one over the new."""
        index = index.rename(self.rename)
        if not self.lengths:
            return index
        return Affine(
            with_length_symbols(index.constant, self.lengths),
            tuple((t, with_length_symbols(c, self.lengths)) for t, c in index.terms),
        )

    def merged(self, axes: Iterable[Axis]) -> set[Axis]:
        """Returns the merged axes that contain the given ones."""
        return {self.axis_of.get(a, a) for a in axes}

    def parts(self, axis: Axis) -> tuple[Axis, ...]:
        """Returns the axes that a merged one was made of, the last the fastest; the axis itself where it was not merged."""
        return tuple(a for a, whole in self.axis_of.items() if whole is axis) or (axis,)

    def is_even(self, index: Affine) -> bool:
        """Returns whether an index over the axes before merging has a single stride along each merged axis."""
        for axis in dict.fromkeys(self.axis_of.values()):
            *_, last = parts = self.parts(axis)
            step = index.coefficient(last)
            for a in reversed(parts):
                if index.coefficient(a) != step:
                    return False
                step *= a.extent
        return True


def with_length_symbols(size: SizeLike, lengths: Mapping[Size, Size]) -> SizeLike:
    """Returns a size with symbols in place of the products that they stand for."""
    for product, symbol in lengths.items():
        size = with_symbol(size, product, symbol)
    return size


def coalesce(
    rows: tuple[Axis, ...], columns: tuple[Axis, ...], places: list[Affine], lengths: Mapping[Size, Size] | None = None
) -> Merged:
    """Merges adjacent axes within rows and within columns. Axes of one iteration are dropped. lengths: see Merged."""
    lengths = lengths or {}
    rename: dict[Axis, Affine] = {}
    axis_of: dict[Axis, Axis] = {}

    def merge(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Merges neighboring axes that all places step through as one."""
        runs: list[list[Axis]] = []
        for a in axes:
            if a.extent == 1:
                continue
            if runs and all(p.coefficient(runs[-1][-1]) == p.coefficient(a) * a.extent for p in places):
                runs[-1].append(a)
            else:
                runs.append([a])
        return tuple(as_one(run, rename, axis_of, lengths) for run in runs)

    return Merged(merge(rows), merge(columns), rename, axis_of, lengths)


def as_one(
    axes: Sequence[Axis], rename: dict[Axis, Affine], axis_of: dict[Axis, Axis], lengths: Mapping[Size, Size] | None = None
) -> Axis:
    """Returns one axis that runs over several, the last the fastest. Adds to `rename` what replaces them in indices that are even
    along it, and to `axis_of` that it does. lengths: see Merged."""
    extent = with_length_symbols(math.prod(a.extent for a in axes), lengths or {})
    if len(axes) == 1 and extent == axes[0].extent:
        return axes[0]
    whole = Axis(extent, "".join(a.name for a in axes))
    rename.update(dict.fromkeys(axes[:-1], ZERO))
    rename[axes[-1]] = Affine.of(whole)
    axis_of.update(dict.fromkeys(axes, whole))
    return whole
