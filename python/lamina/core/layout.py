"""Strided layouts of tensors in memory, the effect of views on shape, strides and offset, all in elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from .sizes import SizeLike, below, typical, where_elements


@dataclass(frozen=True)
class Layout:
    """A strided layout: element [i, j, ...] lies at offset + i*strides[0] + j*strides[1] + ...

    `of` and `row_major` make canonical layouts, so that equal layouts compare equal: a dimension of length 1 gets the stride that
    continues its inner neighbor, and a tensor without elements is row-major; strides of symbolic sizes are those for elements.
    """

    shape: tuple[SizeLike, ...]
    strides: tuple[SizeLike, ...]
    offset: SizeLike

    @staticmethod
    def of(shape: Sequence[SizeLike], strides: Sequence[SizeLike], offset: SizeLike = 0) -> "Layout":
        """Returns the canonical layout of a shape with these strides."""
        if 0 in shape:
            return Layout.row_major(shape)
        normal: list[SizeLike] = []
        inner: SizeLike = 1
        for size, stride in zip(reversed(shape), reversed(strides), strict=True):
            normal.append(inner if size == 1 else where_elements(stride, shape))
            inner = size * normal[-1]
        return Layout(tuple(shape), tuple(reversed(normal)), offset)

    @staticmethod
    def row_major(shape: Sequence[SizeLike]) -> "Layout":
        """Returns the contiguous layout of a shape, at offset 0."""
        strides: list[SizeLike] = []
        inner = 1
        for size in reversed(shape):
            strides.append(inner)
            inner = (1 if size == 0 else size) * inner
        return Layout(tuple(shape), tuple(reversed(strides)), 0)

    @property
    def span(self) -> SizeLike:
        """Elements from the first to the last one touched, both included; 0 when there are none."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    @property
    def is_row_major(self) -> bool:
        """Whether the strides are those of a contiguous tensor."""
        return self.strides == Layout.row_major(self.shape).strides

    @property
    def is_dense(self) -> bool:
        """Whether every element of the span belongs to the tensor exactly once: a permutation of a row-major layout."""
        return self.order is not None

    @property
    def order(self) -> tuple[int, ...] | None:
        """The dimensions of a dense layout from the outermost in memory to the innermost, those of length 1 first; None for any
        other layout."""
        inner: SizeLike = 1
        ones = [d for d, size in enumerate(self.shape) if size == 1]
        left = [d for d, size in enumerate(self.shape) if size != 1]
        order: list[int] = []
        while left:
            following = next((d for d in left if self.strides[d] == inner), None)
            if following is None:
                return tuple(range(len(self.shape))) if 0 in self.shape else None
            left.remove(following)
            order.append(following)
            inner = self.shape[following] * inner
        return (*ones, *reversed(order))

    @property
    def is_injective(self) -> bool:
        """Whether no two elements share memory, as far as strides in some order of the dimensions show."""
        reach: SizeLike = 0
        dims = [(stride, size) for size, stride in zip(self.shape, self.strides, strict=True) if size != 1]
        for stride, size in sorted(dims, key=lambda dim: (typical(dim[0]), typical(dim[1]))):
            if not below(reach, stride):
                return 0 in self.shape
            reach = (size - 1) * stride + reach
        return True

    def projected(self, dims: Sequence[int | None], shape: Sequence[SizeLike]) -> "Layout":
        """Permutes and broadcasts: dimension i of the result walks dimension dims[i] of this layout, or repeats (stride 0) where
        that is None."""
        strides = [0 if d is None else self.strides[d] for d in dims]
        return Layout.of(shape, strides, self.offset)

    def sliced(self, offsets: Sequence[SizeLike], sizes: Sequence[SizeLike], steps: Sequence[SizeLike]) -> "Layout":
        """Returns the layout of a strided slice, with an offset, size and step for each dimension."""
        start = self.offset + sum(o * t for o, t in zip(offsets, self.strides, strict=True))
        return Layout.of(sizes, [t * step for t, step in zip(self.strides, steps, strict=True)], start)

    def expanded(self, groups: Sequence[Sequence[int]], shape: Sequence[SizeLike]) -> "Layout":
        """Splits dimension k into dimensions groups[k] of `shape`."""
        strides = [1] * len(shape)
        for dim, group in enumerate(groups):
            inner = self.strides[dim]
            for i in reversed(group):
                strides[i] = inner
                inner *= shape[i]
        return Layout.of(shape, strides, self.offset)

    def collapsed(self, groups: Sequence[Sequence[int]]) -> "Layout | None":
        """Joins dimensions groups[k] into dimension k. Returns None when no single stride can describe the joined dimension."""
        shape = [prod(self.shape[i] for i in group) for group in groups]
        if 0 in shape:
            return Layout.row_major(shape)
        strides: list[SizeLike] = []
        for group in groups:
            long = [i for i in group if self.shape[i] != 1]
            if any(self.strides[i] != self.strides[k] * self.shape[k] for i, k in pairwise(long)):
                return None
            strides.append(self.strides[long[-1]] if long else 1)
        return Layout.of(shape, strides, self.offset)
