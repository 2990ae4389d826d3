"""Random bits from counters: Philox4x32 of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2,
3" (SC 2011).

A block of four words is a function of a counter and a key, so that any element can be computed alone. Seven rounds are the fewest
that pass BigCrush there; ten, which others use, are half as much work again.
"""

from collections.abc import Callable, Sequence

from torch_mlir import ir

from ..ir.emit import Num
from ..ir.reading import producer
from .lane_indices import ramp_base

ROUNDS = 7
WORDS = 4  # of one block
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
LOWER = 2**32 - 1
_STEPS = (0x9E3779B9, 0xBB67AE85)  # of the key: golden ratio and sqrt(3) - 1, in 32 bits


def philox(counter: Sequence[Num], key: Sequence[Num], rounds: int = ROUNDS) -> tuple[Num, ...]:
    """Returns four words from a counter of four words and a key of two, all i32, or all i64 of which the lower halves count."""
    a, b, c, d = counter
    k, m = key
    for i in range(rounds):
        if i:
            k, m = k + _STEPS[0], m + _STEPS[1]
        (low_a, high_a), (low_c, high_c) = _product(a, _MULTIPLIERS[0]), _product(c, _MULTIPLIERS[1])
        a, b, c, d = high_c ^ b ^ k, low_c, high_a ^ d ^ m, low_a
    return a, b, c, d


def _product(x: Num, factor: int) -> tuple[Num, Num]:
    """Returns the lower and the upper half of a product of unsigned 32-bit numbers."""
    if x.element.width == 64:
        whole = (x & LOWER) * factor
        return whole, whole.shr(32)
    type_ = x.value.type
    low, high = x.emitter.op("arith.mului_extended", [type_, type_], [x.value, x.like(factor).value]).results
    return x.emitter.wrap(low), x.emitter.wrap(high)


def block(seed: Num, number: Num) -> tuple[Num, ...]:
    """Returns the four words, as i32, of block `number` of the stream that `seed` names; both are i64."""
    zero = seed.emitter.i32(0)
    return philox((*map(_word, _halves(number)), zero, zero), [*map(_word, _halves(seed))])


def wide_block(seed: Num, number: Num) -> tuple[Num, ...]:
    """Returns the same words in the lower halves of i64: vectors of these are what x86 multiplies."""
    zero = seed.like(0)
    return philox((*_halves(number), zero, zero), _halves(seed))


def _halves(x: Num) -> tuple[Num, Num]:
    return x, x.shr(32)


def _word(x: Num) -> Num:
    return x.cast("arith.trunci", ir.IntegerType.get_signless(32))


def element(seed: Num, index: Num, make: Callable[[Num, Num], tuple[Num, ...]]) -> Num:
    """Emits random.bits whose lanes are not neighbors: computes a block for every element and takes one of its words. make: block
    or wide_block."""
    number = index.cast("arith.index_castui", ir.IntegerType.get_signless(64))
    words, place = make(seed, number.shr(2)), number & 3
    out = words[3]
    for i in (2, 1, 0):
        out = words[i].where(place.compare("eq", i), out)
    return _word(out) if out.element.width == 64 else out


def neighbors(op: ir.Operation) -> tuple[ir.Value, ir.Value] | None:
    """Returns the seed and the first lane's index of a random.bits whose lanes are neighbors: it has one seed for all lanes, and
    its index is base + lane. None for others."""
    seed, base = producer(op.operands[0]), ramp_base(op.operands[1])
    if seed is None or base is None or seed.name != "vector.broadcast":
        return None
    return seed.operands[0], base
