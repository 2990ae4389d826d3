"""Gradients of attention's keys and values (flash attention 2): one program for N keys of one key head, with all queries that see
them, of all heads that share the key head. Blocks of scores are transposed, so that they are operands as they lie in registers."""

from collections import namedtuple

import triton
import triton.language as tl

from .dropped import kept
from .listed import over_listed
from .places import place_of
from .step import capped, masked, rows_of
from .symbolic import may_end_inside
from .weights import logarithms, weights

Tile = namedtuple(
    "Tile",
    "key value key_rows key_start q grad sums deltas mask drop_seed head_number "
    "Q GRAD SUMS MASK QUERIES KEYS SIZE VALUES SCALE CAP CAUSAL HOW DROPS M N D E",
)
"""N keys of one key head, and a query head that reads them.

key, value, key_rows         the keys and values (N, D), and their numbers; key_start: the first of these
q, grad, sums, deltas, mask  memory of the query head
drop_seed, head_number       the seed, and the query head's number among those of all sequences, with DROPS
"""


@triton.jit
def backward_keys(
    q, k, v, mask, blocks, seed, sums, grad, deltas, d_k, d_v, Q, K, V, MASK, SUMS, GRAD, D_K, D_V, BATCH, HEADS, GROUP,
    QUERIES, KEYS, SIZE: tl.constexpr, VALUES: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, CAUSAL: tl.constexpr,
    HOW: tl.constexpr, BLOCKS, DROPS: tl.constexpr, TOGETHER, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """Computes the gradients of N keys and values of one key head.

    sums      result of `forward`
    grad      the gradient of its result
    deltas    result of `backward_queries`
    d_k, d_v  the gradients, outputs
    GRAD, D_K, D_V  strides
    BLOCKS    strides of `blocks`, lists of blocks of queries that see these keys by the mask (see blocks.py): batch, head, block
              of keys; () for none
    TOGETHER  key heads whose programs run side by side
    """
    PLACES = (KEYS + N - 1) // N
    KV_HEADS = HEADS // GROUP
    EDGE: tl.constexpr = may_end_inside(KEYS, N)
    batch, kv_head, place = place_of(PLACES, BATCH, KV_HEADS, TOGETHER)
    key_start = place * N  # the first keys first: with CAUSAL, they have the most work

    key_rows, d, e = key_start + tl.arange(0, N), tl.arange(0, D), tl.arange(0, E)
    keys = rows_of(k + batch * K[0] + kv_head * K[1], key_start, K[2], K[3], KEYS, SIZE, N, D, EDGE)
    values = rows_of(v + batch * V[0] + kv_head * V[1], key_start, V[2], V[3], KEYS, VALUES, N, E, EDGE)
    key_acc, value_acc = tl.zeros((N, D), tl.float32), tl.zeros((N, E), tl.float32)
    drop_seed = 0
    if len(DROPS) > 0:
        drop_seed = tl.load(seed)
    for member in range(GROUP):
        head = kv_head * GROUP + member
        q_head, grad_head = q + batch * Q[0] + head * Q[1], grad + batch * GRAD[0] + head * GRAD[1]
        sums_head, deltas_head = sums + batch * SUMS[0] + head * SUMS[1], deltas + (batch * HEADS + head) * QUERIES
        mask_head = mask + batch * MASK[0] + head * MASK[1]
        head_number = (batch * HEADS + head).to(tl.int32)
        listed = blocks
        if len(BLOCKS) > 0:
            listed = blocks + batch * BLOCKS[0] + head * BLOCKS[1] + key_start // N * BLOCKS[2]
        key_acc, value_acc = _add_head(  # not by a variable: that would make values of the constants in the tile
            key_acc, value_acc,
            Tile(
                keys, values, key_rows, key_start, q_head, grad_head, sums_head, deltas_head, mask_head, drop_seed, head_number, Q,
                GRAD, SUMS, MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, HOW, DROPS, M, N, D, E,
            ),
            listed, len(BLOCKS) > 0,
        )  # fmt: skip
    if len(DROPS) > 0:
        key_acc, value_acc = key_acc * DROPS[1], value_acc * DROPS[1]
    wide_places = key_rows.to(tl.int64)[:, None]
    k_to = d_k + batch * D_K[0] + kv_head * D_K[1] + wide_places * D_K[2] + d[None, :] * D_K[3]
    v_to = d_v + batch * D_V[0] + kv_head * D_V[1] + wide_places * D_V[2] + e[None, :] * D_V[3]
    tl.store(k_to, (key_acc * SCALE).to(d_k.dtype.element_ty), mask=(key_rows[:, None] < KEYS) & (d[None, :] < SIZE))
    tl.store(v_to, value_acc.to(d_v.dtype.element_ty), mask=(key_rows[:, None] < KEYS) & (e[None, :] < VALUES))


@triton.jit
def _add_head(key_acc, value_acc, tile, blocks, LISTED: tl.constexpr):
    """Adds the queries of a tile's head: the blocks of them that the lists at `blocks` name, as in forward, where LISTED; else all
    that see these keys."""
    state = (key_acc, value_acc)
    if LISTED:
        state = over_listed(state, tile, blocks, tile.QUERIES, tile.M, tile.CAUSAL, _block)
    else:
        interior = 0  # rows from here on see all of these keys
        if tile.CAUSAL:
            interior = (tile.key_start + tile.N - 1 + tile.M - 1) // tile.M * tile.M
            for query_start in range(tile.key_start // tile.M * tile.M, min(interior, tile.QUERIES), tile.M):
                state = _block(state, tile, query_start, tile.HOW, True)
        for query_start in range(interior, tile.QUERIES, tile.M):
            state = _block(state, tile, query_start, tile.HOW, False)
    return state


@triton.jit
def _block(state, tile, query_start, HOW: tl.constexpr, DIAGONAL: tl.constexpr):
    """Adds queries `query_start` to query_start + M of a head. Queries past the end have weight zero, and gradients of keys past
    the end are not stored.

    HOW       of these queries' mask
    DIAGONAL  some of the queries come before some of the keys
    """
    key_acc, value_acc = state
    EDGE: tl.constexpr = may_end_inside(tile.QUERIES, tile.M)
    key_rows, rows = tile.key_rows, query_start + tl.arange(0, tile.M)
    inside = (key_rows[:, None] < tile.KEYS) & (rows[None, :] < tile.QUERIES)
    mask_keys = key_rows.to(tl.int64) * tile.MASK[3]
    hidden, bias = masked(tile.mask, mask_keys, rows.to(tl.int64), inside, tile.MASK[2], HOW, False, tile.QUERIES)
    if DIAGONAL:
        hidden |= key_rows[:, None] > rows[None, :]
    queries = rows_of(tile.q, query_start, tile.Q[2], tile.Q[3], tile.QUERIES, tile.SIZE, tile.M, tile.D, EDGE)
    grads = rows_of(tile.grad, query_start, tile.GRAD[2], tile.GRAD[3], tile.QUERIES, tile.VALUES, tile.M, tile.E, EDGE)
    BIAS: tl.constexpr = HOW == "bias" or HOW == "zeros"
    log = logarithms(tile.sums, rows, tile.SUMS[2], tile.QUERIES, BIAS)
    delta = tl.load(tile.deltas + rows, mask=rows < tile.QUERIES, other=0.0)
    scores = tl.dot(tile.key, queries.T)
    if tile.CAP > 0:
        scores = capped(scores, tile.SCALE, tile.CAP)
    SCALE_LEFT: tl.constexpr = 1.0 if tile.CAP > 0 else tile.SCALE
    probabilities = weights(scores, log[None, :], hidden, bias, SCALE_LEFT, DIAGONAL or HOW == "bool", BIAS)
    kept_probabilities, d_weights = probabilities, tl.dot(tile.value, grads.T)
    if len(tile.DROPS) > 0:
        keeps = kept(tile.drop_seed, tile.head_number, query_start, tile.key_start, tile.DROPS[0], tile.M, key_rows.shape[0], True)
        kept_probabilities = tl.where(keeps, probabilities, 0.0)
        d_weights = tl.where(keeps, d_weights, 0.0)
        delta *= tile.DROPS[2]
    value_acc = tl.dot(kept_probabilities.to(grads.dtype), grads, value_acc)
    d_scores = probabilities * (d_weights - delta[None, :])
    if tile.CAP > 0:
        d_scores *= 1.0 - (scores / tile.CAP) * (scores / tile.CAP)
    return tl.dot(d_scores.to(queries.dtype), queries, key_acc), value_acc
