"""Attention of many queries: one program for M of them in one head, with all keys that they see (flash attention 2)."""

import triton
import triton.language as tl

from .step import masked, rows_of, step


@triton.jit
def forward(
    q,
    k,
    v,
    mask,
    out,
    Q: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    MASK: tl.constexpr,
    OUT: tl.constexpr,
    BATCH: tl.constexpr,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    SIZE: tl.constexpr,
    VALUES: tl.constexpr,
    SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    HOW: tl.constexpr,
    TOGETHER: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):
    """
    Q, K, V, MASK, OUT  strides in elements: batch, head, position, element (MASK: key)
    HEADS, GROUP  of queries; how many of them share keys and values
    SIZE, VALUES  elements of a head: of queries and keys, of values; D and E: powers of two that hold them
    SCALE         of the scores, positive
    CAUSAL        query i sees keys 0 to i
    HOW           of the mask: "none" (it is not read), "bool" (true: seen), "bias" (added to the scaled scores)
    TOGETHER      heads whose programs run side by side, as many as the second-level cache holds the keys and values of
    DESCRIPTORS   keys and values come by descriptors (TMA): elements side by side, all else at multiples of 16 bytes
    """
    BLOCKS: tl.constexpr = (QUERIES + M - 1) // M
    first_head = tl.program_id(0) // (BLOCKS * TOGETHER) * TOGETHER
    wide = min(TOGETHER, BATCH * HEADS - first_head)
    place = tl.program_id(0) - first_head * BLOCKS
    start = (BLOCKS - 1 - place // wide) * M  # the last rows first: with CAUSAL, theirs is the most work
    batch = ((first_head + place % wide) // HEADS).to(tl.int64)
    head = ((first_head + place % wide) % HEADS).to(tl.int64)

    rows, d, e = start + tl.arange(0, M), tl.arange(0, D), tl.arange(0, E)
    q_at = q + batch * Q[0] + head * Q[1] + rows.to(tl.int64)[:, None] * Q[2] + d[None, :] * Q[3]
    queries = tl.load(q_at, mask=(rows[:, None] < QUERIES) & (d[None, :] < SIZE), other=0.0)
    k += batch * K[0] + head // GROUP * K[1]
    v += batch * V[0] + head // GROUP * V[1]
    mask += batch * MASK[0] + head * MASK[1]
    if DESCRIPTORS:
        k = tl.make_tensor_descriptor(k, [KEYS, SIZE], [K[2], 1], [N, D])
        v = tl.make_tensor_descriptor(v, [KEYS, VALUES], [V[2], 1], [N, E])

    acc = tl.zeros((M, E), tl.float32)
    most = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    end = KEYS
    whole = KEYS // N * N  # up to here blocks hide nothing by their place
    if CAUSAL:
        end = min(start + M, KEYS)
        whole = min(start + 1, KEYS) // N * N
    for at in range(0, whole, N):
        acc, most, total = _block(
            acc, most, total, queries, k, v, mask, rows, at, K, V, MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAUSAL, HOW, N, D, E,
            DESCRIPTORS, False,
        )  # fmt: skip
    if CAUSAL or KEYS % N != 0:
        for at in range(whole, end, N):
            acc, most, total = _block(
                acc, most, total, queries, k, v, mask, rows, at, K, V, MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAUSAL, HOW, N, D,
                E, DESCRIPTORS, True,
            )  # fmt: skip
    if HOW != "none":
        total = tl.where(total == 0.0, 1.0, total)  # rows that see nothing are zero
    found = acc / total[:, None]
    out_at = out + batch * OUT[0] + head * OUT[1] + rows.to(tl.int64)[:, None] * OUT[2] + e[None, :] * OUT[3]
    tl.store(out_at, found.to(out.dtype.element_ty), mask=(rows[:, None] < QUERIES) & (e[None, :] < VALUES))


@triton.jit
def _block(
    acc, most, total, queries, k, v, mask, rows, at, K: tl.constexpr, V: tl.constexpr, MASK: tl.constexpr, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, SIZE: tl.constexpr, VALUES: tl.constexpr, SCALE: tl.constexpr, CAUSAL: tl.constexpr, HOW: tl.constexpr,
    N: tl.constexpr, D: tl.constexpr, E: tl.constexpr, DESCRIPTORS: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """With keys `at` to at + N. EDGE: some of them may not be there, or come after a query."""
    keys = at + tl.arange(0, N)
    inside = (rows[:, None] < QUERIES) & (keys[None, :] < KEYS)
    hidden, bias = inside & False, tl.zeros(inside.shape, tl.float32)
    if HOW != "none":
        hidden, bias = masked(mask, rows.to(tl.int64) * MASK[2], keys, inside, MASK[3], HOW)
    if EDGE:
        hidden |= keys[None, :] >= KEYS
        if CAUSAL:
            hidden |= keys[None, :] > rows[:, None]
    if DESCRIPTORS:
        key, value = k.load([at, 0]), v.load([at, 0])
    else:
        key = rows_of(k, at, K[2], K[3], KEYS, SIZE, N, D, EDGE)
        value = rows_of(v, at, V[2], V[3], KEYS, VALUES, N, E, EDGE)
    return step(acc, most, total, queries, key, value, hidden, bias, SCALE, EDGE or HOW == "bool", HOW == "bias")
