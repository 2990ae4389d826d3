"""Lists the blocks of keys that each block of queries sees by a mask, one program for a block of queries; or, transposed, the
blocks of queries that see each block of keys.

The result is lists, not a map of all blocks: a condition in the loop over keys would keep Triton from prefetching the next of them.
"""

import triton
import triton.language as tl


@triton.jit
def blocks(
    mask, out, MASK, OUT, HEADS, QUERIES, KEYS, HOW: tl.constexpr, CAUSAL: tl.constexpr, OFFSET: tl.constexpr,
    WINDOW: tl.constexpr, BY_KEYS: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Writes the lists of one block of queries.

    MASK   strides in elements: batch, head, query, key
    HOW    "bool" (true: seen), "bias" (added to the scores: -inf hides, 0 changes nothing)
    out    i32: the number of blocks of keys that are seen wholly, the number seen in part; then the indices of the first kind
           forwards from there, and of the second kind backwards from the end. Blocks of which nothing is seen are on neither list
    OUT    strides: batch, head, block of queries
    CAUSAL, OFFSET, WINDOW  hide too, as in `forward`
    BY_KEYS  lists the blocks of queries that see each block of keys: queries and keys change places in all other arguments, too
    M, N   queries and keys of a block
    """
    BLOCKS = (QUERIES + M - 1) // M
    COUNT = (KEYS + N - 1) // N
    block, rest = tl.program_id(0) % BLOCKS, tl.program_id(0) // BLOCKS
    batch, head = (rest // HEADS).to(tl.int64), (rest % HEADS).to(tl.int64)
    rows = block * M + tl.arange(0, M)
    mask += batch * MASK[0] + head * MASK[1] + rows.to(tl.int64)[:, None] * MASK[2]
    out += batch * OUT[0] + head * OUT[1] + block * OUT[2]
    whole, part = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    for block_of_keys in range(COUNT):
        keys = block_of_keys * N + tl.arange(0, N)
        inside = (rows < QUERIES)[:, None] & (keys < KEYS)[None, :]
        ahead = rows[:, None] - keys[None, :] if BY_KEYS else keys[None, :] - rows[:, None]
        if CAUSAL:
            inside &= ahead <= OFFSET
        if WINDOW > 0:
            inside &= ahead > OFFSET - WINDOW
        addresses = mask + keys.to(tl.int64)[None, :] * MASK[3]
        if HOW == "bool":
            seen = tl.load(addresses, mask=inside, other=0) != 0
            plain = seen
        else:
            added = tl.load(addresses, mask=inside, other=-float("inf")).to(tl.float32)
            seen, plain = added != -float("inf"), added == 0.0
        any_seen = tl.max(tl.max(seen.to(tl.int32), 1), 0)
        all_seen = tl.min(tl.min((plain | (rows >= QUERIES)[:, None]).to(tl.int32), 1), 0)  # never where keys are past the end
        tl.store(out + 2 + whole, block_of_keys, mask=all_seen != 0)
        tl.store(out + (1 + COUNT) - part, block_of_keys, mask=(any_seen != 0) & (all_seen == 0))
        whole += all_seen
        part += any_seen * (1 - all_seen)
    tl.store(out, whole)
    tl.store(out + 1, part)
