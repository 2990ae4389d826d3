"""Splits a group with row or column sums of a product into a GEMM epilogue, a reduction of its partial sums, and the remainder."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lamina.schedules.contraction import GemmConfig

from ...ir.reading import Generic, ops_in, producer, shape_of
from ...ir.rewriting import copy_ops, read_by
from ...space.contraction import Unfit
from ..surroundings import ValueMap, group_before
from .column_sums import ColumnSum, column_sums
from .row_sums import RowSum, dependents, row_sums

AnySum = RowSum | ColumnSum


@dataclass(frozen=True)
class Pieces:
    """Groups that together compute what one group did.

    first    the GEMM epilogue
    later    the reduction of its partial sums, and the remainder, if any
    results  replacements for the results of the original group
    """

    first: ir.Operation
    later: tuple[ir.Operation, ...]
    results: tuple[ir.Value, ...]

    def erase(self) -> None:
        """Erases the pieces, users first."""
        for group in (*reversed(self.later), self.first):
            group.erase()


def split_at_sums(group: ir.Operation, products: Sequence[ir.Value], config: GemmConfig) -> Pieces:
    """Splits a group at its row sums; the pieces stand in front of it.

    The first yields what needs no row sum, and the sums of blocks of the schedule's columns. The second adds these and computes
    whatever has one element per row. The third, if needed, computes what has whole rows, from values that the first has stored.
    Column sums are split in the same way, by blocks of rows. products: the group's operands that are products.
    Raises Unfit if there is no such sum.
    """
    block = group.regions[0].blocks[0]
    *body, end = ops_in(block)
    sums, width = _sums(body, shape_of(products[0]), config)
    totals = [s.result for s in sums]
    operands = dict(zip(block.arguments, group.operands, strict=True))
    others = {a: v for a, v in operands.items() if v not in products}
    after_sums = dependents(body, totals)
    results = dict.fromkeys(end.operands)
    wanted = [v for v in results if v in after_sums]
    # The epilogue stores the results that need no sum, and what the later pieces read of the products.
    ops, _ = _slice(block, wanted, [*totals, *operands])
    of_products = dependents(body, [a for a in operands if a not in others]) - after_sums
    read = {_narrow(v): None for op in ops if op.results[0] in after_sums for v in read_by(op) if v in of_products}
    stored = list(dict.fromkeys([*(v for v in results if v not in after_sums), *read]))
    first = _epilogue(group, operands, stored, sums, width)
    known = others | dict(zip(stored, first.results, strict=False))
    partial = dict(zip(totals, list(first.results)[len(stored) :], strict=True))
    # The reduction computes the values with one element per row, the remainder those with whole rows.
    row_values = _row_values(ops, totals, after_sums)
    whole_rows = [v for v in wanted if v not in row_values]
    remainder_ops, remainder_reads = _slice(block, whole_rows, [*known, *row_values])
    reduced = list(dict.fromkeys(v for v in (*wanted, *remainder_reads) if v in row_values))
    later = [_reduction(group, known, partial, reduced, sums, width)]
    known |= dict(zip(reduced, later[0].results, strict=True))
    if whole_rows:
        later.append(_remainder(group, remainder_ops, whole_rows, {v: known[v] for v in remainder_reads}))
        known |= dict(zip(whole_rows, later[1].results, strict=True))
    return Pieces(first, tuple(later), tuple(known[v] for v in end.operands))


def _epilogue(group: ir.Operation, outer: ValueMap, stored: Sequence[ir.Value], sums: Sequence[AnySum], width: int) -> ir.Operation:
    """Emits the group that yields the values `stored`, then the sums of each block. outer: the group's operands by argument."""
    ops, leaves = _slice(group.regions[0].blocks[0], [*stored, *(s.summed for s in sums)], list(outer))

    def fill(values: ValueMap) -> list[ir.Value]:
        """Computes what the epilogue stores, and the sums of its blocks."""
        copy_ops(ops, values)
        return [*(values[v] for v in stored), *(s.blocks(values[s.summed], width) for s in sums)]

    types = [*(v.type for v in stored), *(s.blocks_type(width) for s in sums)]
    return group_before(group, ops or [group], {v: outer[v] for v in leaves}, types, fill)


