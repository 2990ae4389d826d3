"""Attention of many queries (flash attention 2): one program for M queries of one head, with all keys that they see."""

import triton
import triton.language as tl

from .dropped import kept
from .places import place_of
from .step import keep_sums, masked, rows_of, step
from .symbolic import is_zero, may_end_inside


@triton.jit
def forward(
    q, k, v, mask, bounds, slopes, blocks, seed, out, sums, Q, K, V, MASK, OUT, SUMS, BATCH, HEADS, GROUP, QUERIES, KEYS,
    SIZE: tl.constexpr, VALUES: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, CAUSAL: tl.constexpr, OFFSET: tl.constexpr,
    WINDOW: tl.constexpr, HOW: tl.constexpr, BOUNDS, ALIBI: tl.constexpr, BLOCKS, DROPS: tl.constexpr, TOGETHER,
    M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, E: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Computes attention for M queries of one head. The package's docstring describes the parameters."""
    PLACES = (QUERIES + M - 1) // M
    batch, head, place = place_of(PLACES, BATCH, HEADS, TOGETHER)
    query_start = (PLACES - 1 - place) * M  # the last rows first: with CAUSAL, they have the most work

    rows, d = query_start + tl.arange(0, M), tl.arange(0, D)
    q_at = q + batch * Q[0] + head * Q[1] + rows.to(tl.int64)[:, None] * Q[2] + d[None, :] * Q[3]
    queries = tl.load(q_at, mask=(rows[:, None] < QUERIES) & (d[None, :] < SIZE), other=0.0)
    k += batch * K[0] + head // GROUP * K[1]
    v += batch * V[0] + head // GROUP * V[1]
    mask += batch * MASK[0] + head * MASK[1]
    if DESCRIPTORS:
        k = tl.make_tensor_descriptor(k, [KEYS, SIZE], [K[2], 1], [N, D])
        v = tl.make_tensor_descriptor(v, [KEYS, VALUES], [V[2], 1], [N, E])

    acc = tl.zeros((M, E), tl.float32)
    row_max = tl.full((M,), -float("inf"), tl.float32)
    row_sum = tl.zeros((M,), tl.float32)
    first, begin, interior, interior_end, end = _keys_of(
        bounds, batch, head, query_start, KEYS, CAUSAL, OFFSET, WINDOW, BOUNDS, M, N
    )
    head_number, drop_seed = (batch * HEADS + head).to(tl.int32), 0
    if len(DROPS) > 0:
        drop_seed = tl.load(seed)
    slope = 0.0
    if ALIBI:
        slope = tl.load(slopes + head)
    if len(BLOCKS) > 0:
        blocks += batch * BLOCKS[0] + head * BLOCKS[1] + query_start // M * BLOCKS[2]
        acc, row_max, row_sum = _listed(
            acc, row_max, row_sum, queries, k, v, mask, blocks, rows, query_start, first, end, slope, drop_seed, head_number, K, V,
            MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, OFFSET, WINDOW, HOW, BOUNDS, ALIBI, DROPS, N, D, E, DESCRIPTORS,
        )  # fmt: skip
    else:
        acc, row_max, row_sum = _in_order(
            acc, row_max, row_sum, queries, k, v, mask, rows, query_start, first, begin, interior, interior_end, end, slope,
            drop_seed, head_number, K, V, MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, OFFSET, WINDOW, HOW, BOUNDS, ALIBI,
            DROPS, N, D, E, DESCRIPTORS,
        )  # fmt: skip
    _write(
        acc, row_max, row_sum, rows, query_start, slope, batch, head, out, sums, OUT, SUMS, QUERIES, VALUES, HOW == "bias" or ALIBI,
        ALIBI, HOW != "none" or WINDOW > 0 or len(BOUNDS) > 0 or OFFSET < 0, DROPS, M, E,
    )  # fmt: skip


@triton.jit
def _keys_of(
    bounds, batch, head, query_start, KEYS, CAUSAL: tl.constexpr, OFFSET: tl.constexpr, WINDOW: tl.constexpr, BOUNDS,
    M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Returns which keys M queries from `query_start` on may see, leaving aside a mask that is read.

    first, end              the bounds of `bounds`, and of CAUSAL for the last query: keys outside of them are hidden
    begin                   the first block
    interior, interior_end  blocks from `interior` up to `interior_end` hide no key by its position
    """
    first, begin, interior = 0, 0, 0
    end = KEYS
    interior_end = KEYS // N * N
    if CAUSAL:
        end = max(0, min(query_start + M + OFFSET, KEYS))
        interior_end = max(0, min(query_start + 1 + OFFSET, KEYS)) // N * N
    if WINDOW > 0:
        begin = max(0, query_start + OFFSET - WINDOW + 1)
        interior = max(0, query_start + M + OFFSET - WINDOW)
    if len(BOUNDS) > 0:
        bounds += batch * BOUNDS[0] + head * BOUNDS[1]
        first = tl.load(bounds)
        begin, interior = max(begin, first), max(interior, first)
        end = min(end, tl.load(bounds + BOUNDS[2]))
        interior_end = min(interior_end, end // N * N)
    if WINDOW > 0 or len(BOUNDS) > 0:
        begin = begin // N * N
        interior = min((interior + N - 1) // N, (end + N - 1) // N) * N
        interior_end = max(interior_end, interior)
    return first, begin, interior, interior_end, end


@triton.jit
def _listed(
    acc, row_max, row_sum, queries, k, v, mask, blocks, rows, query_start, first, end, slope, drop_seed, head_number, K, V, MASK,
    QUERIES, KEYS, SIZE: tl.constexpr, VALUES: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, CAUSAL: tl.constexpr,
    OFFSET: tl.constexpr, WINDOW: tl.constexpr, HOW: tl.constexpr, BOUNDS, ALIBI: tl.constexpr, DROPS: tl.constexpr,
    N: tl.constexpr, D: tl.constexpr, E: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Adds the blocks of keys that the lists at `blocks` name: those that the mask shows wholly, then those shown in part."""
    count, block = tl.load(blocks), tl.load(blocks + 2)
    for i in range(count):
        acc, row_max, row_sum = _block(
            acc, row_max, row_sum, queries, k, v, mask, rows, block * N, query_start, first, end, slope, drop_seed, head_number, K,
            V, MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, OFFSET, WINDOW, "none" if HOW == "bool" else "zeros", BOUNDS,
            ALIBI, DROPS, N, D, E, DESCRIPTORS, False,
        )  # fmt: skip
        block = tl.load(blocks + 2 + min(i + 1, count - 1))  # one iteration ahead: loads of keys do not wait for it
    last = blocks + (KEYS + N - 1) // N + 1
    count, block = tl.load(blocks + 1), tl.load(last)
    for i in range(count):
        acc, row_max, row_sum = _block(
            acc, row_max, row_sum, queries, k, v, mask, rows, block * N, query_start, first, end, slope, drop_seed, head_number, K,
            V, MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, OFFSET, WINDOW, HOW, BOUNDS, ALIBI, DROPS, N, D, E,
            DESCRIPTORS, CAUSAL or WINDOW > 0 or may_end_inside(KEYS, N),
        )  # fmt: skip
        block = tl.load(last - min(i + 1, count - 1))
    return acc, row_max, row_sum


@triton.jit
def _in_order(
    acc, row_max, row_sum, queries, k, v, mask, rows, query_start, first, begin, interior, interior_end, end, slope, drop_seed,
    head_number, K, V, MASK, QUERIES, KEYS, SIZE: tl.constexpr, VALUES: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr,
    CAUSAL: tl.constexpr, OFFSET: tl.constexpr, WINDOW: tl.constexpr, HOW: tl.constexpr, BOUNDS, ALIBI: tl.constexpr,
    DROPS: tl.constexpr, N: tl.constexpr, D: tl.constexpr, E: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Adds the blocks of keys from `begin` to `end` (see _keys_of)."""
    if WINDOW > 0 or len(BOUNDS) > 0:
        for key_start in range(begin, interior, N):
            acc, row_max, row_sum = _block(
                acc, row_max, row_sum, queries, k, v, mask, rows, key_start, query_start, first, end, slope, drop_seed, head_number,
                K, V, MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, OFFSET, WINDOW, HOW, BOUNDS, ALIBI, DROPS, N, D, E,
                DESCRIPTORS, True,
            )  # fmt: skip
    for key_start in range(interior, interior_end, N):
        acc, row_max, row_sum = _block(
            acc, row_max, row_sum, queries, k, v, mask, rows, key_start, query_start, first, end, slope, drop_seed, head_number, K,
            V, MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, OFFSET, WINDOW, HOW, BOUNDS, ALIBI, DROPS, N, D, E,
            DESCRIPTORS, False,
        )  # fmt: skip
    if CAUSAL or may_end_inside(KEYS, N) or len(BOUNDS) > 0:
        for key_start in range(interior_end, end, N):
            acc, row_max, row_sum = _block(
                acc, row_max, row_sum, queries, k, v, mask, rows, key_start, query_start, first, end, slope, drop_seed, head_number,
                K, V, MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, OFFSET, WINDOW, HOW, BOUNDS, ALIBI, DROPS, N, D, E,
                DESCRIPTORS, True,
            )  # fmt: skip
    return acc, row_max, row_sum


@triton.jit
def _block(
    acc, row_max, row_sum, queries, k, v, mask, rows, key_start, query_start, first, end, slope, drop_seed, head_number, K, V,
    MASK, QUERIES, KEYS, SIZE: tl.constexpr, VALUES: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr,
    CAUSAL: tl.constexpr, OFFSET: tl.constexpr, WINDOW: tl.constexpr, HOW: tl.constexpr, BOUNDS,
    ALIBI: tl.constexpr, DROPS: tl.constexpr, N: tl.constexpr, D: tl.constexpr, E: tl.constexpr, DESCRIPTORS: tl.constexpr,
    EDGE: tl.constexpr,
):  # fmt: skip
    """Adds keys `key_start` to key_start + N.

    EDGE  some of them may be past the end, or be hidden from a query by their position
    """
    keys = key_start + tl.arange(0, N)
    inside = (rows[:, None] < QUERIES) & (keys[None, :] < KEYS)
    hidden, bias = masked(mask, rows.to(tl.int64) * MASK[2], keys, inside, MASK[3], HOW, is_zero(MASK[2]), KEYS)
    if ALIBI:
        bias += (slope * (keys - query_start).to(tl.float32))[
            None, :
        ]  # softmax does not change where all scores of a row are shifted
    if EDGE:
        hidden |= keys[None, :] >= KEYS
        if len(BOUNDS) > 0:
            hidden |= (keys < first)[None, :] | (keys >= end)[None, :]
        if CAUSAL:
            hidden |= keys[None, :] > rows[:, None] + OFFSET
        if WINDOW > 0:
            hidden |= keys[None, :] <= rows[:, None] + (OFFSET - WINDOW)
    if DESCRIPTORS:
        key, value = k.load([key_start, 0]), v.load([key_start, 0])
    else:
        key = rows_of(k, key_start, K[2], K[3], KEYS, SIZE, N, D, EDGE)
        value = rows_of(v, key_start, V[2], V[3], KEYS, VALUES, N, E, EDGE)
    keeps = inside
    if len(DROPS) > 0:
        keeps = kept(drop_seed, head_number, query_start, key_start, DROPS[0], rows.shape[0], N, False)
    BIAS: tl.constexpr = HOW == "bias" or HOW == "zeros" or ALIBI
    return step(
        acc, row_max, row_sum, queries, key, value, hidden, bias, keeps, SCALE, CAP, EDGE or HOW == "bool", BIAS, len(DROPS)
    )


@triton.jit
def _write(
    acc, row_max, row_sum, rows, query_start, slope, batch, head, out, sums, OUT, SUMS, QUERIES, VALUES: tl.constexpr,
    BIAS: tl.constexpr, ALIBI: tl.constexpr, HIDES: tl.constexpr, DROPS: tl.constexpr, M: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """Stores the result and the log-sum-exps of M queries. HIDES: some may see nothing, and are zero."""
    if len(SUMS) > 0:
        shift = tl.zeros((M,), tl.float32)
        if ALIBI:
            shift = slope * (query_start - rows).to(tl.float32)
        sums += batch * SUMS[0] + head * SUMS[1]
        keep_sums(sums, rows, row_max, row_sum, shift, SUMS[2], QUERIES, BIAS)
    if HIDES:
        row_sum = tl.where(row_sum == 0.0, 1.0, row_sum)
    result = acc / row_sum[:, None]
    if len(DROPS) > 0:
        result *= DROPS[1]
    e = tl.arange(0, E)
    out_at = out + batch * OUT[0] + head * OUT[1] + rows.to(tl.int64)[:, None] * OUT[2] + e[None, :] * OUT[3]
    tl.store(out_at, result.to(out.dtype.element_ty), mask=(rows[:, None] < QUERIES) & (e[None, :] < VALUES))
