"""The weights of attention once more, for its gradients: from scores and the logarithms of their rows' sums that forward kept."""

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def logarithms(sums, rows, STEP: tl.constexpr, QUERIES: tl.constexpr, BIAS: tl.constexpr):
    """The logarithms of (M,) rows, as `weights` takes them; infinity, which makes weights zero, for rows that are not there and for
    those that saw nothing, of which a library may have kept what an empty sum has."""
    log = tl.load(sums + rows.to(tl.int64) * STEP, mask=rows < QUERIES, other=float("inf"))
    log = tl.where(log == -float("inf"), float("inf"), log)
    return log if BIAS else log * _LOG2_E


@triton.jit
def weights(scores, log, hidden, bias, SCALE: tl.constexpr, HIDES: tl.constexpr, BIAS: tl.constexpr):
    """What each value counts.

    scores  f32, not scaled
    log     of the row's sum, with natural base where BIAS, else times log2(e); of a shape that goes with that of the scores
    hidden  bool, where HIDES: scores that do not count; bias, where BIAS: is added to the scaled scores
    """
    power = (scores * SCALE + bias - log) * _LOG2_E if BIAS else scores * (SCALE * _LOG2_E) - log
    return tl.where(hidden, 0.0, tl.exp2(power)) if HIDES else tl.exp2(power)
