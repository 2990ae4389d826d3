"""Lowers tile.scan and tile.recurrence: prefixes of a block by shuffles of doubling distance. The carry is added last, so that
blocks wait for each other for one op."""

from collections.abc import Callable

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects.combining import LOG_SUM

from ...ir.emit import Emit
from ...ir.locations import where
from ...ir.reading import neutral_element
from ...ir.rewriting import replace_op

Join = Callable[[list[ir.Value], list[ir.Value]], list[ir.Value]]


def lower_scan(op: ir.Operation) -> None:
    """Lowers one tile.scan to log2(lanes) steps of shuffle and op, then one op with the carry."""
    block, carry = op.operands
    type_, name = ir.VectorType(block.type), ir.StringAttr(op.attributes["combine"]).value
    if name == LOG_SUM:
        remedy = "scan the greatest elements, and sums relative to them as a recurrence"
        raise CompileError("a CPU has no scan of logarithms of sums", where=where(op.location), remedy=remedy)
    e = _emitter(op, type_)
    neutral_block = e.constant(neutral_element(name, str(type_.element_type)), type_.element_type).value
    (block,) = _prefixes(e, type_, [block], [neutral_block], lambda before, own: [e.op(name, [type_], [before[0], own[0]]).result])
    last, start = _last(e, type_, block), e.op("vector.broadcast", [type_], [carry]).result
    replace_op(op, e.op(name, [type_], [start, block]).result, e.op(name, [type_.element_type], [carry, last]).result)


def lower_recurrence(op: ir.Operation) -> None:
    """Lowers one tile.recurrence to prefixes of pairs: the product of a run's factors, and what the run makes of 0."""
    x, decay, carry = op.operands
    block_type = ir.VectorType(x.type)
    e = _emitter(op, block_type)
    neutral_blocks = [e.constant(n, block_type.element_type).value for n in (1.0, 0.0)]

    def after(factor: ir.Value, start: ir.Value, sums: ir.Value) -> ir.Value:
        """Returns factor * start + sums."""
        type_ = factor.type
        return e.op("arith.addf", [type_], [e.op("arith.mulf", [type_], [factor, start]).result, sums]).result

    def join(before: list[ir.Value], own: list[ir.Value]) -> list[ir.Value]:
        """Composes two runs of the recurrence."""
        return [e.op("arith.mulf", [block_type], [own[0], before[0]]).result, after(own[0], before[1], own[1])]

    factors, sums = _prefixes(e, block_type, [decay, x], neutral_blocks, join)
    end = after(_last(e, block_type, factors), carry, _last(e, block_type, sums))
    replace_op(op, after(factors, e.op("vector.broadcast", [block_type], [carry]).result, sums), end)


def _emitter(op: ir.Operation, type_: ir.VectorType) -> Emit:
    return Emit(ir.InsertionPoint(op), op.location, list(type_.shape))


def _prefixes(e: Emit, type_: ir.VectorType, blocks: list[ir.Value], neutral_blocks: list[ir.Value], join: Join) -> list[ir.Value]:
    """Returns the prefixes of a block whose elements are tuples, one of each of `blocks`. neutral_blocks: the neutral tuple."""
    (lanes,) = type_.shape
    reach = 1
    while reach < lanes:
        mask = ir.DenseI64ArrayAttr.get([i - reach if i >= reach else lanes + i for i in range(lanes)])
        before = [e.op("vector.shuffle", [type_], [b, n], mask=mask).result for b, n in zip(blocks, neutral_blocks, strict=True)]
        blocks = join(before, blocks)
        reach *= 2
    return blocks


def _last(e: Emit, type_: ir.VectorType, block: ir.Value) -> ir.Value:
    position = ir.DenseI64ArrayAttr.get([type_.shape[0] - 1])
    return e.op("vector.extract", [type_.element_type], [block], static_position=position).result
