"""Gradients of attention's queries (flash attention 2): one program for M queries of one head, with all keys that they see. It also
computes `deltas`, sums over each row that `backward_keys` reads afterwards."""

import triton
import triton.language as tl

from .dropped import kept
from .places import place_of
from .step import capped, masked, rows_of
from .symbolic import is_zero, may_end_inside
from .weights import logarithms, weights


@triton.jit
def backward_queries(
    q, k, v, mask, blocks, seed, out, sums, grad, d_q, deltas, Q, K, V, MASK, OUT, SUMS, GRAD, D_Q, BATCH, HEADS, GROUP,
    QUERIES, KEYS, SIZE: tl.constexpr, VALUES: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, CAUSAL: tl.constexpr,
    HOW: tl.constexpr, BLOCKS, DROPS: tl.constexpr, TOGETHER, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """Computes the gradients of M queries of one head.

    out, sums  results of `forward`
    grad       the gradient of `out`
    d_q        the gradient of the queries, an output
    deltas     (batch, heads, queries) f32, an output: the dot product of each row of `out` with its gradient
    GRAD, D_Q  strides
    """
    PLACES = (QUERIES + M - 1) // M
    EDGE: tl.constexpr = may_end_inside(QUERIES, M)
    batch, head, place = place_of(PLACES, BATCH, HEADS, TOGETHER)
    query_start = (PLACES - 1 - place) * M  # the last rows first: with CAUSAL, they have the most work

    rows, d = query_start + tl.arange(0, M), tl.arange(0, D)
    queries = rows_of(q + batch * Q[0] + head * Q[1], query_start, Q[2], Q[3], QUERIES, SIZE, M, D, EDGE)
    grads = rows_of(grad + batch * GRAD[0] + head * GRAD[1], query_start, GRAD[2], GRAD[3], QUERIES, VALUES, M, E, EDGE)
    outs = rows_of(out + batch * OUT[0] + head * OUT[1], query_start, OUT[2], OUT[3], QUERIES, VALUES, M, E, EDGE)
    delta = tl.sum(outs.to(tl.float32) * grads.to(tl.float32), 1)
    tl.store(deltas + (batch * HEADS + head) * QUERIES + rows, delta, mask=rows < QUERIES)
    log = logarithms(sums + batch * SUMS[0] + head * SUMS[1], rows, SUMS[2], QUERIES, HOW == "bias")
    k += batch * K[0] + head // GROUP * K[1]
    v += batch * V[0] + head // GROUP * V[1]
    mask += batch * MASK[0] + head * MASK[1]

    acc = tl.zeros((M, D), tl.float32)
    end = KEYS
    interior_end = KEYS // N * N  # blocks up to here hide no key by its position
    if CAUSAL:
        end = min(query_start + M, KEYS)
        interior_end = min(query_start + 1, KEYS) // N * N
    head_number, drop_seed = (batch * HEADS + head).to(tl.int32), 0
    if len(DROPS) > 0:
        drop_seed = tl.load(seed)
        delta *= DROPS[2]
    if len(BLOCKS) > 0:
        blocks += batch * BLOCKS[0] + head * BLOCKS[1] + query_start // M * BLOCKS[2]
        acc = _listed(
            acc, queries, grads, log, delta, k, v, mask, blocks, rows, query_start, drop_seed, head_number, K, V, MASK, QUERIES,
            KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, HOW, DROPS, N, D, E,
        )  # fmt: skip
    else:
        acc = _in_order(
            acc, queries, grads, log, delta, k, v, mask, rows, query_start, interior_end, end, drop_seed, head_number, K, V, MASK,
            QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, HOW, DROPS, N, D, E,
        )  # fmt: skip
    if len(DROPS) > 0:
        acc *= DROPS[1]
    to = d_q + batch * D_Q[0] + head * D_Q[1] + rows.to(tl.int64)[:, None] * D_Q[2] + d[None, :] * D_Q[3]
    tl.store(to, (acc * SCALE).to(d_q.dtype.element_ty), mask=(rows[:, None] < QUERIES) & (d[None, :] < SIZE))


@triton.jit
def _listed(
    acc, queries, grads, log, delta, k, v, mask, blocks, rows, query_start, drop_seed, head_number, K, V, MASK, QUERIES, KEYS,
    SIZE: tl.constexpr, VALUES: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, CAUSAL: tl.constexpr, HOW: tl.constexpr,
    DROPS: tl.constexpr, N: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """Adds the blocks of keys that the lists at `blocks` name, as in forward."""
    count, block = tl.load(blocks), tl.load(blocks + 2)
    for i in range(count):
        acc = _block(
            acc, queries, grads, log, delta, k, v, mask, rows, query_start, block * N, drop_seed, head_number, K, V, MASK, QUERIES,
            KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, "none" if HOW == "bool" else "zeros", DROPS, N, D, E, False,
        )  # fmt: skip
        block = tl.load(blocks + 2 + min(i + 1, count - 1))  # one iteration ahead, as in forward
    last = blocks + (KEYS + N - 1) // N + 1
    count, block = tl.load(blocks + 1), tl.load(last)
    for i in range(count):
        acc = _block(
            acc, queries, grads, log, delta, k, v, mask, rows, query_start, block * N, drop_seed, head_number, K, V, MASK, QUERIES,
            KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, HOW, DROPS, N, D, E, CAUSAL or may_end_inside(KEYS, N),
        )  # fmt: skip
        block = tl.load(last - min(i + 1, count - 1))
    return acc


@triton.jit
def _in_order(
    acc, queries, grads, log, delta, k, v, mask, rows, query_start, interior_end, end, drop_seed, head_number, K, V, MASK, QUERIES,
    KEYS, SIZE: tl.constexpr, VALUES: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, CAUSAL: tl.constexpr, HOW: tl.constexpr,
    DROPS: tl.constexpr, N: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """Adds the blocks of keys up to `end`, of which those up to `interior_end` hide none by its position."""
    for key_start in range(0, interior_end, N):
        acc = _block(
            acc, queries, grads, log, delta, k, v, mask, rows, query_start, key_start, drop_seed, head_number, K, V, MASK, QUERIES,
            KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, HOW, DROPS, N, D, E, False,
        )  # fmt: skip
    if CAUSAL or may_end_inside(KEYS, N):
        for key_start in range(interior_end, end, N):
            acc = _block(
                acc, queries, grads, log, delta, k, v, mask, rows, query_start, key_start, drop_seed, head_number, K, V, MASK,
                QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, HOW, DROPS, N, D, E, True,
            )  # fmt: skip
    return acc


@triton.jit
def _block(
    acc, queries, grads, log, delta, k, v, mask, rows, query_start, key_start, drop_seed, head_number, K, V,
    MASK, QUERIES, KEYS, SIZE: tl.constexpr, VALUES: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr,
    CAUSAL: tl.constexpr, HOW: tl.constexpr, DROPS: tl.constexpr, N: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    EDGE: tl.constexpr,
):  # fmt: skip
    """Adds keys `key_start` to key_start + N. EDGE: some of them may be past the end, or come after a query."""
    keys = key_start + tl.arange(0, N)
    inside = (rows[:, None] < QUERIES) & (keys[None, :] < KEYS)
    hidden, bias = masked(mask, rows.to(tl.int64) * MASK[2], keys, inside, MASK[3], HOW, is_zero(MASK[2]), KEYS)
    if EDGE:
        hidden |= keys[None, :] >= KEYS
        if CAUSAL:
            hidden |= keys[None, :] > rows[:, None]
    key = rows_of(k, key_start, K[2], K[3], KEYS, SIZE, N, D, EDGE)
    value = rows_of(v, key_start, V[2], V[3], KEYS, VALUES, N, E, EDGE)
    BIAS: tl.constexpr = HOW == "bias" or HOW == "zeros"
    scores = tl.dot(queries, key.T)
    if CAP > 0:
        scores = capped(scores, SCALE, CAP)
    SCALE_LEFT: tl.constexpr = 1.0 if CAP > 0 else SCALE
    probabilities = weights(scores, log[:, None], hidden, bias, SCALE_LEFT, EDGE or HOW == "bool", BIAS)
    d_weights = tl.dot(grads, value.T)
    if len(DROPS) > 0:
        keeps = kept(drop_seed, head_number, query_start, key_start, DROPS[0], rows.shape[0], N, False)
        d_weights = tl.where(keeps, d_weights, 0.0)  # the factor is applied once at the end
    d_scores = probabilities * (d_weights - delta[:, None])
    if CAP > 0:
        d_scores *= 1.0 - (scores / CAP) * (scores / CAP)
    return tl.dot(d_scores.to(key.dtype), key, acc)
