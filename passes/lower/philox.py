"""Random bits from counters: Philox4x32 of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011).

A block of four words is a function of a counter and a key, so any element can be computed alone. Seven rounds are the least that
pass BigCrush there; ten, which others use, are half as much work again.
"""

from collections.abc import Callable, Sequence

from torch_mlir import ir

from ..ir.emit import Emit, Num
from .simt.divisors import Divisors

ROUNDS = 7
WORDS = 4  # of one block
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_LOWER = 2**32 - 1
_STEPS = (0x9E3779B9, 0xBB67AE85)  # of the key: golden ratio and sqrt(3) - 1, in 32 bits


def philox(counter: Sequence[Num], key: Sequence[Num], rounds: int = ROUNDS) -> tuple[Num, ...]:
    """Four words from a counter of four and a key of two, all i32; or all i64, of which the lower halves count."""
    a, b, c, d = counter
    k, m = key
    for i in range(rounds):
        if i:
            k, m = k + _STEPS[0], m + _STEPS[1]
        (low_a, high_a), (low_c, high_c) = _product(a, _MULTIPLIERS[0]), _product(c, _MULTIPLIERS[1])
        a, b, c, d = high_c ^ b ^ k, low_c, high_a ^ d ^ m, low_a
    return a, b, c, d


def _product(x: Num, factor: int) -> tuple[Num, Num]:
    """Both halves of a product of unsigned numbers of 32 bits."""
    if x.element.width == 64:
        whole = (x & _LOWER) * factor
        return whole, whole.shr(32)
    of = x.value.type
    low, high = x.at.op("arith.mului_extended", [of, of], [x.value, x.like(factor).value]).results
    return x.at.wrap(low), x.at.wrap(high)


def block(seed: Num, number: Num) -> tuple[Num, ...]:
    """The words of block `number` of what a seed names, from i64 in i32."""
    zero = seed.at.i32(0)
    return philox((*map(_word, _halves(number)), zero, zero), [*map(_word, _halves(seed))])


def wide_block(seed: Num, number: Num) -> tuple[Num, ...]:
    """The same in lower halves of i64: vectors of these are what x86 multiplies."""
    zero = seed.like(0)
    return philox((*_halves(number), zero, zero), _halves(seed))


def _halves(x: Num) -> tuple[Num, Num]:
    return x, x.shr(32)


def _word(x: Num) -> Num:
    return x.cast("arith.trunci", ir.IntegerType.get_signless(32))


def element(seed: Num, index: Num, make: Callable[[Num, Num], tuple[Num, ...]]) -> Num:
    """random.bits where neighbours do not stand together: a block for every element. make: block or wide_block."""
    number = index.cast("arith.index_castui", ir.IntegerType.get_signless(64))
    words, place = make(seed, number.shr(2)), number & 3
    out = words[3]
    for i in (2, 1, 0):
        out = words[i].where(place.compare("eq", i), out)
    return _word(out) if out.element.width == 64 else out


def neighbours(op: ir.Operation) -> tuple[ir.Value, ir.Value] | None:
    """The seed, and the index of the first lane, of a random.bits whose lanes are neighbours: its seed is one for all, its index is
    base + lane."""
    seed, index = (v.owner for v in op.operands)
    if isinstance(seed, ir.Block) or isinstance(index, ir.Block):
        return None
    if seed.name != "vector.broadcast" or index.name != "arith.addi":
        return None
    first, step = (v.owner for v in index.operands)
    if isinstance(first, ir.Block) or isinstance(step, ir.Block):
        return None
    if (first.name, step.name) != ("vector.broadcast", "vector.step"):
        return None
    return seed.operands[0], first.operands[0]


def expand(op: ir.Operation) -> None:
    """random.bits on scalars or on a CPU's block of lanes -> arithmetic, one block of words for four neighbours where it may be."""
    together = neighbours(op)
    if together is not None and op.results[0].type.shape[0] % WORDS == 0 and Divisors().of(together[1]) % WORDS == 0:
        out = _in_order(op, *together)
    else:
        e, (seed, index) = Emit.before(op), op.operands
        out = element(e.wrap(seed), e.wrap(index), wide_block).value
    op.results[0].replace_all_uses_with(out)
    op.erase()


def _in_order(op: ir.Operation, seed: ir.Value, base: ir.Value) -> ir.Value:
    """The words of all blocks of the lanes from `base` on."""
    count, i64 = op.results[0].type.shape[0] // WORDS, ir.IntegerType.get_signless(64)
    one, many, pairs = (Emit(ir.InsertionPoint(op), op.location, shape) for shape in ((), [count], [2 * count]))

    def spread(x: Num) -> Num:
        return many.make("vector.broadcast", many.type(i64), x)

    first = one.wrap(base).cast("arith.index_cast", i64) >> 2  # below 0 where lanes stand before the tensor
    steps = many.make("vector.step", many.type(ir.IndexType.get())).cast("arith.index_castui", i64)
    a, b, c, d = wide_block(spread(one.wrap(seed)), spread(first) + steps)
    ab, cd = ((x & _LOWER) | (y << 32) for x, y in ((a, b), (c, d)))
    return pairs.make("vector.bitcast", op.results[0].type, pairs.make("vector.interleave", pairs.type(i64), ab, cd)).value
