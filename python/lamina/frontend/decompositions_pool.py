"""Pooling and nearest upsampling as pads, strided slices and pointwise maxima or sums."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions, decomposition_table

from .half import in_f32

aten = torch.ops.aten

# Windows with more taps than this would unroll into too many slices.
_MAX_TAPS = 64


def _pair(value: Any, default: tuple[int, int] | None = None) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    if not value:
        assert default is not None
        return default
    return (value[0], value[0]) if len(value) == 1 else (value[0], value[1])


class _Window:
    """Where the taps of a 2-d window fall: `taps` of (row, column) offsets into the padded plane, out: its result's size."""

    def __init__(self, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> None:
        self.kernel = _pair(kernel)
        self.stride = _pair(stride, self.kernel)
        self.pad = _pair(padding)
        self.dilation = _pair(dilation)
        self.size = (x.shape[-2], x.shape[-1])
        self.out = tuple(self._extent(i, ceil) for i in (0, 1))
        self.taps = [(i, j) for i in range(self.kernel[0]) for j in range(self.kernel[1])]

    def _extent(self, i: int, ceil: bool) -> int:
        span = self.size[i] + 2 * self.pad[i] - self.dilation[i] * (self.kernel[i] - 1) - 1
        n = (span + (self.stride[i] - 1 if ceil else 0)) // self.stride[i] + 1
        if ceil and (n - 1) * self.stride[i] >= self.size[i] + self.pad[i]:
            n -= 1
        return n

    def padded(self, x: Tensor, value: float) -> Tensor:
        """`x` wide enough for every tap."""
        reach = [(self.out[i] - 1) * self.stride[i] + self.dilation[i] * (self.kernel[i] - 1) + 1 for i in (0, 1)]
        after = [max(reach[i] - self.size[i] - self.pad[i], 0) for i in (0, 1)]
        widths = [self.pad[1], after[1], self.pad[0], after[0]]
        return torch.constant_pad_nd(x, widths, value) if any(widths) else x

    def tap(self, padded: Tensor, i: int, j: int) -> Tensor:
        for dim, k in ((-2, i), (-1, j)):
            start = k * self.dilation[dim]
            end = start + (self.out[dim] - 1) * self.stride[dim] + 1
            padded = aten.slice.Tensor(padded, dim, start, end, self.stride[dim])
        return padded


def max_pool2d(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    """The greatest tap, NaN if any is, and its place in the plane."""
    window = _Window(x, kernel, stride, padding, dilation, ceil_mode)
    if len(window.taps) > _MAX_TAPS or not x.dtype.is_floating_point or x.numel() == 0:
        return NotImplemented
    padded = window.padded(x, float("-inf"))
    rows = torch.arange(window.out[0], device=x.device) * window.stride[0] - window.pad[0]
    columns = torch.arange(window.out[1], device=x.device) * window.stride[1] - window.pad[1]
    best, where = None, None
    for i, j in window.taps:
        tap = window.tap(padded, i, j)
        row, column = rows + i * window.dilation[0], columns + j * window.dilation[1]
        place = (row * window.size[1]).unsqueeze(1) + column
        if best is None:
            best, where = tap, _first_inside(window, place.expand(tap.shape))
            continue
        inside = ((row >= 0) & (row < window.size[0])).unsqueeze(1) & ((column >= 0) & (column < window.size[1]))
        where = torch.where(((tap > best) | (tap != tap)) & inside, place, where)
        best = torch.maximum(best, tap)
    return best, where


def _first_inside(window: _Window, place: Tensor) -> Tensor:
    """The place of the first tap that is not padding: what eager reports for a window of -inf."""
    row = torch.arange(window.out[0], device=place.device) * window.stride[0] - window.pad[0]
    column = torch.arange(window.out[1], device=place.device) * window.stride[1] - window.pad[1]
    first = [
        torch.where(v < 0, v + ((-v + d - 1) // d) * d, v) for v, d in ((row, window.dilation[0]), (column, window.dilation[1]))
    ]
    return (first[0] * window.size[1]).unsqueeze(1).expand(place.shape) + first[1]


@in_f32
def avg_pool2d(
    x: Tensor,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    window = _Window(x, kernel, stride, padding, 1, ceil_mode)
    if len(window.taps) > _MAX_TAPS or not x.dtype.is_floating_point or x.numel() == 0:
        return NotImplemented
    padded = window.padded(x, 0.0)
    first, *others = (window.tap(padded, i, j) for i, j in window.taps)
    total = sum(others, start=first)
    if divisor_override is not None:
        return total / divisor_override
    counts = [_counts(window, i, count_include_pad) for i in (0, 1)]
    if all(len(set(c)) == 1 for c in counts):
        return total / (counts[0][0] * counts[1][0])
    rows, columns = (_piecewise(c, x) for c in counts)
    return total / (rows.unsqueeze(1) * columns)


def _counts(window: _Window, i: int, include: bool) -> list[int]:
    """How many elements each window of an axis averages over."""
    found = []
    for n in range(window.out[i]):
        start = n * window.stride[i] - window.pad[i]
        end = min(start + window.kernel[i], window.size[i] + window.pad[i])
        found.append(end - start if include else min(end, window.size[i]) - max(start, 0))
    return found


def _piecewise(counts: list[int], x: Tensor) -> Tensor:
    """`counts` as a tensor, from a ramp: the middle is one value and the ends differ."""
    middle = counts[len(counts) // 2]
    at = torch.arange(len(counts), device=x.device)
    out = torch.full((len(counts),), float(middle), dtype=x.dtype, device=x.device)
    for n, count in enumerate(counts):
        if count != middle:
            out = torch.where(at == n, float(count), out)
    return out


@in_f32
def adaptive_avg_pool2d(x: Tensor, size: Sequence[int]) -> Any:
    (h, w), (oh, ow) = x.shape[-2:], size
    if x.numel() == 0 or 0 in size:
        return NotImplemented
    if h % oh or w % ow:
        return decomposition_table[aten._adaptive_avg_pool2d.default](x, size)
    if (oh, ow) == (1, 1):
        return x.mean([-2, -1], True)
    return x.reshape(*x.shape[:-2], oh, h // oh, ow, w // ow).mean([-3, -1])


def adaptive_avg_pool2d_backward(grad: Tensor, x: Tensor) -> Any:
    (h, w), (oh, ow) = x.shape[-2:], grad.shape[-2:]
    if h % oh or w % ow:
        return NotImplemented
    kh, kw = h // oh, w // ow
    spread = (grad / (kh * kw)).unsqueeze(-1).unsqueeze(-3)
    return spread.expand(*grad.shape[:-2], oh, kh, ow, kw).reshape(x.shape)


def upsample_nearest2d(x: Tensor, size: Sequence[int], scales_h: float | None = None, scales_w: float | None = None) -> Any:
    (h, w), (oh, ow) = x.shape[-2:], size
    if oh % h or ow % w or scales_h not in (None, oh / h) or scales_w not in (None, ow / w):
        return core_aten_decompositions()[aten.upsample_nearest2d.default](x, size, scales_h, scales_w)
    y = x.unsqueeze(-1).unsqueeze(-3)
    return y.expand(*x.shape[:-2], h, oh // h, w, ow // w).reshape(*x.shape[:-2], oh, ow)


def upsample_bilinear2d(x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """By gathers of four neighbours."""
    if not x.dtype.is_floating_point:
        return NotImplemented
    return in_f32(decomposition_table[aten.upsample_bilinear2d.default])(x, *args, **kwargs)


POOLS: dict[Any, Callable[..., Any]] = {
    aten.max_pool2d_with_indices.default: max_pool2d,
    aten.avg_pool2d.default: avg_pool2d,
    aten._adaptive_avg_pool2d.default: adaptive_avg_pool2d,
    aten._adaptive_avg_pool2d_backward.default: adaptive_avg_pool2d_backward,
    aten.upsample_nearest2d.default: upsample_nearest2d,
    aten.upsample_bilinear2d.default: upsample_bilinear2d,
}
