"""Expands random.bits to arithmetic on blocks: four neighboring elements share one block of Philox."""

from torch_mlir import ir

from ..ir.emit import Emit, Num
from ..ir.rewriting import replace_op
from . import philox
from .simt.divisors import Divisors


def expand(op: ir.Operation) -> None:
    """Replaces random.bits, on scalars or on a CPU's block of lanes, by arithmetic. Four neighbors share one block of words where
    the first lane's index is known to be a multiple of four."""
    together = philox.neighbors(op)
    if together is not None and op.results[0].type.shape[0] % philox.WORDS == 0 and Divisors().of(together[1]) % philox.WORDS == 0:
        out = _in_order(op, *together)
    else:
        e, (seed, index) = Emit.before(op), op.operands
        out = philox.element(e.wrap(seed), e.wrap(index), philox.wide_block).value
    replace_op(op, out)


def _in_order(op: ir.Operation, seed: ir.Value, base: ir.Value) -> ir.Value:
    """Returns the words of all blocks of the lanes from `base` on."""
    count, i64 = op.results[0].type.shape[0] // philox.WORDS, ir.IntegerType.get_signless(64)
    one, many, pairs = (Emit(ir.InsertionPoint(op), op.location, shape) for shape in ((), [count], [2 * count]))

    def spread(x: Num) -> Num:
        """Broadcasts a scalar to all lanes."""
        return many.make("vector.broadcast", many.type(i64), x)

    first = one.wrap(base).cast("arith.index_cast", i64) >> 2  # negative where lanes lie before the tensor
    steps = many.make("vector.step", many.type(ir.IndexType.get())).cast("arith.index_castui", i64)
    a, b, c, d = philox.wide_block(spread(one.wrap(seed)), spread(first) + steps)
    ab, cd = ((x & philox.LOWER) | (y << 32) for x, y in ((a, b), (c, d)))
    return pairs.make("vector.bitcast", op.results[0].type, pairs.make("vector.interleave", pairs.type(i64), ab, cd)).value
