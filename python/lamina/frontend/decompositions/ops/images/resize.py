"""Decomposes interpolation and its gradients, one axis after another, with the sampled positions fixed at compile time.

Nearest neighbors at integer factors are copies of a view, and their gradients are sums of slices. All other kinds read through
per-axis tables of positions and weights, which are constants of the program, or computed for the sizes of a call where these are
symbolic. A gradient is a sum too: for each element, over the window of results that may have read it, with the weights that they
read it by, so nothing is scattered unless sizes are symbolic. An axis of one element is repeated, and its gradient is summed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._decomp.decompositions import upsample_compute_output_size

from ...half import in_f32
from ...resized import ResizedAxis, clamp_positions, floor, resized_axes
from ...undecided import surely

aten = torch.ops.aten

_MOST = 16  # results along one axis that one element's gradient is the sum of term by term; more are summed by a reduction
_SLICES = 8  # copies of an element that are summed as slices; more are summed by a reduction
_TABLE = 16384  # bytes of a table of positions or weights


@dataclass(frozen=True)
class _Window:
    """The results that read element i: `length` of them, from floor(i * step) - back on, clamped into range."""

    step: float
    back: int
    length: int

    @staticmethod
    def of(axis: ResizedAxis, dtype: torch.dtype, device: torch.device) -> "_Window":
        """Finds the smallest window that covers every reader of every element."""
        taps = axis.read(dtype, device)
        results = np.arange(axis.out)
        first, last = np.full(axis.size, axis.out), np.full(axis.size, -1)
        for places, weights in taps:
            counts = np.full(axis.out, True) if weights is None else weights != 0
            read, by = places[counts].astype(np.int64), results[counts]
            np.minimum.at(first, read, by)
            np.maximum.at(last, read, by)
        step = 1 / axis.scale if axis.scale else 0.0
        base = floor(np.arange(axis.size, dtype=taps[0][0].dtype) * step).astype(np.int64)
        is_read = last >= 0
        back = int((base - first)[is_read].max())
        return _Window(step, back, min(int((last - base + back)[is_read].max()) + 1, axis.out))

    def start(self, i: Tensor, out: int) -> Tensor:
        """Returns the first result that reads element i, where `out` results exist."""
        return (floor(i * self.step) - self.back).clip(0, out - self.length)


def _is_empty(shape: Sequence[int]) -> bool:
    return any(surely(n == 0) for n in shape)


def _ramp(n: int, axis: ResizedAxis, like: Tensor) -> Tensor:
    return torch.arange(n, dtype=axis.floats(like.dtype, like.device), device=like.device)


def _gathered(x: Tensor, axis: ResizedAxis, places: Tensor, size: int) -> Tensor:
    """Selects positions along an axis of length `size`.

    All are in range; the clamp proves it for tables that are not constant-folded.
    """
    return x.index_select(x.dim() + axis.dim, clamp_positions(places.to(torch.int32), size - 1))


def _along(weights: Tensor, axis: ResizedAxis) -> Tensor:
    return weights.view(*weights.shape, *[1] * (-axis.dim - 1))


def _nearest(dims: int, kind: str) -> Callable[..., Any]:
    """Decomposes nearest interpolation: a broadcast copy where all elements repeat equally often, else a gather."""

    def run(x: Tensor, output_size: Sequence[int], *scales: float | None, **named: float | None) -> Any:
        """Reads the nearest element along each axis."""
        if _is_empty(x.shape) or _is_empty(output_size):
            return NotImplemented
        axes = resized_axes(x.shape[-dims:], output_size, kind, False, scales_of(dims, scales, named))
        for axis in axes:
            dim, times = x.dim() + axis.dim, axis.repeats(x.device)
            if times:
                before, (n, *after) = x.shape[:dim], x.shape[dim:]
                x = x.unsqueeze(dim + 1).expand(*before, n, times, *after)
                x = x.clone(memory_format=torch.contiguous_format).view(*before, n * times, *after)
            else:
                ((places, _),) = axis.taps(_ramp(axis.out, axis, x))
                x = _gathered(x, axis, places, axis.size)
        return x if axes else x.clone()

    return run


def _smooth(dims: int, kind: str) -> Callable[..., Any]:
    """Decomposes linear and cubic interpolation into weighted sums of neighbors, rows before columns.

    Where the second axis reads a row again, cost decides whether it is recomputed or stored.
    """

    def run(x: Tensor, output_size: Sequence[int], align_corners: bool, *scales: float | None, **named: float | None) -> Any:
        """Interpolates along one axis after the other."""
        if not x.dtype.is_floating_point or _is_empty(x.shape) or _is_empty(output_size):
            return NotImplemented
        axes = resized_axes(x.shape[-dims:], output_size, kind, align_corners, scales_of(dims, scales, named))
        alone = [axis for axis in axes if surely(axis.size == 1)]
        for axis in axes:
            if axis in alone:
                x = x.expand(*x.shape[: axis.dim], axis.out, *x.shape[x.dim() + axis.dim + 1 :])
                continue
            taps = axis.taps(_ramp(axis.out, axis, x))
            first, *others = (_gathered(x, axis, places, axis.size) * _along(weights, axis) for places, weights in taps)
            x = sum(others, start=first)
        return x.clone() if alone or not axes else x

    return in_f32(run)


def _backward(dims: int, kind: str) -> Callable[..., Any]:
    """Decomposes the gradient of an interpolation."""
    smooth = not kind.startswith("nearest")

    def run(grad: Tensor, output_size: Sequence[int], input_size: Sequence[int], *rest: Any, **named: float | None) -> Any:
        """Computes the gradient of the resized image."""
        align, *scales = rest if smooth else (False, *rest)
        return _gradient(
            grad, input_size, resized_axes(input_size[-dims:], output_size, kind, align, scales_of(dims, scales, named))
        )

    return in_f32(run)


def scales_of(dims: int, scales: Sequence[float | None], named: dict[str, float | None]) -> list[float | None]:
    """Returns the scale factors that an op of so many dimensions is given, None if it is given none."""
    names = [f"scales_{c}" for c in "dhw"[-dims:]] if dims > 1 else ["scales"]
    given = dict(zip(names, scales, strict=False)) | named
    return [given.get(name) for name in names]


def _gradient(grad: Tensor, before: Sequence[int], axes: Sequence[ResizedAxis]) -> Any:
    """Returns the gradient of an input of sizes `before`; NotImplemented for integers and what is empty."""
    if not grad.dtype.is_floating_point or _is_empty(grad.shape) or _is_empty(before):
        return NotImplemented
    for axis in axes:
        times = axis.repeats(grad.device) if axis.kind.startswith("nearest") else 0
        if surely(axis.size == 1):
            grad = grad.sum(grad.dim() + axis.dim, keepdim=True)
        elif times:
            grad = _sum_of_copies(grad, axis, times)
        elif not axis.is_fixed:
            grad = _scattered(grad, axis)
        else:
            window = _Window.of(axis, grad.dtype, grad.device)
            grad = _sum_of_windows(grad, axis, window) if window.length <= _MOST else _reduced_windows(grad, axis, window)
    return grad if axes else grad.clone()


def _scattered(grad: Tensor, axis: ResizedAxis) -> Tensor:
    """Adds each result's gradient to the elements that it read, where the windows of symbolic sizes are not known."""
    dim = grad.dim() + axis.dim
    total = grad.new_zeros(*grad.shape[:dim], axis.size, *grad.shape[dim + 1 :])
    for places, weights in axis.taps(_ramp(axis.out, axis, grad)):
        total = total.index_add(dim, places.to(torch.int64), grad if weights is None else grad * _along(weights, axis))
    return total


