"""The windows of pooling: which elements each tap reads, and which windows cover an element."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ...resized import clamp_positions
from ..math.integer import natural_quotient

aten = torch.ops.aten


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


class PoolWindow:
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
        return clamp_positions(at, self.out[i] - 1), self.along(tap, i), self.along(covers, i)

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
