"""The step that attention kernels share for one block of keys and values: online softmax (Milakov, Gimelshein 2018), flash
attention 2 (Dao 2023).

Every exponential has base 2: scores are multiplied by log2(e) together with the scale. Where a bias is added, they are multiplied
only after the maximum is subtracted: a row of a type's lowest number, times log2(e), would be infinite, where eager has the mean.
"""

import triton
import triton.language as tl

from .symbolic import is_far

_LOG2_E = tl.constexpr(1.4426950408889634)
_LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def step(
    acc, row_max, row_sum, q, k, v, hidden, bias, keeps, SCALE: tl.constexpr, CAP: tl.constexpr, HIDES: tl.constexpr,
    BIAS: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Updates the state of the rows with one more block of keys.

    acc      (M, D) f32: the sum of values, weighted by exponentials relative to `row_max`
    row_max  (M,) f32: the largest score so far, times log2(e) unless BIAS; -inf before the first
    row_sum  (M,) f32: the sum of these exponentials
    q        (M, D); k: (N, D); v: (N, D of the values)
    hidden   (M, N) or (1, N) bool, where HIDES: scores that do not count
    bias     (M, N) or (1, N) f32, where BIAS: added to the scaled scores
    keeps    (M, N) bool, where DROPS: weights that are not dropped; `row_sum` includes them all
    SCALE    of the scores, positive
    CAP      see `capped`
    """
    scores = tl.dot(q, k.T)
    if CAP > 0:
        scores = capped(scores, SCALE, CAP)
    SCALE_LEFT: tl.constexpr = 1.0 if CAP > 0 else SCALE  # of SCALE, what `capped` has not applied
    if BIAS:
        scores = scores * SCALE_LEFT + bias
    if HIDES:
        scores = tl.where(hidden, -float("inf"), scores)
    if BIAS:
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        origin = tl.where(new_max == -float("inf"), 0.0, new_max)  # a row that has seen nothing yet
        weights = tl.exp2((scores - origin[:, None]) * _LOG2_E)
        rescale = tl.exp2((row_max - origin) * _LOG2_E)
    else:
        factor = SCALE_LEFT * _LOG2_E  # takes one instruction with the subtraction of the maximum
        new_max = tl.maximum(row_max, tl.max(scores, 1) * factor)
        origin = new_max
        if HIDES:
            origin = tl.where(new_max == -float("inf"), 0.0, new_max)
        weights = tl.exp2(scores * factor - origin[:, None])
        rescale = tl.exp2(row_max - origin)
    row_sum = row_sum * rescale + tl.sum(weights, 1)
    if DROPS > 0:
        weights = tl.where(keeps, weights, 0.0)
    acc = tl.dot(weights.to(v.dtype), v, acc * rescale[:, None])
    return acc, new_max, row_sum


@triton.jit
def capped(scores, SCALE: tl.constexpr, CAP: tl.constexpr):
    """Returns CAP * tanh(SCALE * scores / CAP), a soft cap. Its error is CAP times that of a difference of numbers near 1."""
    return CAP - (2 * CAP) / (tl.exp2(scores * (2 * SCALE / CAP * _LOG2_E)) + 1.0)


@triton.jit
def logarithm(row_max, row_sum, BIAS: tl.constexpr):
    """Returns log2 of each row's sum of exponentials from the state of `step`; -inf where nothing was seen. A row of a type's
    lowest number stays finite."""
    if BIAS:
        row_max = tl.where(row_max == -float("inf"), row_max, tl.maximum(row_max * _LOG2_E, -3.0e38))
    return row_max + tl.log2(tl.where(row_sum == 0.0, 1.0, row_sum))


@triton.jit
def keep_sums(sums, rows, row_max, row_sum, shift, STRIDE, QUERIES, BIAS: tl.constexpr):
    """Stores each row's natural log-sum-exp: infinity for rows that see nothing.

    shift  (M,) f32: a shift of all scores of a row, added back
    """
    log = logarithm(row_max, row_sum, BIAS) * _LN_2 + shift
    tl.store(sums + rows * STRIDE, tl.where(row_max != -float("inf"), log, float("inf")), mask=rows < QUERIES)


@triton.jit
def masked(mask, rows, columns, inside, STRIDE, HOW: tl.constexpr, ONE: tl.constexpr, KEYS):
    """Returns `hidden` and `bias` for `step`, by a mask that is loaded at (M,) row offsets and (N,) key indices.

    inside  (M, N) bool: elements that exist
    HOW     "bias": added to the scores; "bool": false hides; else it is not read, and neither hides nor adds anything
    ONE     all rows are the same, at `mask`: it is read once
    """
    hidden, bias = inside & False, tl.zeros(inside.shape, tl.float32)
    if HOW == "bool" or HOW == "bias":
        if ONE:
            loaded = tl.load(mask + columns * STRIDE, mask=columns < KEYS, other=0)[None, :]
        else:
            loaded = tl.load(mask + rows[:, None] + columns[None, :] * STRIDE, mask=inside, other=0)
        if HOW == "bias":
            bias = loaded.to(tl.float32)
        else:
            hidden |= loaded == 0
    return hidden, bias  # a single return: triton 3.6 compares the types of all returns


@triton.jit
def rows_of(x, start, ROW, COLUMN, ROWS, COLUMNS: tl.constexpr, N: tl.constexpr, D: tl.constexpr, EDGE: tl.constexpr):
    """Loads rows `start` to start + N of a matrix of these strides and sizes, in a block of D columns; zero outside.

    EDGE  some rows may be outside
    """
    i, j = tl.arange(0, N)[:, None], tl.arange(0, D)[None, :]
    if is_far(ROW, N) or is_far(COLUMN, D):
        i, j = i.to(tl.int64), j.to(tl.int64)
    places = x + start * tl.full((), ROW, tl.int64) + i * ROW + j * COLUMN
    if EDGE and COLUMNS != D:
        return tl.load(places, mask=(start + i < ROWS) & (j < COLUMNS), other=0.0)
    if EDGE:
        return tl.load(places, mask=start + i < ROWS, other=0.0)
    if COLUMNS != D:
        return tl.load(places, mask=j < COLUMNS, other=0.0)
    return tl.load(places)
