"""Recomputes attention's weights for its gradients, from scores and the log-sum-exps that forward stored."""

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def logarithms(sums, rows, STEP, QUERIES, BIAS: tl.constexpr):
    """Loads the log-sum-exps of (M,) rows, as `weights` takes them. Infinity, which makes weights zero, for rows past the end and
    for those that saw nothing, for which a library may have stored -inf."""
    log = tl.load(sums + rows.to(tl.int64) * STEP, mask=rows < QUERIES, other=float("inf"))
    log = tl.where(log == -float("inf"), float("inf"), log)
    return log if BIAS else log * _LOG2_E


@triton.jit
def weights(scores, log, hidden, bias, SCALE: tl.constexpr, HIDES: tl.constexpr, BIAS: tl.constexpr):
    """Returns the softmax weights.

    scores  f32, not scaled
    log     the row's log-sum-exp, natural where BIAS, else times log2(e); broadcasts with the scores
    hidden  bool, where HIDES: scores that do not count; bias, where BIAS: added to the scaled scores
    """
    power = (scores * SCALE + bias - log) * _LOG2_E if BIAS else scores * (SCALE * _LOG2_E) - log
    return tl.where(hidden, 0.0, tl.exp2(power)) if HIDES else tl.exp2(power)
