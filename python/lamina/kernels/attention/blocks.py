"""Lists the blocks of keys that each block of queries sees by a mask, one program for a block of queries; or, transposed, the
blocks of queries that see each block of keys.

The result is lists, not a map of all blocks: a condition in the loop over keys would keep Triton from prefetching the next of them.
"""

import triton
import triton.language as tl


@triton.jit
def blocks(
    mask, out, MASK, OUT, HEADS, QUERIES, KEYS, HOW: tl.constexpr, CAUSAL: tl.constexpr, OFFSET: tl.constexpr,
    WINDOW: tl.constexpr, TURNED: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Writes the lists of one block of queries.

    MASK   strides in elements: batch, head, query, key
    HOW    "bool" (true: seen), "bias" (added to the scores: -inf hides, 0 changes nothing)
    out    i32: the number of blocks of keys that are seen wholly, the number seen in part; then the indices of the first kind
           forwards from there, and of the second kind backwards from the end. Blocks of which nothing is seen are on neither list
    OUT    strides: batch, head, block of queries
    CAUSAL, OFFSET, WINDOW  hide too, as in `forward`
    TURNED  queries and keys are swapped in all of this: strides, sizes, lists
    M, N   queries and keys of a block
    """
    BLOCKS = (QUERIES + M - 1) // M
    COUNT = (KEYS + N - 1) // N
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
        every = tl.min(tl.min((plain | (rows >= QUERIES)[:, None]).to(tl.int32), 1), 0)  # never where keys are past the end
        tl.store(out + 2 + whole, at, mask=every != 0)
        tl.store(out + (1 + COUNT) - part, at, mask=(some != 0) & (every == 0))
        whole += every
        part += some * (1 - every)
    tl.store(out, whole)
    tl.store(out + 1, part)
