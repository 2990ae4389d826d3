"""What both kernels do with one block of keys and values: online softmax (Milakov, Gimelshein 2018), flash attention 2 (Dao 2023).

Scores live in units of log2: they are multiplied by log2(e) with the scale, and every exponential is one of base 2.
"""

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def step(acc, most, total, q, k, v, hidden, bias, SCALE: tl.constexpr, HIDES: tl.constexpr, BIAS: tl.constexpr):
    """The state of the rows after one more block of keys.

    acc     (M, D) f32: the sum of values, weighted by exponentials relative to `most`
    most    (M,) f32: the largest score so far; -inf before the first
    total   (M,) f32: the sum of these exponentials
    q       (M, D); k: (N, D); v: (N, D of the values)
    hidden  (M, N) bool, where HIDES: scores that do not count
    bias    (M, N) f32, where BIAS: is added to the scaled scores
    SCALE   of the scores, positive
    """
    scores = tl.dot(q, k.T)
    factor = SCALE * _LOG2_E  # in one instruction with the difference from the maximum, unless a bias comes between
    if BIAS:
        scores = scores * factor + bias * _LOG2_E
        factor = 1.0
    if HIDES:
        scores = tl.where(hidden, -float("inf"), scores)
    now = tl.maximum(most, tl.max(scores, 1) * factor)
    origin = now
    if HIDES or BIAS:
        origin = tl.where(now == -float("inf"), 0.0, now)  # a row of which nothing has been seen yet
    weights = tl.exp2(scores * factor - origin[:, None])
    old = tl.exp2(most - origin)
    total = total * old + tl.sum(weights, 1)
    acc = tl.dot(weights.to(v.dtype), v, acc * old[:, None])
    return acc, now, total


@triton.jit
def masked(mask, rows, columns, inside, STRIDE: tl.constexpr, HOW: tl.constexpr):
    """What a mask hides and adds, at (M,) offsets of rows and (N,) numbers of keys: as `step` takes it.

    inside  (M, N) bool: what is there to be read
    HOW     "bias": is added; "bool": where it is false, is hidden
    """
    found = tl.load(mask + rows[:, None] + columns[None, :] * STRIDE, mask=inside, other=0)
    if HOW == "bias":
        return inside & False, found.to(tl.float32)
    return found == 0, tl.zeros(inside.shape, tl.float32)


@triton.jit
def rows_of(
    x, at, ROW: tl.constexpr, COLUMN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
    EDGE: tl.constexpr,
):  # fmt: skip
    """Rows `at` to at + N of a matrix of these strides and sizes, in a block of D columns; zero outside. EDGE: some rows may be."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, D)[None, :]
    places = x + at * tl.full((), ROW, tl.int64) + i * ROW + j * COLUMN
    if EDGE and COLUMNS != D:
        return tl.load(places, mask=(at + i < ROWS) & (j < COLUMNS), other=0.0)
    if EDGE:
        return tl.load(places, mask=at + i < ROWS, other=0.0)
    if COLUMNS != D:
        return tl.load(places, mask=j < COLUMNS, other=0.0)
    return tl.load(places)
