"""Attention dropout: decides which weights are kept by Philox4x32 of a weight's position, so that gradients see what forward saw,
whatever the blocks.

Each Philox call gives four words, whose 16-bit halves decide for two queries and four keys: queries 8 apart, keys 8 apart and 16
apart. In tensor core accumulators one thread holds queries and keys that lie 8 apart, whichever of the two are its rows, so nothing
is exchanged. Where keys are the rows, those 16 apart are in another warp, and both warps draw the words.
frontend/fx/random_bits.py has the same in torch ops.
"""

import triton
import triton.language as tl

_ROUNDS = tl.constexpr(7)  # as passes/lower/philox.py


@triton.jit
def kept(seed, head, query, key, BELOW: tl.constexpr, M: tl.constexpr, N: tl.constexpr, TRANSPOSED: tl.constexpr):
    """Returns (M, N) bool, or (N, M) where TRANSPOSED: whether each of M queries keeps each of N keys.

    seed        i64
    head        its index among the heads of all sequences
    query, key  the first of them, multiples of M and N, which are multiples of 16
    BELOW       a half word less than this keeps its weight
    """
    rows = (query >> 1) + tl.arange(0, M // 2)
    if TRANSPOSED or N < 32:
        columns = (key >> 1) + tl.arange(0, N // 2)
        number, high = columns >> 4 << 3 | columns & 7, columns & 8 != 0
        if TRANSPOSED:
            a, c, b, d = tl.philox(seed, number[:, None], rows[None, :], head, 0, _ROUNDS)
            drawn = _put(_half(a, high[:, None]), _half(b, high[:, None]), _half(c, high[:, None]), _half(d, high[:, None]), N, M)
        else:
            a, b, c, d = tl.philox(seed, number[None, :], rows[:, None], head, 0, _ROUNDS)
            drawn = _put(_half(a, high[None, :]), _half(b, high[None, :]), _half(c, high[None, :]), _half(d, high[None, :]), M, N)
    else:
        columns = (key >> 2) + tl.arange(0, N // 4)
        a, b, c, d = tl.philox(seed, columns[None, :], rows[:, None], head, 0, _ROUNDS)
        one, other = tl.join(tl.join(a << 16, a), tl.join(b << 16, b)), tl.join(tl.join(c << 16, c), tl.join(d << 16, d))
        split = tl.reshape(tl.join(one, other), (M // 16, 8, N // 32, 8, 2, 2, 2))  # last: key by 16, key by 8, query by 8
        drawn = tl.reshape(tl.permute(split, (0, 6, 1, 2, 4, 5, 3)), (M, N))
    return drawn < BELOW * 65536


@triton.jit
def _half(word, high):
    """Moves the half word that counts into the upper half."""
    return tl.where(high, word, word << 16)


@triton.jit
def _put(a, b, c, d, M: tl.constexpr, N: tl.constexpr):
    """Interleaves four (M // 2, N // 2) quarters to (M, N): rows of c and d come 8 after those of a and b, columns of b and d 8
    after those of a and c."""
    split = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), (M // 16, 8, N // 16, 8, 2, 2))
    return tl.reshape(tl.permute(split, (0, 5, 1, 2, 4, 3)), (M, N))
