"""Groups that sum along the rows of a product, cut in two: what a product's kernel can do, and what needs whole sums."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from .contraction import Unfit
from .copying import copy_ops, read_by
from .locations import fused, model_ops, op_word
from .row_sums import RowSum, is_reduction

_MADE_AGAIN = ("arith.constant", "tensor.empty", "linalg.fill")  # rather than stored
Values = dict[ir.Value, ir.Value]


@dataclass(frozen=True)
class Halves:
    """Two groups that compute what one does. results: what stands for those of that one."""

    first: ir.Operation
    second: ir.Operation
    results: tuple[ir.Value, ...]

    def erase(self) -> None:
        self.second.erase()
        self.first.erase()


def split_at_sums(group: ir.Operation, products: Sequence[ir.Value], width: int) -> Halves:
    """Puts beside a group one that yields what needs no sum along rows, and the sums of each block of `width` columns, and one that
    goes on from there. products: the operands whose rows they are. Unfit where there is no such sum, or where what follows reads
    more than is stored."""
    block = group.regions[0].blocks[0]
    *body, end = [o.operation for o in block.operations]
    columns = ir.RankedTensorType(products[0].type).shape[-1]
    sums = [RowSum.read(op, columns) for op in body if is_reduction(op)]
    late = _after(body, [s.result for s in sums])
    if not sums or not late.isdisjoint(s.operand for s in sums):
        raise Unfit("no sum along the rows of the product, or one of what depends on another")
    outer = dict(zip(block.arguments, group.operands, strict=True))
    results = dict.fromkeys(end.operands)
    stored = [v for v in results if v not in late]
    wanted = [v for v in results if v in late]

    ops, leaves = _slice(block, [*stored, *(s.operand for s in sums)], list(block.arguments))

    def begin(values: Values) -> list[ir.Value]:
        copy_ops(ops, values)
        return [*(values[v] for v in stored), *(s.blocks(values[s.operand], width) for s in sums)]

    types = [*(v.type for v in stored), *(s.blocks_type(width) for s in sums)]
    rest, reads = _slice(block, wanted, [*stored, *(s.result for s in sums), *(a for a in outer if outer[a] not in products)])
    inits, _ = _slice(block, [s.init for s in sums], [])
    if again := [o.name for o in (*rest, *inits) if o.results[0] not in late and o.name not in _MADE_AGAIN]:
        raise Unfit(f"what follows a sum along rows reads what {again[0]} gives, which is not stored")
    first = group_before(group, ops, {v: outer[v] for v in leaves}, types, begin)
    given = [v for v in reads if v not in late]
    partial = dict(zip(sums, list(first.results)[len(stored) :], strict=True))
    kept = dict(zip(stored, first.results, strict=False))

    def finish(values: Values) -> list[ir.Value]:
        copy_ops(inits, values)
        for s, argument in zip(sums, list(values.values())[len(given) : len(given) + len(sums)], strict=True):
            values[s.result] = s.total(argument, values[s.init])
        copy_ops([o for o in rest if o.results[0] not in values], values)
        return [values[v] for v in wanted]

    operands = {v: kept.get(v, outer.get(v)) for v in given} | {s.result: partial[s] for s in sums}
    second = group_before(group, [*(s.of.op for s in sums), *rest], operands, [v.type for v in wanted], finish)
    made = kept | dict(zip(wanted, second.results, strict=True))
    return Halves(first, second, tuple(made[v] for v in end.operands))


def _after(body: Iterable[ir.Operation], roots: Iterable[ir.Value]) -> set[ir.Value]:
    """Some values and all that depend on them."""
    late = set(roots)
    for op in body:
        if not late.isdisjoint(read_by(op)):
            late.update(op.results)
    return late


def _slice(block: ir.Block, roots: Sequence[ir.Value], leaves: Sequence[ir.Value]) -> tuple[list[ir.Operation], list[ir.Value]]:
    """The ops of a block that make `roots`, in order, and which of `leaves` they begin with. Unfit where they begin with other
    arguments of it."""
    made = {r: o.operation for o in block.operations for r in o.operation.results}
    found: set[ir.Value] = set()
    used: dict[ir.Value, None] = {}
    stack = list(roots)
    while stack:
        v = stack.pop()
        if v in leaves:
            used[v] = None
        elif v in set(block.arguments):
            raise Unfit("what follows a sum along rows reads the product itself")
        elif v in made and v not in found:
            found.update(made[v].results)
            stack.extend(read_by(made[v]))
    return [o.operation for o in block.operations if not found.isdisjoint(o.operation.results)], list(used)


def group_before(
    like: ir.Operation,
    ops: Sequence[ir.Operation],
    operands: Values,
    types: Sequence[ir.Type],
    fill: Callable[[Values], list[ir.Value]],
) -> ir.Operation:
    """A group before `like`, named by the ops that it is made of. operands: by what they stand for."""
    location = fused([op.location for op in ops] or [like.location])
    words = list(dict.fromkeys(op_word(name) for name in model_ops(location)))
    name = {"sym_name": ir.StringAttr.get("_".join(words[:5]) or "sums")}
    with location, ir.InsertionPoint(like):
        new = ir.Operation.create("graph.group", results=list(types), operands=list(operands.values()), attributes=name, regions=1)
        block = new.regions[0].blocks.append(*[v.type for v in operands.values()])
        with ir.InsertionPoint(block):
            ir.Operation.create("graph.yield", operands=fill(dict(zip(operands, block.arguments, strict=True))))
    return new
