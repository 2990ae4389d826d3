"""Which weights dropout keeps: Philox4x32 of the place of a weight, so that gradients see what forward saw, whatever the blocks.

Four words are those of two queries and two keys that lie 8 apart. In what tensor cores add up, one thread holds these four,
whichever of the two are its rows: nothing is exchanged. frontend/random_bits.py has the same in torch's ops.
"""

import triton
import triton.language as tl

_ROUNDS = tl.constexpr(7)  # as passes/philox.py


@triton.jit
def kept(seed, head, query, key, BELOW: tl.constexpr, M: tl.constexpr, N: tl.constexpr, TURNED: tl.constexpr):
    """(M, N) bool, or (N, M) where TURNED: whether each of M queries keeps each of N keys.

    seed        i64
    head        its number among those of all sequences
    query, key  the first of them, multiples of 16; so are M and N
    BELOW       a word of 32 bits that is less keeps
    """
    rows, columns = (query >> 1) + tl.arange(0, M // 2), (key >> 1) + tl.arange(0, N // 2)
    if TURNED:
        a, c, b, d = tl.philox(seed, columns[:, None], rows[None, :], head, 0, _ROUNDS)
    else:
        a, b, c, d = tl.philox(seed, columns[None, :], rows[:, None], head, 0, _ROUNDS)
    LONG: tl.constexpr = N if TURNED else M
    WIDE: tl.constexpr = M if TURNED else N
    both = tl.join(tl.join(a < BELOW, b < BELOW), tl.join(c < BELOW, d < BELOW))  # ..., which column, which row of two
    split = tl.reshape(both, (LONG // 16, 8, WIDE // 16, 8, 2, 2))
    return tl.reshape(tl.permute(split, (0, 5, 1, 2, 4, 3)), (LONG, WIDE))
