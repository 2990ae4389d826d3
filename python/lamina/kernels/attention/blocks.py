"""Which blocks of keys each block of queries sees by a mask: one program for a block of queries. Or, the other way round, which
blocks of queries see each block of keys.

Lists, not a map of all blocks: a condition in the loop over keys would keep Triton from loading the next of them in time.
"""

import triton
import triton.language as tl


@triton.jit
def blocks(
    mask,
    out,
    MASK: tl.constexpr,
    OUT: tl.constexpr,
    HEADS: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    HOW: tl.constexpr,
    CAUSAL: tl.constexpr,
    OFFSET: tl.constexpr,
    WINDOW: tl.constexpr,
    TURNED: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    """
    MASK   strides in elements: batch, head, query, key
    HOW    "bool" (true: seen), "bias" (added to the scores: -inf hides, 0 changes nothing)
    out    i32: how many blocks of keys are wholly seen, how many in part; the numbers of the first from there on, those of the
           others from the end back. Blocks of which nothing is seen are on neither list; OUT: strides: batch, head, block of
           queries
    CAUSAL, OFFSET, WINDOW  hide too, as in `forward`
    TURNED  queries and keys have each other's places in all of this: strides, sizes, lists
    M, N   queries and keys of a block
    """
    BLOCKS: tl.constexpr = (QUERIES + M - 1) // M
    COUNT: tl.constexpr = (KEYS + N - 1) // N
    block, of = tl.program_id(0) % BLOCKS, tl.program_id(0) // BLOCKS
    batch, head = (of // HEADS).to(tl.int64), (of % HEADS).to(tl.int64)
    rows = block * M + tl.arange(0, M)
    mask += batch * MASK[0] + head * MASK[1] + rows.to(tl.int64)[:, None] * MASK[2]
    out += batch * OUT[0] + head * OUT[1] + block * OUT[2]
    whole, part = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    for at in range(COUNT):
        keys = at * N + tl.arange(0, N)
        near = (rows < QUERIES)[:, None] & (keys < KEYS)[None, :]
        ahead = rows[:, None] - keys[None, :] if TURNED else keys[None, :] - rows[:, None]
        if CAUSAL:
            near &= ahead <= OFFSET
        if WINDOW > 0:
            near &= ahead > OFFSET - WINDOW
        places = mask + keys.to(tl.int64)[None, :] * MASK[3]
        if HOW == "bool":
            seen = tl.load(places, mask=near, other=0) != 0
            plain = seen
        else:
            added = tl.load(places, mask=near, other=-float("inf")).to(tl.float32)
            seen, plain = added != -float("inf"), added == 0.0
        some = tl.max(tl.max(seen.to(tl.int32), 1), 0)
        every = tl.min(tl.min((plain | (rows >= QUERIES)[:, None]).to(tl.int32), 1), 0)  # not where keys are not there
        tl.store(out + 2 + whole, at, mask=every != 0)
        tl.store(out + (1 + COUNT) - part, at, mask=(some != 0) & (every == 0))
        whole += every
        part += some * (1 - every)
    tl.store(out, whole)
    tl.store(out + 1, part)