def _sum_of_copies(grad: Tensor, axis: ResizedAxis, times: int) -> Tensor:
    dim = grad.dim() + axis.dim
    if times > _SLICES:
        return grad.reshape(*grad.shape[:dim], axis.size, times, *grad.shape[dim + 1 :]).sum(dim + 1)
    first, *others = (aten.slice.Tensor(grad, dim, k, axis.out, times) for k in range(times))
    return sum(others, start=first)


def _sum_of_windows(grad: Tensor, axis: ResizedAxis, window: _Window) -> Tensor:
    """Sums over the window's results. Tables for several of them are one tensor: as many as lamina-fold-constants still evaluates,
    so that each result's row is a constant in the end, and tracing takes a fraction of the ops."""
    start, total = window.start(_ramp(axis.size, axis, grad), axis.out), None
    rows = max(1, _TABLE // (axis.size * start.element_size()))
    for first in range(0, window.length, rows):
        count = min(rows, window.length - first)
        results, is_read, weights = _readers(axis, start, first, count)
        for k in range(count):
            term = _gathered(grad, axis, results[k], axis.out)
            term = _weighted(term, axis, is_read[k], None if weights is None else weights[k])
            total = term if total is None else total + term
    assert total is not None
    return total


def _reduced_windows(grad: Tensor, axis: ResizedAxis, window: _Window) -> Tensor:
    """Sums over the window's results by a reduction."""
    dim = grad.dim() + axis.dim
    results, is_read, weights = _readers(axis, window.start(_ramp(axis.size, axis, grad), axis.out), 0, window.length)
    wide = _gathered(grad, axis, results.reshape(-1), axis.out).unflatten(dim, (window.length, axis.size))
    return _weighted(wide, axis, is_read, weights).sum(dim)


def _readers(axis: ResizedAxis, start: Tensor, first: int, count: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Returns `count` results of each element's window, from number `first` on; whether they read the element; and the weights by
    which they do, None if all are 1. The shape of each is (count, axis.size)."""
    results = start + torch.arange(first, first + count, dtype=start.dtype, device=start.device).unsqueeze(1)
    element = torch.arange(axis.size, dtype=start.dtype, device=start.device)
    taps = [(places == element, weights) for places, weights in axis.taps(results)]
    if taps[0][1] is None:
        return results, taps[0][0], None
    weights = sum(torch.where(mine, weights, 0.0) for mine, weights in taps)
    return results, weights != 0, weights


def _weighted(gathered: Tensor, axis: ResizedAxis, is_read: Tensor, weights: Tensor | None) -> Tensor:
    """Multiplies gradients by weights; those of results that do not read the element are 0, even if infinite or NaN."""
    term = gathered if weights is None else gathered * _along(weights, axis)
    return torch.where(_along(is_read, axis), term, 0.0)


def _of_sizes(single: Callable[..., Any]) -> Callable[..., Any]:
    """Adapts a decomposition to the overload that takes sizes or scale factors."""

    def run(x: Tensor, output_size: Sequence[int] | None, *args: Any) -> Any:
        """Computes the output size from the scale factors."""
        *rest, factors = args
        sizes = upsample_compute_output_size(x.size(), output_size, factors)
        return single(x, sizes, *rest, *(factors or []))

    return run


def overloads_of(name: str, forward: Callable[..., Any], backward: Callable[..., Any]) -> dict[Any, Callable[..., Any]]:
    """Returns the decompositions of an op's overloads and of its gradient, by overload."""
    packet, gradient = getattr(aten, name), getattr(aten, f"{name}_backward")
    return {packet.default: forward, packet.vec: _of_sizes(forward), gradient.default: backward}


def _table() -> dict[Any, Callable[..., Any]]:
    found: dict[Any, Callable[..., Any]] = {}
    for dims in (1, 2, 3):
        for kind, name in (("nearest", "upsample_nearest"), ("nearest-exact", "_upsample_nearest_exact")):
            found |= overloads_of(f"{name}{dims}d", _nearest(dims, kind), _backward(dims, kind))
    smooth = (("linear1d", 1, "linear"), ("bilinear2d", 2, "linear"), ("trilinear3d", 3, "linear"), ("bicubic2d", 2, "cubic"))
    for name, dims, kind in smooth:
        found |= overloads_of(f"upsample_{name}", _smooth(dims, kind), _backward(dims, kind))
    return found


RESIZES: dict[Any, Callable[..., Any]] = _table()
