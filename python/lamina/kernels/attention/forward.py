"""Attention of many queries (flash attention 2): one program for M queries of one head, with all keys that they see."""

from collections import namedtuple

import triton
import triton.language as tl

from .dropped import kept
from .listed import over_listed
from .places import place_of
from .step import keep_sums, masked, rows_of, step
from .symbolic import is_zero, may_end_inside

Tile = namedtuple(
    "Tile",
    "batch head queries k v mask rows query_start first begin interior interior_end end slope drop_seed head_number "
    "K V MASK QUERIES KEYS SIZE VALUES SCALE CAP CAUSAL OFFSET WINDOW HOW BOUNDS ALIBI BLOCKS DROPS N D E DESCRIPTORS",
)
"""M queries of one head, and what computing them takes besides the package's parameters.

queries, rows           the queries (M, D) and their numbers; query_start: the first of these
k, v, mask              the head's keys, values and mask: pointers, or descriptors with DESCRIPTORS
first to end            the keys that they see (see _keys_of)
slope                   of the head, with ALIBI
drop_seed, head_number  the seed, and the head's number among those of all sequences, with DROPS
"""


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

    first, begin, interior, interior_end, end = _keys_of(
        bounds, batch, head, query_start, KEYS, CAUSAL, OFFSET, WINDOW, BOUNDS, M, N
    )
    head_number, drop_seed = (batch * HEADS + head).to(tl.int32), 0
    if len(DROPS) > 0:
        drop_seed = tl.load(seed)
    slope = 0.0
    if ALIBI:
        slope = tl.load(slopes + head)
    _attend(  # not by a variable: that would make values of the constants in the tile
        Tile(
            batch, head, queries, k, v, mask, rows, query_start, first, begin, interior, interior_end, end, slope, drop_seed,
            head_number, K, V, MASK, QUERIES, KEYS, SIZE, VALUES, SCALE, CAP, CAUSAL, OFFSET, WINDOW, HOW, BOUNDS, ALIBI, BLOCKS,
            DROPS, N, D, E, DESCRIPTORS,
        ),
        blocks, out, sums, OUT, SUMS,
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
def _attend(tile, blocks, out, sums, OUT, SUMS):
    """Computes and stores the results of a tile."""
    M: tl.constexpr = tile.rows.shape[0]
    acc = tl.zeros((M, tile.E), tl.float32)
    row_max = tl.full((M,), -float("inf"), tl.float32)
    row_sum = tl.zeros((M,), tl.float32)
    if len(tile.BLOCKS) > 0:
        blocks += tile.batch * tile.BLOCKS[0] + tile.head * tile.BLOCKS[1] + tile.query_start // M * tile.BLOCKS[2]
        EDGE: tl.constexpr = tile.CAUSAL or tile.WINDOW > 0 or may_end_inside(tile.KEYS, tile.N)
        acc, row_max, row_sum = over_listed((acc, row_max, row_sum), tile, blocks, tile.KEYS, tile.N, EDGE, _block)
    else:
        acc, row_max, row_sum = _in_order((acc, row_max, row_sum), tile)
    _write(acc, row_max, row_sum, tile, out, sums, OUT, SUMS)


@triton.jit
def _in_order(state, tile):
    """Adds the blocks of keys from `begin` to `end` (see _keys_of)."""
    if tile.WINDOW > 0 or len(tile.BOUNDS) > 0:
        for key_start in range(tile.begin, tile.interior, tile.N):
            state = _block(state, tile, key_start, tile.HOW, True)
    for key_start in range(tile.interior, tile.interior_end, tile.N):
        state = _block(state, tile, key_start, tile.HOW, False)
    if tile.CAUSAL or may_end_inside(tile.KEYS, tile.N) or len(tile.BOUNDS) > 0:
        for key_start in range(tile.interior_end, tile.end, tile.N):
            state = _block(state, tile, key_start, tile.HOW, True)
    return state


@triton.jit
def _block(state, tile, key_start, HOW: tl.constexpr, EDGE: tl.constexpr):
    """Adds keys `key_start` to key_start + N to the state of `step`.

    HOW   of these keys' mask
    EDGE  some of them may be past the end, or be hidden from a query by their position
    """
    acc, row_max, row_sum = state
    rows = tile.rows
    keys = key_start + tl.arange(0, tile.N)
    inside = (rows[:, None] < tile.QUERIES) & (keys[None, :] < tile.KEYS)
    mask_rows = rows.to(tl.int64) * tile.MASK[2]
    hidden, bias = masked(tile.mask, mask_rows, keys, inside, tile.MASK[3], HOW, is_zero(tile.MASK[2]), tile.KEYS)
    if tile.ALIBI:  # relative to the first query: softmax does not change where all scores of a row are shifted
        bias += (tile.slope * (keys - tile.query_start).to(tl.float32))[None, :]
    if EDGE:
        hidden |= keys[None, :] >= tile.KEYS
        if len(tile.BOUNDS) > 0:
            hidden |= (keys < tile.first)[None, :] | (keys >= tile.end)[None, :]
        if tile.CAUSAL:
            hidden |= keys[None, :] > rows[:, None] + tile.OFFSET
        if tile.WINDOW > 0:
            hidden |= keys[None, :] <= rows[:, None] + (tile.OFFSET - tile.WINDOW)
    if tile.DESCRIPTORS:
        key, value = tile.k.load([key_start, 0]), tile.v.load([key_start, 0])
    else:
        key = rows_of(tile.k, key_start, tile.K[2], tile.K[3], tile.KEYS, tile.SIZE, tile.N, tile.D, EDGE)
        value = rows_of(tile.v, key_start, tile.V[2], tile.V[3], tile.KEYS, tile.VALUES, tile.N, tile.E, EDGE)
    keeps = inside
    if len(tile.DROPS) > 0:
        keeps = kept(tile.drop_seed, tile.head_number, tile.query_start, key_start, tile.DROPS[0], rows.shape[0], tile.N, False)
    HIDES: tl.constexpr = EDGE or HOW == "bool"
    BIAS: tl.constexpr = HOW == "bias" or HOW == "zeros" or tile.ALIBI
    DROPS: tl.constexpr = len(tile.DROPS)
    return step(acc, row_max, row_sum, tile.queries, key, value, hidden, bias, keeps, tile.SCALE, tile.CAP, HIDES, BIAS, DROPS)


@triton.jit
def _write(acc, row_max, row_sum, tile, out, sums, OUT, SUMS):
    """Stores the result and the log-sum-exps of M queries of a head."""
    rows = tile.rows
    if len(SUMS) > 0:
        shift = tl.zeros(rows.shape, tl.float32)
        if tile.ALIBI:
            shift = tile.slope * (tile.query_start - rows).to(tl.float32)
        sums += tile.batch * SUMS[0] + tile.head * SUMS[1]
        keep_sums(sums, rows, row_max, row_sum, shift, SUMS[2], tile.QUERIES, tile.HOW == "bias" or tile.ALIBI)
    if tile.HOW != "none" or tile.WINDOW > 0 or len(tile.BOUNDS) > 0 or tile.OFFSET < 0:  # some may see nothing, and are zero
        row_sum = tl.where(row_sum == 0.0, 1.0, row_sum)
    result = acc / row_sum[:, None]
    if len(tile.DROPS) > 0:
        result *= tile.DROPS[1]
    e = tl.arange(0, tile.E)
    out_at = out + tile.batch * OUT[0] + tile.head * OUT[1] + rows.to(tl.int64)[:, None] * OUT[2] + e[None, :] * OUT[3]
    tl.store(out_at, result.to(out.dtype.element_ty), mask=(rows[:, None] < tile.QUERIES) & (e[None, :] < tile.VALUES))
