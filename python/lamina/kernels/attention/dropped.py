"""Which weights dropout keeps: Philox4x32 of the place of a weight, so that gradients see what forward saw, whatever the blocks.

The halves of four words are those of two queries and four keys: of queries and keys that lie 8 apart, and of keys 16 apart. In what
tensor cores add up, one thread holds queries and keys that lie 8 apart, whichever of the two are its rows: nothing is exchanged.
Where keys are the rows, those 16 apart are another warp's: both draw the words.
frontend/importing/random_bits.py has it in torch's ops.
"""

import triton
import triton.language as tl

_ROUNDS = tl.constexpr(7)  # as passes/lower/philox.py


@triton.jit
def kept(seed, head, query, key, BELOW: tl.constexpr, M: tl.constexpr, N: tl.constexpr, TURNED: tl.constexpr):
    """(M, N) bool, or (N, M) where TURNED: whether each of M queries keeps each of N keys.

    seed        i64
    head        its number among those of all sequences
    query, key  the first of them, multiples of M and N, which are multiples of 16
    BELOW       half a word that is less keeps
    """
    rows = (query >> 1) + tl.arange(0, M // 2)
    if TURNED or N < 32:
        columns = (key >> 1) + tl.arange(0, N // 2)
        number, high = columns >> 4 << 3 | columns & 7, columns & 8 != 0
        if TURNED:
            a, c, b, d = tl.philox(seed, number[:, None], rows[None, :], head, 0, _ROUNDS)
            drawn = _put(_half(a, high[:, None]), _half(b, high[:, None]), _half(c, high[:, None]), _half(d, high[:, None]), N, M)
        else:
            a, b, c, d = tl.philox(seed, number[None, :], rows[:, None], head, 0, _ROUNDS)
            drawn = _put(_half(a, high[None, :]), _half(b, high[None, :]), _half(c, high[None, :]), _half(d, high[None, :]), M, N)
    else:
        columns = (key >> 2) + tl.arange(0, N // 4)
        a, b, c, d = tl.philox(seed, columns[None, :], rows[:, None], head, 0, _ROUNDS)
        one, other = tl.join(tl.join(a << 16, a), tl.join(b << 16, b)), tl.join(tl.join(c << 16, c), tl.join(d << 16, d))
        split = tl.reshape(tl.join(one, other), (M // 16, 8, N // 32, 8, 2, 2, 2))  # ..., key by 16, key by 8, query by 8
        drawn = tl.reshape(tl.permute(split, (0, 6, 1, 2, 4, 5, 3)), (M, N))
    return drawn < BELOW * 65536


@triton.jit
def _half(word, high):
    """The half that counts, as the upper one."""
    return tl.where(high, word, word << 16)


@triton.jit
def _put(a, b, c, d, M: tl.constexpr, N: tl.constexpr):
    """(M, N) of four quarters, (M // 2, N // 2): rows of c and d come 8 after those of a and b, columns of b and d 8 after."""
    split = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), (M // 16, 8, N // 16, 8, 2, 2))
    return tl.reshape(tl.permute(split, (0, 5, 1, 2, 4, 3)), (M, N))
