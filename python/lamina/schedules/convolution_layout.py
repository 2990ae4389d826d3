"""Estimates the time of the library's convolutions, channels first and channels last, from measurements of similar ones.

`convolution_times.csv` holds the times of 3,022 convolutions on an H200, most of them drawn at random
(tools/benchmarks/convolutions.py). How far a convolution is from its roofline depends on the kernels that cuDNN has for its kind,
which follows no formula: with channels last, a 3 x 3 depthwise one takes a fifth of the time, but one with two filters per channel
eight times as long. So the estimate is the roofline on the given GPU, times the geometric mean of the nearest neighbors' distances
from theirs (k-nearest-neighbor regression, weighted by inverse distance).

In a leave-one-out test, the layout chosen for each call takes 1.06 of the time of the better one (geometric mean over 9,048 calls);
always channels last takes 1.27, always channels first 1.35. In total time it is 1.05, 1.63 and 1.31.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.core.gpu import Gpu

CALLS = "fdw"  # the convolution (forward), the gradient of its image (data), the gradient of its weight
_NEIGHBORS = 5
_NEAR = 0.5  # added to squared distances, so that no neighbor outweighs all others
_LAUNCH = 3e-6  # seconds that a kernel takes at least
_SHARE = 0.8  # share of the tensor cores' peak that a kernel reaches at most
_WEIGHTS = np.array([1, 1, 1, 2, 0.5, 1.5, 3, 1, 1, 1, 1, 2])  # of `position`, by how much each changes cuDNN's choice of kernel
_DEPTHWISE_WINDOW = 4  # of the window of depthwise convolutions: cuDNN has kernels for single windows


@dataclass(frozen=True)
class ConvolutionShape:
    """A 2-D convolution.

    dtype      "f32" (rounded to tf32), "f16" or "bf16"
    side       the side of a square with the image's pixels: the root of height times width
    window     the side of a square with the window's elements
    stride, dilation  those along the width
    """

    dtype: str
    batch: int
    channels: int
    features: int
    side: float
    window: float
    groups: int
    stride: int
    dilation: int
    transposed: bool

    @property
    def family(self) -> tuple[str, str, bool]:
        """Names the kind of convolutions that it may be compared with."""
        if self.groups == 1:
            kind = "dense"
        elif self.groups < self.channels:
            kind = "grouped"
        else:
            kind = "depthwise" if self.features == self.channels else "multiplied"
        return ("f32" if self.dtype == "f32" else "half", kind, self.transposed)

    @property
    def position(self) -> NDArray[np.float64]:
        """Its point in the space in which neighbors are searched."""
        inner, outer = self.channels // self.groups, self.features // self.groups
        sizes = [inner, outer, self.groups, self.window, self.batch * self.side**2]
        odd = [inner % 8, outer % 8, inner % 4, outer % 4]
        own = np.array([*_WEIGHTS[:3], _DEPTHWISE_WINDOW, *_WEIGHTS[4:]]) if inner == outer == 1 else _WEIGHTS
        return (
            np.array([*np.log2(sizes), self.stride - 1, self.dilation - 1, *(float(r > 0) for r in odd), self.dtype == "f16"]) * own
        )

    def floor(self, gpu: Gpu) -> float:
        """Returns the least seconds that a kernel may take, by the roofline: a launch, and its bytes or its operations."""
        scale = self.stride**2 if self.transposed else 1 / self.stride**2
        inside, outside = self.batch * self.side**2, self.batch * self.side**2 * scale
        weights = self.channels * self.features // self.groups * self.window**2
        item = 4 if self.dtype == "f32" else 2
        moved = item * (inside * self.channels + outside * self.features + weights) / gpu.bandwidth
        peak = gpu.peak("tf32" if self.dtype == "f32" else self.dtype) * _SHARE
        return _LAUNCH + max(moved, 2 * weights * (inside if self.transposed else outside) / peak)


@dataclass(frozen=True)
class MeasuredConvolution(ConvolutionShape):
    """A row of the table. f0 to w1: the microseconds of each of CALLS, by layout (0: channels first, 1: channels last)."""

    f0: float
    d0: float
    w0: float
    f1: float
    d1: float
    w1: float

    @property
    def seconds(self) -> tuple[tuple[float, float], ...]:
        """The seconds of each of CALLS, channels first and channels last."""
        pairs = ((self.f0, self.f1), (self.d0, self.d1), (self.w0, self.w1))
        return tuple((first * 1e-6, last * 1e-6) for first, last in pairs)


@cache
def measured_convolutions() -> tuple[MeasuredConvolution, ...]:
    """Reads the table."""
    with resources.files(__package__).joinpath("convolution_times.csv").open() as file:
        _, *lines = csv.reader(file)

    def read(line: list[str]) -> MeasuredConvolution:
        """Parses a row of the table."""
        rest: list[Any] = [*map(int, line[1:9]), line[9] == "1", *map(float, line[10:])]
        return MeasuredConvolution(line[0], *rest)

    return tuple(map(read, lines))


@cache
def _neighbors(family: tuple[str, str, bool]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the positions of a family's convolutions, and their times by call and layout as multiples of `floor`."""
    machine = Gpu.named("sm_90a")
    lines = [line for line in measured_convolutions() if line.family == family]
    shares = [np.array(line.seconds) / line.floor(machine) for line in lines]
    return np.array([line.position for line in lines]), np.array(shares)


def seconds(shape: ConvolutionShape, calls: str, gpu: Gpu) -> tuple[float, float]:
    """Estimates the seconds that calls take together, channels first and channels last.

    calls  letters of CALLS: "f" for a convolution, "d", "w" or "dw" for its gradients
    """
    dtype, kind, transposed = shape.family
    positions, shares = _neighbors(shape.family)
    if not len(positions):  # the table has no transposed convolutions of the rarer kinds
        positions, shares = _neighbors((dtype, kind, not transposed))
    distances = ((positions - shape.position) ** 2).sum(axis=1)
    nearest = np.argsort(distances)[:_NEIGHBORS]
    weights = 1 / (distances[nearest] + _NEAR)
    mean = np.exp(np.tensordot(weights / weights.sum(), np.log(shares[nearest]), 1))
    first, last = mean[[CALLS.index(c) for c in calls]].sum(axis=0) * shape.floor(gpu)
    return float(first), float(last)
