"""lamina-merge-views: simplifies chains of reshapes and transposes that merge dimensions only to split them again."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from ..infra.base import Pass
from ..ir.generics import transposed
from ..ir.reading import ops_in, shape_of
from ..ir.reshapes import collapsed, expanded
from ..ir.rewriting import tensor_blocks
from ..ir.views import WHOLE_VIEWS, groups, through_views


@dataclass(frozen=True)
class MergeViews(Pass):
    """Replace a chain of reshapes and transposes by one split, one transpose and one merge where that merges fewer dimensions.

    Heads are often merged with the batch, transposed and split again, as torch.nn's layers do. No strides
    express the merged tensor, so it would be copied:

        %m = tensor.collapse_shape %x [[0, 1], [2], [3]] : tensor<32x12x197x64xf32> into tensor<384x197x64xf32>
        %t = linalg.transpose ins(%m) outs(%e) permutation = [1, 0, 2]
        %r = tensor.expand_shape %t [[0], [1, 2], [3]] output_shape [197, 32, 12, 64]
     -> %r = linalg.transpose ins(%x) outs(%f) permutation = [2, 0, 1, 3]

    Each dimension is tracked as the factors that reshapes split it into. Chains whose reshapes cut through factors stay.
    """

    name: ClassVar[str] = "lamina-merge-views"

    def run(self, module: ir.Module) -> None:
        """Rewrites the chains of each block and erases the views that are then unused."""
        for block in list(tensor_blocks(module)):
            ops = ops_in(block)
            for op in ops:
                if op.name in WHOLE_VIEWS and any(use.owner.operation.name not in WHOLE_VIEWS for use in op.results[0].uses):
                    _merge(op)
            for op in reversed(ops):
                if op.name in WHOLE_VIEWS and not list(op.results[0].uses):
                    op.erase()


class _Uneven(Exception):
    """Raised where a reshape splits a dimension at a place where none of its factors ends."""


class _Factors:
    """The factors of a tensor's dimensions, by number, and their current grouping into dimensions.

    sizes   of each factor
    base    the factors of each dimension of the tensor that a chain of views starts from
    dims    those of each dimension of the current view
    merges  how many times the chain merged two dimensions
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.sizes = list(shape)
        self.base = [[i] if n != 1 else [] for i, n in enumerate(shape)]
        self.dims = [list(d) for d in self.base]
        self.merges = 0

    def apply(self, op: ir.Operation) -> None:
        """Applies one view op. Raises _Uneven."""
        if op.name == "linalg.transpose":
            self.dims = [self.dims[i] for i in ir.DenseI64ArrayAttr(op.attributes["permutation"])]
        elif op.name == "tensor.collapse_shape":
            merged = [[f for d in group for f in self.dims[d]] for group in groups(op)]
            self.merges += sum(max(sum(bool(self.dims[d]) for d in group) - 1, 0) for group in groups(op))
            self.dims = merged
        else:
            shape = shape_of(op.results[0])
            parts = [part for d, group in enumerate(groups(op)) for part in self._split(d, [shape[i] for i in group])]
            self.dims = parts if self.dims else [[] for _ in shape]  # a number becomes dimensions of 1

    def _split(self, d: int, sizes: Sequence[int]) -> list[list[int]]:
        """Returns the factors of each of the dimensions, of these sizes, that dimension `d` is split into. Raises _Uneven."""
        waiting, parts = list(self.dims[d]), []
        for n in sizes:
            part: list[int] = []
            while n != 1:
                factor = waiting.pop(0)
                if n % self.sizes[factor]:
                    if self.sizes[factor] % n:
                        raise _Uneven
                    waiting.insert(0, self._cut(factor, n))
                part.append(factor)
                n //= self.sizes[factor]
            parts.append(part)
        return parts

    def _cut(self, factor: int, n: int) -> int:
        """Splits a factor into its first `n` and the remaining factor, which is returned."""
        new = len(self.sizes)
        self.sizes.append(self.sizes[factor] // n)
        self.sizes[factor] = n
        for dims in (self.base, self.dims):
            for part in dims:
                if factor in part:
                    part.insert(part.index(factor) + 1, new)
        return new

    def join(self) -> None:
        """Joins factors that stayed adjacent."""
        behind = {a: b for part in self.base for a, b in itertools.pairwise(part)}
        for part in self.dims:
            for a, b in reversed(list(itertools.pairwise(part))):
                if behind.get(a) == b:
                    self.sizes[a] *= self.sizes[b]
                    part.remove(b)
                    next(p for p in self.base if b in p).remove(b)
                    if b in behind:
                        behind[a] = behind.pop(b)
                    else:
                        del behind[a]


def _merge(op: ir.Operation) -> None:
    chain, source = through_views(op.results[0], WHOLE_VIEWS)
    if 0 in shape_of(source):
        return
    factors = _Factors(shape_of(source))
    try:
        for each in reversed(chain):
            factors.apply(each)
    except _Uneven:
        return
    factors.join()
    if sum(max(len(part) - 1, 0) for part in factors.dims) >= factors.merges:
        return
    with op.location, ir.InsertionPoint(op):
        op.results[0].replace_all_uses_with(_emit(source, factors, shape_of(op.results[0])))


def _emit(source: ir.Value, factors: _Factors, shape: Sequence[int]) -> ir.Value:
    """Splits the source into its factors, transposes these, and merges them."""
    before = [f for part in factors.base for f in part]
    after = [f for part in factors.dims for f in part]
    split = expanded(collapsed(source, [n for n in shape_of(source) if n != 1]), [factors.sizes[f] for f in before])
    if before != after:
        split = transposed(split, [before.index(f) for f in after])
    merged = [math.prod(factors.sizes[f] for f in part) for part in factors.dims if part]
    return expanded(collapsed(split, merged), shape)
