"""Estimates the library's convolutions with the channels first and with the channels last, from measurements of similar ones.

`convolution_times.csv` holds 3,022 convolutions, most of them drawn, as an H200 computed them (tools/benchmarks/convolutions.py).
How far one is from its roofline depends on the kernels that cuDNN has for its kind, and has no formula: a 3 x 3 depthwise one takes
a fifth of the time with its channels last, one with two filters a channel eight times as long. So the estimate is the roofline of
the machine asked about times the geometric mean distance of the nearest neighbors (k-nearest-neighbor regression, weights by
inverse distance).

Left out one by one, the layout chosen for each call takes 1.06 of the better one's time (geometric mean over 9,048 calls), channels
last 1.27 and channels first 1.35; added up, 1.07, 1.63 and 1.31.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.core.gpu import Gpu

CALLS = "fdw"  # the convolution, the gradient of its image, the gradient of its weight
_NEIGHBORS = 5
_NEAR = 0.5  # added to squared distances, so that no neighbor stands for all
_LAUNCH = 3e-6  # seconds that a kernel takes whatever it does
_SHARE = 0.8  # of the tensor cores' peak, at most
_WEIGHTS = np.array([1, 1, 1, 2, 0.5, 1.5, 3, 1, 1, 1, 1, 2])  # of the features, by how much they change cuDNN's choice of kernel


@dataclass(frozen=True)
class ConvolutionShape:
    """A 2-D convolution.

    dtype      "f32" (rounded to tf32), "f16" or "bf16"
    side       of the image: the root of height times width
    window     side of the kernel likewise
    stride, dilation  of the width
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
        """Names the convolutions that it may be compared with."""
        if self.groups == 1:
            kind = "dense"
        elif self.groups < self.channels:
            kind = "grouped"
        else:
            kind = "depthwise" if self.features == self.channels else "multiplied"
        return ("f32" if self.dtype == "f32" else "half", kind, self.transposed)

    @property
    def position(self) -> NDArray[np.float64]:
        """Its point in the space of features."""
        inner, outer = self.channels // self.groups, self.features // self.groups
        sizes = [inner, outer, self.groups, self.window, self.batch * self.side**2]
        odd = [inner % 8, outer % 8, inner % 4, outer % 4]
        return (
            np.array([*np.log2(sizes), self.stride - 1, self.dilation - 1, *(float(r > 0) for r in odd), self.dtype == "f16"])
            * _WEIGHTS
        )

    def floor(self, gpu: Gpu) -> float:
        """Returns the seconds below which no kernel computes it: bytes over bandwidth or operations over the peak, and a launch."""
        scale = self.stride**2 if self.transposed else 1 / self.stride**2
        inside, outside = self.batch * self.side**2, self.batch * self.side**2 * scale
        weights = self.channels * self.features // self.groups * self.window**2
        item = 4 if self.dtype == "f32" else 2
        moved = item * (inside * self.channels + outside * self.features + weights) / gpu.bandwidth
        peak = gpu.peak("tf32" if self.dtype == "f32" else self.dtype) * _SHARE
        return _LAUNCH + max(moved, 2 * weights * (inside if self.transposed else outside) / peak)


@dataclass(frozen=True)
class MeasuredConvolution(ConvolutionShape):
    """A line of the table: microseconds of each call by layout (0: channels first, 1: channels last)."""

    f0: float
    d0: float
    w0: float
    f1: float
    d1: float
    w1: float

    @property
    def seconds(self) -> tuple[tuple[float, float], ...]:
        """Seconds with the channels first and last, of each of CALLS."""
        pairs = ((self.f0, self.f1), (self.d0, self.d1), (self.w0, self.w1))
        return tuple((first * 1e-6, last * 1e-6) for first, last in pairs)


@cache
def measured() -> tuple[MeasuredConvolution, ...]:
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
    """Returns the positions and the shares of a family: seconds over the measured machine's floor, by call and layout."""
    machine = Gpu.named("sm_90a")
    lines = [line for line in measured() if line.family == family]
    shares = [np.array(line.seconds) / line.floor(machine) for line in lines]
    return np.array([line.position for line in lines]), np.array(shares)


def seconds(shape: ConvolutionShape, calls: str, gpu: Gpu) -> tuple[float, float]:
    """Estimates the time of calls with the channels first and last.

    calls  letters of CALLS: a convolution is "f", its gradients "d", "w" or "dw"
    """
    dtype, kind, transposed = shape.family
    positions, shares = _neighbors(shape.family)
    if not len(positions):  # grouped and multiplied ones that are transposed are rare
        positions, shares = _neighbors((dtype, kind, not transposed))
    distances = ((positions - shape.position) ** 2).sum(axis=1)
    nearest = np.argsort(distances)[:_NEIGHBORS]
    weights = 1 / (distances[nearest] + _NEAR)
    mean = np.exp(np.tensordot(weights / weights.sum(), np.log(shares[nearest]), 1))
    first, last = mean[[CALLS.index(c) for c in calls]].sum(axis=0) * shape.floor(gpu)
    return float(first), float(last)
