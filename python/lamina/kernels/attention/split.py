"""Attention of few queries to many keys (flash decoding). The keys of each KV head are split into parts, one program each; a
program holds all queries that share the head in one block, so that keys and values are read once. Another kernel (join) combines
the parts."""

import triton
import triton.language as tl

from .step import logarithm, masked, rows_of, step
from .symbolic import is_zero, may_end_inside


@triton.jit
def split(
    q, k, v, mask, bounds, slopes, parts, logs, Q, K, V, MASK, HEADS, GROUP, QUERIES, KEYS, SIZE: tl.constexpr,
    VALUES: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, HOW: tl.constexpr, BOUNDS, ALIBI: tl.constexpr,
    PARTS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """Computes attention over one part of the keys.

    parts  (batch, heads, queries, PARTS, VALUES) f32: the result over each part of the keys
    logs   (batch, heads, queries, PARTS) f32: log2 of the sum of exponentials, the weight of that result; -inf if no key was
           visible
    GROUP  query heads that share a KV head
    M      a power of two, at least 16 and GROUP * QUERIES
    """
    KV_HEADS = HEADS // GROUP
    MIXED: tl.constexpr = HOW == "bias" or ALIBI
    part = tl.program_id(0) % PARTS
    batch = (tl.program_id(0) // (PARTS * KV_HEADS)).to(tl.int64)
    kv_head = (tl.program_id(0) // PARTS % KV_HEADS).to(tl.int64)

    row, d, e = tl.arange(0, M), tl.arange(0, D), tl.arange(0, E)
    head, query = kv_head * GROUP + row // QUERIES, row % QUERIES
    in_group = row < GROUP * QUERIES
    q_at = q + batch * Q[0] + head[:, None] * Q[1] + query[:, None] * Q[2] + d[None, :] * Q[3]
    queries = tl.load(q_at, mask=in_group[:, None] & (d[None, :] < SIZE), other=0.0)
    k += batch * K[0] + kv_head * K[1]
    v += batch * V[0] + kv_head * V[1]
    mask += batch * MASK[0]
    mask_rows = head * MASK[1] + query * MASK[2]
    slope = tl.zeros((M,), tl.float32)
    if ALIBI:
        slope = tl.load(slopes + head, mask=in_group, other=0.0)

    acc = tl.zeros((M, E), tl.float32)
    row_max = tl.full((M,), -float("inf"), tl.float32)
    row_sum = tl.zeros((M,), tl.float32)
    EDGE: tl.constexpr = may_end_inside(KEYS, N) or len(BOUNDS) > 0
    HIDES: tl.constexpr = EDGE or HOW == "bool"
    first, end = 0, KEYS
    if len(BOUNDS) > 0:  # the same for all heads
        bounds += batch * BOUNDS[0]
        first, end = tl.load(bounds), tl.load(bounds + BOUNDS[2])
    begin = first // N * N
    each = ((max(0, end - begin) + PARTS - 1) // PARTS + N - 1) // N * N
    for key_start in range(begin + part * each, min(begin + part * each + each, end), N):
        keys = key_start + tl.arange(0, N)
        inside = in_group[:, None] & (keys[None, :] < KEYS)
        hidden, bias = masked(mask, mask_rows, keys, inside, MASK[3], HOW, is_zero(MASK[1]) and is_zero(MASK[2]), KEYS)
        if ALIBI:
            bias += slope[:, None] * (keys[None, :] - KEYS).to(tl.float32)
        if EDGE:
            hidden |= keys[None, :] >= KEYS
        if len(BOUNDS) > 0:
            hidden |= (keys < first)[None, :] | (keys >= end)[None, :]
        key = rows_of(k, key_start, K[2], K[3], KEYS, SIZE, N, D, EDGE)
        value = rows_of(v, key_start, V[2], V[3], KEYS, VALUES, N, E, EDGE)
        acc, row_max, row_sum = step(acc, row_max, row_sum, queries, key, value, hidden, bias, hidden, SCALE, CAP, HIDES, MIXED, 0)

    divisor = tl.where(row_sum == 0.0, 1.0, row_sum)
    place = (batch * HEADS + head) * QUERIES + query
    tl.store(logs + place * PARTS + part, logarithm(row_max, row_sum, MIXED), mask=in_group)
    parts_at = parts + (place[:, None] * PARTS + part) * VALUES + e[None, :]
    tl.store(parts_at, acc / divisor[:, None], mask=in_group[:, None] & (e[None, :] < VALUES))
