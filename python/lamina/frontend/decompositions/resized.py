"""The axes that interpolation resizes: which elements a result reads, with which weights. Sizes may be symbolic."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ..fx.sizes import typical_size
from .half import wide_dtype
from .undecided import surely

_CUBIC = -0.75

Taps = list[tuple[Any, Any]]
"""Positions as integral floats, and weights (None: 1)."""


@dataclass(frozen=True)
class ResizedAxis:
    """One axis that is resized.

    dim        its number, counted from the last
    size, out  its length before and after, which may be symbolic
    scale      input elements per result element; made of the sizes where they are symbolic and their ratio is not known
    kind       nearest, nearest-exact, linear or cubic
    align      whether corners are aligned
    """

    dim: int
    size: int
    out: int
    scale: float
    kind: str
    align: bool

    def taps(self, j: Any) -> Taps:
        """Returns the elements that results `j`, a tensor or array of floats, read."""
        last = self.size - 1
        if self.kind.startswith("nearest"):
            return [(clamp_positions(floor((j + 0.5 if self.kind == "nearest-exact" else j) * self.scale), last), None)]
        at = j * self.scale if self.align else (j + 0.5) * self.scale - 0.5
        if self.kind == "linear":
            at = clamp_positions(at, last)
            low = floor(at)
            part = at - low
            return [(low, 1 - part), (clamp_positions(low + 1, last), part)]
        low = floor(at)
        part = (at - low).clip(0, 1)
        weights = [cubic_far(part + 1), cubic_near(part), cubic_near(1 - part), cubic_far(2 - part)]
        return [(clamp_positions(low + (k - 1), last), w) for k, w in enumerate(weights)]

    def floats(self, dtype: torch.dtype, device: torch.device) -> torch.dtype:
        """Returns the dtype of positions, as in eager: f64 for nearest-exact on a CPU, f32 for other nearest kinds."""
        if self.kind.startswith("nearest"):
            return torch.float64 if self.kind == "nearest-exact" and device.type == "cpu" else torch.float32
        return wide_dtype(dtype)

    def read(self, dtype: torch.dtype, device: torch.device) -> Taps:
        """Returns the taps of all results, as arrays."""
        kind = np.float64 if self.floats(dtype, device) is torch.float64 else np.float32
        return self.taps(np.arange(self.out, dtype=kind))

    @property
    def is_fixed(self) -> bool:
        """Whether its length is known before and after."""
        return isinstance(self.size, int) and isinstance(self.out, int)

    def repeats(self, device: torch.device) -> int:
        """Returns how many adjacent results copy each element; 0 if the number differs between elements."""
        if not self.is_fixed:  # whose rounding is not known for all sizes: by a power of two there is none
            times = round(1 / self.scale) if isinstance(self.scale, float) and 0 < self.scale <= 1 else 0
            exact = times & (times - 1) == 0 and self.scale * times == 1 and statically_known_true(self.out == self.size * times)
            return times if exact else 0
        times, rest = self.out // self.size, self.out % self.size
        ((places, _),) = self.read(torch.float32, device)
        return times if not rest and np.array_equal(places, np.arange(self.out) // times) else 0


def floor(x: Any) -> Any:
    """Returns the integral parts of a tensor or array."""
    return x.floor() if isinstance(x, Tensor) else np.floor(x)


def clamp_positions(x: Any, last: Any) -> Any:
    """Returns positions, a tensor or array, clamped from 0 to the last one, which may be symbolic."""
    if isinstance(last, int):
        return x.clip(0, last)
    return torch.minimum(x, torch.full((), last, dtype=x.dtype, device=x.device)).clamp(min=0)  # in range if `last` wraps, too


def cubic_near(x: Any, derivative: int = 0) -> Any:
    """Returns the cubic convolution's weight at a distance of at most 1, or its first derivative."""
    if derivative:
        return (3 * (_CUBIC + 2) * x - 2 * (_CUBIC + 3)) * x
    return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1


def cubic_far(x: Any, derivative: int = 0) -> Any:
    """Returns the cubic convolution's weight at a distance from 1 to 2, or its first derivative."""
    if derivative:
        return (3 * _CUBIC * x - 10 * _CUBIC) * x + 8 * _CUBIC
    return ((_CUBIC * x - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC


def resized_axes(
    before: Sequence[int], after: Sequence[int], kind: str, align: bool, scales: Sequence[float | None]
) -> list[ResizedAxis]:
    """Returns the axes that are resized."""
    made = []
    for d, (n, out, given) in enumerate(zip(before, after, scales, strict=True)):
        scale = 1 / given if given is not None and given > 0 else _ratio(n, out)
        if align:
            scale = 0.0 if surely(out <= 1) else _ratio(n - 1, out - 1)
        if not statically_known_true(n == out) or not statically_known_true(scale == 1):
            made.append(ResizedAxis(d - len(before), n, out, scale, kind, align))
    return made


def _ratio(n: Any, out: Any) -> Any:
    """Returns n / out: a number where one of these sizes is shown to be a multiple of the other."""
    if isinstance(n, int) and isinstance(out, int):
        return n / out
    for one, other in ((n, out), (out, n)):
        times = max(1, typical_size(one) // max(1, typical_size(other)))
        if statically_known_true(one == times * other):
            return float(times) if one is n else 1 / times
    return n / out
