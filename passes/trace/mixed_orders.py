"""Finds values that are computed element by element from tensors of different dimension orders in memory, and then reduced.

A kernel that only maps such tensors transposes them in tiles (passes/tile/transpose_tiles.py). One that reduces them as well would
read one of them with gaps, a whole sector for each element. So the operand in one order is stored once in the other, and reduced
from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lamina.dialects.graph import CALLS

from ..ir.affine import in_order
from ..ir.extern_calls import is_external, memory_strides
from ..ir.reading import element_bits, elements_of, producer, shape_of
from ..ir.views import SINGLE_VIEWS
from .gathered import gather_sources, read_gather
from .orders import (
    LARGE,
    Read,
    behind_views,
    chain_of,
    innermost_of,
    map_of,
    strides_through_views,
    tensors,
    wanted_images,
    wanted_rows,
)


@dataclass(frozen=True)
class Orders:
    """The orders of dimensions that a function's values have in memory, or would have if they were stored.

    innermost  for values with memory, and those mapped from them, the dimension that is contiguous in memory; None if undetermined
    stored     values to store before they are reduced, with the dimension that is innermost there
    """

    innermost: dict[ir.Value, int | None]
    stored: dict[ir.Value, int]


def orders_of(ops: Sequence[ir.Operation], read: Read) -> Orders:
    """Returns the orders of a function's values.

    A value that a library takes with channels last, and that is mapped from another order, is stored channels last by a kernel that
    reduces nothing. So is a norm or a softmax that is wanted in another order than that of what it norms. Where an op maps tensors
    of two orders, one is stored in the order of the other: in that of memory that is not row-major (an image with channels
    last), else in the one nearest to row-major. What is stored is the computed value behind the operand, in its narrowest type,
    if that is not in memory yet; else the result. What is gathered lies as its source does. The source of a gather in front of a
    library call that takes channels last is stored channels last (see gather_sources).

    ops         in program order
    """
    reduced, normed, sources = _reduced(ops, read), _normed(ops, read), gather_sources(ops, read)
    orders = _Reader(read)
    for op in ops:
        orders.store_wanted(op, normed)
        mapped = map_of(op, read)
        if mapped is None:
            continue
        if not mapped and (gather := read_gather(op)) is not None:
            orders.gather(op.results[0], *gather, sources)
        else:
            orders.map(op.results[0], mapped, reduced)
    for v, dim in sources.items():
        if orders.order(v) not in (None, dim) and (chain := chain_of(v, read)):
            orders.stored[min(chain, key=element_bits)] = dim
    return Orders(orders.innermost, orders.stored)


class _Reader:
    """Reads ops in program order into `innermost` and `stored`, the fields of Orders."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.innermost: dict[ir.Value, int | None] = {}
        self.stored: dict[ir.Value, int] = {}
        self._firm: set[ir.Value] = set()  # values of memory that is not row-major: their order wins

    def order(self, v: ir.Value) -> int | None:
        """Returns the dimension of a value that is innermost in memory; None if undetermined."""
        if v not in self.innermost:
            strides = strides_through_views(v, self._base_strides)
            self.innermost[v] = innermost_of(shape_of(v), strides) if strides is not None else None
            base = behind_views(v)
            given = innermost_of(shape_of(base), memory_strides(base)) if is_external(base) else None
            if base in self._firm or given not in (None, last_of(base)):
                self._firm.add(v)
        return self.innermost[v]

    def _base_strides(self, v: ir.Value) -> tuple[int, ...] | None:
        if is_external(v):
            return memory_strides(v)
        inner, shape = self.innermost.get(v), shape_of(v)
        return None if inner is None else in_order(shape, (*(d for d in range(len(shape)) if d != inner), inner))

    def store_wanted(self, op: ir.Operation, normed: set[ir.Value]) -> None:
        """Stores computed operands that `op` wants in another order: images channels last and, of norms, rows."""
        rows = {v: dim for v, dim in wanted_rows(op).items() if v in normed}
        for v, dim in (wanted_images(op) | rows).items():
            if self.order(v) not in (None, dim) and producer(v) is not None and map_of(v.owner, self.read):
                self.stored[v] = self.innermost[v] = dim

    def gather(self, result: ir.Value, source: ir.Value, dims: Sequence[int | None], sources: Mapping[ir.Value, int]) -> None:
        """Gives a gather's result the order of its source, or that in which the source will be stored.

        dims     dimensions of the result, by those of the source
        sources  of the gathers whose source is stored in another order, with the innermost dimension there
        """
        inner = sources.get(source, self.order(source))
        self.innermost[result] = dims[inner] if inner is not None else None
        if source in self._firm:
            self._firm.add(result)

    def map(self, result: ir.Value, mapped: Mapping[ir.Value, Sequence[int]], reduced: set[ir.Value]) -> None:
        """Gives a result the order of the operands that it maps; where two orders meet in front of a reduction, stores one.

        mapped   the dimension of the result for each dimension of these operands
        reduced  values that a reduction reads
        """
        innermost_of = {v: dims[i] for v, dims in mapped.items() if (i := self.order(v)) is not None}
        firm = [i for v, i in innermost_of.items() if v in self._firm]
        best = self.innermost[result] = min(firm) if firm else max(innermost_of.values(), default=None)
        if firm:
            self._firm.add(result)
        if best is None or len(set(innermost_of.values())) < 2 or elements_of(result) < LARGE:
            return
        for v in [v for v, i in innermost_of.items() if i != best]:
            chain = chain_of(v, self.read) if shape_of(v) == shape_of(result) else []
            chain = chain or [result]
            if any(x in reduced for x in chain):
                self.stored[min(chain, key=element_bits)] = best
                self.innermost.update(dict.fromkeys(chain, best))


def last_of(v: ir.Value) -> int:
    """Returns the last dimension of more than one element."""
    return max((i for i, n in enumerate(shape_of(v)) if n != 1), default=0)


def _normed(ops: Sequence[ir.Operation], read: Read) -> set[ir.Value]:
    """Returns the values computed element by element from the results of reductions, without memory in between."""
    normed: set[ir.Value] = set()
    for op in ops:
        g = read(op) if op.name == "linalg.generic" else None
        if op.name not in CALLS and ((g is not None and any(g.reduced)) or any(v in normed for v in op.operands)):
            normed.update(op.results)
    return normed


def _reduced(ops: Sequence[ir.Operation], read: Read) -> set[ir.Value]:
    """Returns the values that a reduction reads, and those that these are computed from element by element."""
    reduced: set[ir.Value] = set()
    for op in reversed(ops):
        g = read(op) if op.name == "linalg.generic" else None
        if g is not None and any(g.reduced):
            reduced.update(tensors(op.operands))
        elif any(v in reduced for v in op.results):
            reduced.update(map_of(op, read) or (tensors(op.operands)[:1] if op.name in SINGLE_VIEWS else ()))
    return reduced