def _reduction(
    group: ir.Operation, known: ValueMap, partial: ValueMap, of_rows: Sequence[ir.Value], sums: Sequence[AnySum], width: int
) -> ir.Operation:
    """Emits the group that adds up the sums of blocks, and computes the values `of_rows` of them.

    known    what stands for values of the body that need no such sum
    partial  the sums of blocks, by their total
    """
    block = group.regions[0].blocks[0]
    rest, read = _slice(block, of_rows, [*known, *partial])
    inits, _ = _slice(block, [s.init for s in sums], [])

    def fill(values: ValueMap) -> list[ir.Value]:
        """Combines the sums of the blocks of each row."""
        copy_ops(inits, values)
        parts = {v: values[v] for v in partial}
        for s in sums:
            values[s.result] = s.total(parts[s.result], values[s.init], parts, values, width)
        copy_ops([o for o in rest if o.results[0] not in values], values)
        return [values[v] for v in of_rows]

    operands = {v: known[v] for v in read if v not in partial} | partial
    return group_before(group, [*(s.generic.op for s in sums), *rest], operands, [v.type for v in of_rows], fill)


def _remainder(group: ir.Operation, ops: Sequence[ir.Operation], wanted: Sequence[ir.Value], operands: ValueMap) -> ir.Operation:
    """Emits the group that computes what has whole rows and reads the sums."""

    def fill(values: ValueMap) -> list[ir.Value]:
        """Computes what reads the sums."""
        copy_ops(ops, values)
        return [values[v] for v in wanted]

    return group_before(group, ops or [group], operands, [v.type for v in wanted], fill)


def _sums(body: Sequence[ir.Operation], shape: Sequence[int], config: GemmConfig) -> tuple[Sequence[AnySum], int]:
    """Returns the row sums or else the column sums of a body, and the size of a block in that direction. Raises Unfit if there
    are none, or other reductions."""
    try:
        return row_sums(body, shape[-1]), config.n
    except Unfit:
        if len(shape) != 2:
            raise
        rows, columns = shape
        return column_sums(body, rows, columns, config.m), config.m


def _row_values(ops: Iterable[ir.Operation], totals: Sequence[ir.Value], after_sums: set[ir.Value]) -> set[ir.Value]:
    """Returns the sums, and values computed from them that are no larger. after_sums: all values that depend on sums."""
    few, of_rows = max(math.prod(shape_of(v)) for v in totals), set(totals)
    for op in ops:
        of_sums = [v for v in read_by(op) if v in after_sums]
        if of_sums and of_rows.issuperset(of_sums) and math.prod(shape_of(op.results[0])) <= few:
            of_rows.update(op.results)
    return of_rows


def _narrow(v: ir.Value) -> ir.Value:
    """Returns the narrower value that this one extends, such as bf16 for f32, if any: fewer bytes to store."""
    op = producer(v)
    if op is None or op.name != "linalg.generic" or len(op.operands) != 2:
        return v
    g = Generic.read(op)
    source = producer(g.yields[0])
    widens = source is not None and source.name == "arith.extf" and source.operands[0] in g.body
    return _narrow(op.operands[0]) if widens and g.maps[0] == g.maps[1] else v


def _slice(block: ir.Block, roots: Sequence[ir.Value], leaves: Sequence[ir.Value]) -> tuple[list[ir.Operation], list[ir.Value]]:
    """Returns the backward slice of `roots` in a block, in order, and the `leaves` it reads. Raises Unfit if it reads other
    arguments of the block."""
    producer_of = {r: o.operation for o in block.operations for r in o.operation.results}
    computed: set[ir.Value] = set()
    used: dict[ir.Value, None] = {}
    stack = list(roots)
    while stack:
        v = stack.pop()
        if v in leaves:
            used[v] = None
        elif v in set(block.arguments):
            raise Unfit("what follows a sum along rows reads the product itself")
        elif v in producer_of and v not in computed:
            computed.update(producer_of[v].results)
            stack.extend(read_by(producer_of[v]))
    return [o.operation for o in block.operations if not computed.isdisjoint(o.operation.results)], list(used)
