"""random.bits as one thread draws them: one block of four words for four neighbouring elements."""

from typing import TYPE_CHECKING

from torch_mlir import ir

from .. import philox
from ..emit import Emit
from .values import Spread, has_blocks, per_part, together

if TYPE_CHECKING:
    from .kernel import Kernel


def bits(k: "Kernel", op: ir.Operation) -> None:
    neighbours = philox.neighbours(op, k.divisors) if has_blocks(op) and k.shape.vec % philox.WORDS == 0 else None
    if neighbours is None:
        k.held[op.results[0]] = _one_by_one(k, op)
        return
    i64 = ir.IntegerType.get_signless(64)
    e = Emit(ir.InsertionPoint.current, ir.Location.current)
    seed, base = (k.uniform(v) for v in neighbours)
    parts = []
    for offset in k.offsets:
        first = (e.wrap(base) + e.wrap(offset)).cast("arith.index_castui", i64).shr(2)  # base may be below 0, before the tensor
        blocks = [philox.block(e.wrap(seed), first + i if i else first) for i in range(k.shape.vec // philox.WORDS)]
        parts.append(together([word.value for words in blocks for word in words]))
    k.held[op.results[0]] = Spread(tuple(parts))


def _one_by_one(k: "Kernel", op: ir.Operation) -> Spread | ir.Value:
    """A block of words for every element, of which it takes one."""

    def drawn(seed: ir.Value, index: ir.Value) -> ir.Value:
        shape = index.type.shape if isinstance(index.type, ir.VectorType) else ()
        e = Emit(ir.InsertionPoint.current, ir.Location.current, shape)
        return philox.element(e.wrap(seed), e.wrap(index), philox.block).value

    if not has_blocks(op):
        return drawn(*map(k.uniform, op.operands))
    return per_part(drawn, *map(k.spread, op.operands))
