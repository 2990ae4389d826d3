"""Decomposes pooling into pads, strided slices and pointwise maxima or sums.

Gradients are gathered, not scattered: each element sums over the windows that cover it. Pooling with windows of more than 64 taps
(elements) stays a call of ATen, except for maxima on CPUs, which are taken along one dimension after the other.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32, wide_dtype
from ...undecided import surely
from .pool_window import PoolWindow

aten = torch.ops.aten

_MAX_TAPS = 64  # larger windows would unroll into too many slices


def _max_pool(dims: int) -> Callable[..., Any]:
    """Builds the decomposition of max_pool: the greatest element of each window (NaN if any is NaN) and its position in the image.

    Positions are computed from the number of the tap, a byte, so that only that is saved for the gradient.
    """

    def run(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        """Returns the maxima and their places in the image."""
        window = PoolWindow(dims, x, kernel, stride, padding, dilation, ceil_mode)
        if x.dtype is torch.bool or surely(x.numel() == 0):
            return NotImplemented
        if math.prod(window.kernel) > _MAX_TAPS:
            in_turn = x.device.type == "cpu" and max(window.kernel) <= _MAX_TAPS
            return _max_in_turn(window, x) if in_turn else NotImplemented
        padded = window.padded(x, -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min)
        best, *others = window.elements(padded)
        number = window.first_inside(x.device).expand(best.shape)
        for k, tap in enumerate(others, 1):
            number = torch.where((tap > best) | (tap != tap), k, number)
            best = torch.maximum(best, tap)
        return best, window.places(number)

    return run


def _max_in_turn(window: PoolWindow, x: Tensor) -> Any:
    """Takes the maxima of windows along one dimension after the other, the last first: k + k taps instead of k * k. The positions
    are the same as for whole windows: that of the first maximum in row-major order, or of the last NaN."""
    dims, best, places = len(window.kernel), x, None
    for i in reversed(range(dims)):
        kernel, stride, pad, dilation = (
            [sizes[i] if d == i else other for d in range(dims)]
            for sizes, other in ((window.kernel, 1), (window.stride, 1), (window.pad, 0), (window.dilation, 1))
        )
        best, at = _max_pool(dims)(best, kernel, stride, pad, dilation, window.ceil)
        places = at if places is None else places.flatten(-dims).gather(-1, at.flatten(-dims)).view(at.shape)
    return best, places


def _max_pool_backward(dims: int) -> Callable[..., Any]:
    """Builds the decomposition of the gradient of max_pool."""

    def run(grad: Tensor, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, places: Tensor) -> Any:
        """Sums, for each element, the gradients of the windows whose maximum it is."""
        window = PoolWindow(dims, x, kernel, stride, padding, dilation, ceil_mode)
        if math.prod(window.covering) > _MAX_TAPS or not x.dtype.is_floating_point or surely(x.numel() == 0):
            return NotImplemented
        return _over_windows(window, grad, window.numbers(places)).to(grad.dtype)

    return run


def _avg_pool(dims: int) -> Callable[..., Any]:
    """Builds the decomposition of avg_pool."""

    def run(
        x: Tensor,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        """Returns the means of the windows."""
        window = PoolWindow(dims, x, kernel, stride, padding, 1, ceil_mode)
        if math.prod(window.kernel) > _MAX_TAPS or not x.dtype.is_floating_point or surely(x.numel() == 0):
            return NotImplemented
        padded = window.padded(x, 0.0)
        first, *others = window.elements(padded)
        total = sum(others, start=first)
        return _averaged(window, total, count_include_pad, divisor_override)

    return in_f32(run)


def _avg_pool_backward(dims: int) -> Callable[..., Any]:
    """Builds the decomposition of the gradient of avg_pool."""

    def run(
        grad: Tensor, x: Tensor, kernel: Any, stride: Any, padding: Any, ceil: bool, count_include_pad: bool, divisor: int | None
    ) -> Any:
        """Sums, for each element, the gradients of the windows that cover it, each divided by the window's count of elements."""
        window = PoolWindow(dims, x, kernel, stride, padding, 1, ceil)
        if math.prod(window.covering) > _MAX_TAPS or not x.dtype.is_floating_point or surely(x.numel() == 0):
            return NotImplemented
        shares = _averaged(window, grad.to(wide_dtype(grad.dtype)), count_include_pad, divisor)
        return _over_windows(window, shares).to(grad.dtype)

    return run


def _over_windows(window: PoolWindow, grad: Tensor, chosen: Tensor | None = None) -> Tensor:
    """Sums, for each element, the gradients of the windows that cover it, in at least f32.

    chosen  for each window, the number of the only tap that its gradient belongs to; None if it belongs to all taps
    """
    dims, total = len(window.size), None
    windows = [[window.covered_by(i, k, grad.device) for k in range(n)] for i, n in enumerate(window.covering)]
    for back in itertools.product(*map(range, window.covering)):
        term, taken, wanted, covers = grad, chosen, None, None
        for i, k in enumerate(back):
            at, tap, inside = windows[i][k]
            dim = grad.dim() + i - dims
            term = term.index_select(dim, at)
            covers = inside if covers is None else covers & inside
            if taken is not None:
                taken = taken.index_select(dim, at)
                wanted = tap if wanted is None else wanted * window.kernel[i] + tap
        term = torch.where(covers if taken is None else (taken == wanted) & covers, term.to(wide_dtype(grad.dtype)), 0.0)
        total = term if total is None else total + term
    assert total is not None
    return total


def _averaged(window: PoolWindow, total: Tensor, count_include_pad: bool, divisor: int | None) -> Tensor:
    """Divides the sum of each window by the number of its elements, or by `divisor`."""
    if divisor is not None:
        return total / divisor
    counts = [window.counts(i, count_include_pad, total.device) for i in range(len(window.size))]
    if all(isinstance(c, list) and len(set(c)) == 1 for c in counts):
        return total / math.prod(c[0] for c in counts)
    parts = (c.to(total.dtype) if isinstance(c, Tensor) else _piecewise(c, total) for c in counts)
    over, *rest = (window.along(part, i) for i, part in enumerate(parts))
    for one in rest:
        over = over * one
    return total / over


def _piecewise(counts: list[int], x: Tensor) -> Tensor:
    """Builds `counts` as a tensor without a constant: the value in the middle, selected against the few others at the ends."""
    middle = counts[len(counts) // 2]
    at = torch.arange(len(counts), device=x.device)
    out = torch.full((len(counts),), float(middle), dtype=x.dtype, device=x.device)
    for n, count in enumerate(counts):
        if count != middle:
            out = torch.where(at == n, float(count), out)
    return out


POOLS: dict[Any, Callable[..., Any]] = {
    aten.max_pool2d_with_indices.default: _max_pool(2),
    aten.max_pool3d_with_indices.default: _max_pool(3),
    aten.max_pool2d_with_indices_backward.default: _max_pool_backward(2),
    aten.max_pool3d_with_indices_backward.default: _max_pool_backward(3),
    aten.avg_pool2d.default: _avg_pool(2),
    aten.avg_pool3d.default: _avg_pool(3),
    aten.avg_pool2d_backward.default: _avg_pool_backward(2),
    aten.avg_pool3d_backward.default: _avg_pool_backward(3),
}
