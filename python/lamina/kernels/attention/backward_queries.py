"""Gradients of attention's queries (flash attention 2): one program for M queries of one head, with all keys that they see. It also
computes `deltas`, sums over each row that `backward_keys` reads afterwards."""

from collections import namedtuple

import triton
import triton.language as tl

from .dropped import kept
from .listed import over_listed
from .places import place_of
from .step import capped, masked, rows_of
from .symbolic import is_zero, may_end_inside
from .weights import logarithms, weights

Tile = namedtuple(
    "Tile",
    "queries grads log delta k v mask rows query_start interior_end end drop_seed head_number "
    "K V MASK QUERIES KEYS SIZE VALUES SCALE CAP CAUSAL HOW BLOCKS DROPS N D E",
)
"""M queries of one head, and what computing their gradients takes besides the package's parameters.

queries, grads, rows    the queries and the gradients of their results (M, D), and their numbers; query_start: the first of these
log, delta              the rows' log-sum-exps (see weights.logarithms), and their sums of results times gradients
k, v, mask              the head's keys, values and mask
interior_end, end       keys up to `end` are seen by some query; blocks of them up to `interior_end` hide none by its position
drop_seed, head_number  the seed, and the head's number among those of all sequences, with DROPS
"""


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

    end = KEYS
    interior_end = KEYS // N * N
    if CAUSAL:
        end = min(query_start + M, KEYS)
        interior_end = min(query_start + 1, KEYS) // N * N
    head_number, drop_seed = (batch * HEADS + head).to(tl.int32), 0
    if len(DROPS) > 0:
        drop_seed = tl.load(seed)
        delta *= DROPS[2]
    if len(BLOCKS) > 0:
        blocks += batch * BLOCKS[0] + head * BLOCKS[1] + query_start // M * BLOCKS[2]
    acc = _gradients(  # not by a variable: that would make values of the constants in the tile
        Tile(
            queries, grads, log, delta, k, v, mask, rows, query_start, interior_end, end, drop_seed, head_number, K, V, MASK,
            QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, HOW, BLOCKS, DROPS, N, D, E,
        ),
        blocks,
    )  # fmt: skip
    if len(DROPS) > 0:
        acc *= DROPS[1]
    to = d_q + batch * D_Q[0] + head * D_Q[1] + rows.to(tl.int64)[:, None] * D_Q[2] + d[None, :] * D_Q[3]
    tl.store(to, (acc * SCALE).to(d_q.dtype.element_ty), mask=(rows[:, None] < QUERIES) & (d[None, :] < SIZE))


@triton.jit
def _gradients(tile, blocks):
    """Returns the gradients of a tile's queries, relative to SCALE, from the blocks of keys that `blocks` lists or from all."""
    acc = tl.zeros((tile.rows.shape[0], tile.D), tl.float32)
    EDGE: tl.constexpr = tile.CAUSAL or may_end_inside(tile.KEYS, tile.N)
    if len(tile.BLOCKS) > 0:
        acc = over_listed(acc, tile, blocks, tile.KEYS, tile.N, EDGE, _block)
    else:
        for key_start in range(0, tile.interior_end, tile.N):
            acc = _block(acc, tile, key_start, tile.HOW, False)
        if EDGE:
            for key_start in range(tile.interior_end, tile.end, tile.N):
                acc = _block(acc, tile, key_start, tile.HOW, True)
    return acc


@triton.jit
def _block(acc, tile, key_start, HOW: tl.constexpr, EDGE: tl.constexpr):
    """Adds keys `key_start` to key_start + N.

    HOW   of these keys' mask
    EDGE  some of them may be past the end, or come after a query
    """
    rows = tile.rows
    keys = key_start + tl.arange(0, tile.N)
    inside = (rows[:, None] < tile.QUERIES) & (keys[None, :] < tile.KEYS)
    mask_rows = rows.to(tl.int64) * tile.MASK[2]
    hidden, bias = masked(tile.mask, mask_rows, keys, inside, tile.MASK[3], HOW, is_zero(tile.MASK[2]), tile.KEYS)
    if EDGE:
        hidden |= keys[None, :] >= tile.KEYS
        if tile.CAUSAL:
            hidden |= keys[None, :] > rows[:, None]
    key = rows_of(tile.k, key_start, tile.K[2], tile.K[3], tile.KEYS, tile.SIZE, tile.N, tile.D, EDGE)
    value = rows_of(tile.v, key_start, tile.V[2], tile.V[3], tile.KEYS, tile.VALUES, tile.N, tile.E, EDGE)
    BIAS: tl.constexpr = HOW == "bias" or HOW == "zeros"
    scores = tl.dot(tile.queries, key.T)
    if tile.CAP > 0:
        scores = capped(scores, tile.SCALE, tile.CAP)
    SCALE_LEFT: tl.constexpr = 1.0 if tile.CAP > 0 else tile.SCALE
    probabilities = weights(scores, tile.log[:, None], hidden, bias, SCALE_LEFT, EDGE or HOW == "bool", BIAS)
    d_weights = tl.dot(tile.grads, value.T)
    if len(tile.DROPS) > 0:
        keeps = kept(tile.drop_seed, tile.head_number, tile.query_start, key_start, tile.DROPS[0], rows.shape[0], tile.N, False)
        d_weights = tl.where(keeps, d_weights, 0.0)  # the factor is applied once at the end
    d_scores = probabilities * (d_weights - tile.delta[:, None])
    if tile.CAP > 0:
        d_scores *= 1.0 - (scores / tile.CAP) * (scores / tile.CAP)
    return tl.dot(d_scores.to(key.dtype), key, acc)
