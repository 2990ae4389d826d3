"""Decomposes pooling into pads, strided slices and pointwise maxima or sums.

Gradients are gathered: each element sums over the windows that cover it. Windows of more than 64 taps stay calls of ATen, but
maxima on CPUs, which are taken along one dimension after the other.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32, wide_dtype
from ...undecided import surely
from ..math.integer import natural_quotient

aten = torch.ops.aten

_MAX_TAPS = 64  # windows of more would unroll into too many slices


def _each(value: Any, dims: int, default: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Expands one number for all dimensions into one for each."""
    if isinstance(value, int):
        return (value,) * dims
    if not value:
        return default
    return tuple(value) * dims if len(value) == 1 else tuple(value)


def _row_major(digits: Iterator[Tensor], sizes: Sequence[int]) -> Tensor:
    """Returns the row-major number of these digits, of which the first is of the outermost dimension."""
    number = next(digits)
    for n, digit in zip(sizes[1:], digits, strict=True):
        number = number * n + digit
    return number


class _Window:
    """The taps of a pooling window.

    out  the sizes of the result
    """

    def __init__(self, dims: int, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> None:
        self.kernel = _each(kernel, dims)
        self.stride = _each(stride, dims, self.kernel)
        self.pad = _each(padding, dims)
        self.dilation = _each(dilation, dims)
        self.size, self.ceil = tuple(x.shape[-dims:]), ceil
        self.out = tuple(self._extent(i, ceil) for i in range(dims))

    def _extent(self, i: int, ceil: bool) -> int:
        span = self.size[i] + 2 * self.pad[i] - self.dilation[i] * (self.kernel[i] - 1) - 1
        n = (span + (self.stride[i] - 1 if ceil else 0)) // self.stride[i] + 1
        may_start_outside = self.pad[i] + self.stride[i] >= self.dilation[i] * (self.kernel[i] - 1) + 2
        if ceil and may_start_outside and (n - 1) * self.stride[i] >= self.size[i] + self.pad[i]:
            n -= 1
        return n

    def padded(self, x: Tensor, value: float) -> Tensor:
        """Returns `x`, padded for every tap; where a size is symbolic, for the most that taps may read at any size."""
        widths: list[int] = []
        for i in reversed(range(len(self.size))):
            reach = (self.out[i] - 1) * self.stride[i] + self.dilation[i] * (self.kernel[i] - 1) + 1
            after = reach - self.size[i] - self.pad[i]
            most = self.pad[i] + self.ceil * (self.stride[i] - 1)
            widths += [self.pad[i], max(after, 0) if isinstance(after, int) else most]
        return torch.constant_pad_nd(x, widths, value) if any(widths) else x

    def elements(self, padded: Tensor, i: int = 0) -> Iterator[Tensor]:
        """Yields the elements of a padded image that each tap reads, in the shape of the result. Taps share slices of rows."""
        if i == len(self.kernel):
            yield padded
            return
        for k in range(self.kernel[i]):
            start = k * self.dilation[i]
            end = start + (self.out[i] - 1) * self.stride[i] + 1
            yield from self.elements(aten.slice.Tensor(padded, i - len(self.kernel), start, end, self.stride[i]), i + 1)

    @property
    def covering(self) -> tuple[int, ...]:
        """How many windows may cover an element, for each dimension."""
        return tuple((k - 1) * d // s + 1 for k, d, s in zip(self.kernel, self.dilation, self.stride, strict=True))

    def covered_by(self, i: int, back: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Finds the windows that cover the elements of dimension `i`.

        Returns for each element the window `back` before the last one that may cover it, clamped into range; and, to broadcast
        along the dimension, the number of the tap that reads it there, and whether one does.
        """
        place = torch.arange(self.size[i], dtype=torch.int32, device=device) + self.pad[i]
        at = natural_quotient(place, self.stride[i]) - back
        reach = place - at * self.stride[i]
        tap = natural_quotient(reach, self.dilation[i])
        covers = (at >= 0) & (at < self.out[i]) & (tap < self.kernel[i])
        if self.dilation[i] > 1:
            covers = covers & (tap * self.dilation[i] == reach)
        return at.clamp(0, self.out[i] - 1), self.along(tap, i), self.along(covers, i)

    def first_inside(self, device: torch.device) -> Tensor:
        """Returns the number of each window's first tap that is not padding: eager reports it for a window of -inf."""

        def tap(i: int, d: int) -> Tensor:
            """Returns the first tap inside along dimension `i`, whose dilation is `d`."""
            outside = self.pad[i] - torch.arange(self.out[i], dtype=torch.int32, device=device) * self.stride[i]
            return self.along(natural_quotient(outside + (d - 1), d).clamp(min=0), i)

        return _row_major(itertools.starmap(tap, enumerate(self.dilation)), self.kernel).to(torch.int8)

    def places(self, number: Tensor) -> Tensor:
        """Maps tap numbers to positions in the image's memory, taken as row-major."""
        taps = zip(self._digits(number, self.kernel), self.dilation, strict=True)
        return _row_major((start + tap * d for (start, tap), d in taps), self.size).to(torch.int64)

    def numbers(self, places: Tensor) -> Tensor:
        """Maps positions in the image's memory to tap numbers."""
        at = zip(self._digits(places, self.size), self.dilation, strict=True)
        return _row_major((natural_quotient(place - start, d) for (start, place), d in at), self.kernel).to(torch.int8)

    def _digits(self, number: Tensor, sizes: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields for each dimension where windows start, and the digit of a row-major number for `sizes`."""
        rest = number.to(torch.int32)
        for i in range(len(sizes)):
            below = math.prod(sizes[i + 1 :])
            start = torch.arange(self.out[i], dtype=torch.int32, device=number.device) * self.stride[i] - self.pad[i]
            digit = natural_quotient(rest, below)
            yield self.along(start, i), digit
            rest = rest - digit * below

    def counts(self, i: int, include: bool, device: torch.device) -> list[int] | Tensor:
        """Returns how many elements each window of dimension `i` averages over: one number where it is the same for all, and a
        tensor where the dimension is symbolic."""
        if not self.ceil and (include or not self.pad[i]):
            return [self.kernel[i]]
        if not isinstance(self.out[i], int):
            first = torch.arange(self.out[i], device=device) * self.stride[i] - self.pad[i]
            after = torch.minimum(first + self.kernel[i], torch.full((), self.size[i] + include * self.pad[i], device=device))
            return after - (first if include else first.clamp(min=0))
        found = []
        for n in range(self.out[i]):
            start = n * self.stride[i] - self.pad[i]
            end = min(start + self.kernel[i], self.size[i] + self.pad[i])
            found.append(end - start if include else min(end, self.size[i]) - max(start, 0))
        return found

    def along(self, x: Tensor, i: int) -> Tensor:
        """Reshapes a vector to broadcast along dimension `i`."""
        return x.view(-1, *[1] * (len(self.size) - 1 - i))


def _max_pool(dims: int) -> Callable[..., Any]:
    """Computes the greatest tap (NaN if any is NaN) and its position in the image.

    The position follows from the tap's number, a byte, which is what is saved for the gradient.
    """

    def run(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        """Returns the maxima and their places in the image."""
        window = _Window(dims, x, kernel, stride, padding, dilation, ceil_mode)
        if not x.dtype.is_floating_point or surely(x.numel() == 0):
            return NotImplemented
        if math.prod(window.kernel) > _MAX_TAPS:
            in_turn = x.device.type == "cpu" and max(window.kernel) <= _MAX_TAPS
            return _max_in_turn(window, x) if in_turn else NotImplemented
        padded = window.padded(x, float("-inf"))
        best, *others = window.elements(padded)
        number = window.first_inside(x.device).expand(best.shape)
        for k, tap in enumerate(others, 1):
            number = torch.where((tap > best) | (tap != tap), k, number)
            best = torch.maximum(best, tap)
        return best, window.places(number)

    return run


def _max_in_turn(window: _Window, x: Tensor) -> Any:
    """Takes the maxima of windows along one dimension after the other, the last first: k + k taps in place of k * k. The places are
    those of the whole window: the first maximum's in row-major order, or the last NaN's."""
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
    """Sums for each element the gradients of the windows whose maximum it is, without a scatter."""

    def run(grad: Tensor, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, places: Tensor) -> Any:
        """Sums the gradients of the windows whose maximum an element is."""
        window = _Window(dims, x, kernel, stride, padding, dilation, ceil_mode)
        if math.prod(window.covering) > _MAX_TAPS or not x.dtype.is_floating_point or surely(x.numel() == 0):
            return NotImplemented
        return _over_windows(window, grad, window.numbers(places)).to(grad.dtype)

    return run


def _avg_pool(dims: int) -> Callable[..., Any]:
    """Sums the taps and divides by how many count."""

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
        window = _Window(dims, x, kernel, stride, padding, 1, ceil_mode)
        if math.prod(window.kernel) > _MAX_TAPS or not x.dtype.is_floating_point or surely(x.numel() == 0):
            return NotImplemented
        padded = window.padded(x, 0.0)
        first, *others = window.elements(padded)
        total = sum(others, start=first)
        return _averaged(window, total, count_include_pad, divisor_override)

    return in_f32(run)


def _avg_pool_backward(dims: int) -> Callable[..., Any]:
    """Sums for each element the gradients of the windows that cover it, each divided by how many elements the window counts."""

    def run(
        grad: Tensor, x: Tensor, kernel: Any, stride: Any, padding: Any, ceil: bool, count_include_pad: bool, divisor: int | None
    ) -> Any:
        """Sums the shares of the windows that an element is in."""
        window = _Window(dims, x, kernel, stride, padding, 1, ceil)
        if math.prod(window.covering) > _MAX_TAPS or not x.dtype.is_floating_point or surely(x.numel() == 0):
            return NotImplemented
        shares = _averaged(window, grad.to(wide_dtype(grad.dtype)), count_include_pad, divisor)
        return _over_windows(window, shares).to(grad.dtype)

    return run


def _over_windows(window: _Window, grad: Tensor, chosen: Tensor | None = None) -> Tensor:
    """Sums for each element, in at least f32, the gradients of the windows that cover it, without a scatter.

    chosen  the number of the one tap of each window that the gradient belongs to; None where it belongs to all
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


def _averaged(window: _Window, total: Tensor, count_include_pad: bool, divisor: int | None) -> Tensor:
    """Divides the windows' sums by how many elements each counts, or by `divisor`."""
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
    """Builds `counts` as a tensor by comparing a ramp with the few indices, at the ends, whose value differs from the middle's."""
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
