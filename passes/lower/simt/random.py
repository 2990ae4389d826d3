"""Lowers random.bits for one thread: it computes only the blocks of four words that contain the thread's elements."""

from math import gcd
from typing import TYPE_CHECKING

from torch_mlir import ir

from ...ir.emit import Emit, Num
from .. import philox
from ..philox import WORDS
from .values import Spread, has_blocks, per_part, vector_of

if TYPE_CHECKING:
    from .kernel import ThreadKernel


def bits(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers one random.bits."""
    neighbors = philox.neighbors(op) if has_blocks(op) else None
    if neighbors is None:
        k.values[op.results[0]] = _one_by_one(k, op)
        return
    e = Emit(ir.InsertionPoint.current, ir.Location.current)
    seed, base = (e.wrap(k.uniform(v)) for v in neighbors)
    divisor = gcd(k.divisors.of(neighbors[1]), k.shape.vec, WORDS)
    parts = [_window(seed, base + e.wrap(offset), k.shape.vec, divisor) for offset in k.offsets]
    k.values[op.results[0]] = Spread(tuple(vector_of([word.value for word in words]) for words in parts))


def _window(seed: Num, first: Num, count: int, divisor: int) -> list[Num]:
    """Returns the words of `count` elements from number `first` on, which is a multiple of `divisor`: 1, 2 or 4. Elements before
    the tensor, of which there may be some in front of the others, have negative numbers."""
    i64, whole = ir.IntegerType.get_signless(64), divisor == WORDS  # then all elements of a block are before the tensor, or none
    number = first.cast("arith.index_castui", i64).shr(2) if whole else first.cast("arith.index_cast", i64) >> 2
    blocks = -(-(WORDS - divisor + count) // WORDS)
    words = [word for i in range(blocks) for word in philox.block(seed, number + i if i else number)]
    for step, needed in ((1, count + 2), (2, count)):
        if step >= divisor:
            ahead = (first & step).compare("ne", 0)
            words = [words[i + step].where(ahead, words[i]) for i in range(needed)]
    return words[:count]


def _one_by_one(k: "ThreadKernel", op: ir.Operation) -> Spread | ir.Value:
    """Computes a block of words for every element, of which it takes one."""

    def drawn(seed: ir.Value, index: ir.Value) -> ir.Value:
        """Draws the bits for an index, or a vector of them."""
        shape = index.type.shape if isinstance(index.type, ir.VectorType) else ()
        e = Emit(ir.InsertionPoint.current, ir.Location.current, shape)
        return philox.element(e.wrap(seed), e.wrap(index), philox.block).value

    if not has_blocks(op):
        return drawn(*map(k.uniform, op.operands))
    return per_part(drawn, *map(k.spread, op.operands))
