"""Computes means and sums of squared deviations in one pass over memory, whatever the length.

The mean of rows that lie far from zero is rounded by as much as their deviation. So deviations are taken from a shift near the
mean, and the shift's error is subtracted again: the corrected two-pass algorithm of T. Chan, G. Golub and R. LeVeque, "Algorithms
for computing the sample variance", 1983. Long rows are cut into parts that stay in a cache or in registers, whose moments are
merged. On a GPU the parts of a batch's statistics stay in neither. There the shift is the mean of a sample, as in the same authors'
shifted one-pass algorithm; the sample is taken from every image (of symbolic batches, from up to 64), so that no single one decides
it. That of a long row is the mean of a few of its elements: it loses about as many bits as the binary logarithm of
1 + (shift - mean)^2 / variance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import guard_or_true

from ..half import in_compute_dtype
from ..undecided import guess, surely

SHORT = 256  # elements below which the roundings of f32 do not average out
LONG = 131072  # elements beyond which rows do not stay in a cache, or in the registers of a GPU
LONG_COLUMN = 4096  # the same where adjacent elements in memory belong to different results
PART, COLUMN_PART = 8192, 128  # elements of one part, at most
SPREAD = 262144  # from this many elements on, lamina-split-reductions makes several programs of one sum
PIECES = 32768  # elements from which on it does so for a row of a GPU that lies in pieces, such as a channel of an image
SAMPLE = 256  # elements whose mean is the shift of a batch's statistics, at most
IMAGES, PIXELS = 64, 2  # of these, along the first and along each other dimension, where a call decides their sizes
FEW = 8  # elements whose mean is the shift of a row's


@dataclass(frozen=True)
class Moments:
    """Moments over dimensions that are kept with length 1.

    mean     of the elements
    squares  the sum of their squared deviations from it
    """

    mean: Tensor
    squares: Tensor


@dataclass(frozen=True)
class _Part:
    """Moments of parts of `count` elements, one for each index of the dimensions in `over`. The mean is shift + rest."""

    shift: Tensor
    rest: Tensor
    squares: Tensor
    count: int
    over: tuple[int, ...]


def moments(x: Tensor, dims: Sequence[int], exact_mean: bool = True) -> Moments:
    """Returns the moments of `x` over `dims`, in f32 or f64.

    exact_mean  on a CPU, take the mean of f32 from a sum in f64, as eager does, so that it holds where elements cancel
    """
    n = count(x, dims)
    if _in_f64(x) and (n < SHORT if isinstance(n, int) else not is_long(x, dims)):
        w = x.double()
        mean = w.sum(dims, True) / n
        d = w - mean
        return Moments(mean, (d * d).sum(dims, True))
    if not on_cpu(x) and (0 in dims or is_long(x, dims)) and guard_or_true(x.numel() >= SPREAD):
        return _shifted(x, dims, n)
    return _joined([_moments(piece, inner, over, exact_mean) for piece, inner, over in _pieces(x, dims)], n)


def _shifted(x: Tensor, dims: Sequence[int], n: int) -> Moments:
    """Returns moments about a shift near the mean, for data that many programs read once."""
    known = all(isinstance(x.shape[d], int) for d in dims)
    shift = _mean_of_batches(x, dims) if 0 in dims or not known else _mean_of_few(x, dims)
    d = in_compute_dtype(x) - shift
    total = d.sum(dims, True)
    squares = (d * d).sum(dims, True) - total * total / n
    return Moments(shift + total / n, squares.clamp(min=0))


def _mean_of_batches(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Returns the mean of a sample from the middle of the dimensions."""
    sample, left = x, SAMPLE
    known = all(isinstance(x.shape[d], int) for d in dims)
    for number, d in enumerate(sorted(dims)):
        if known:
            most = max(left, 1)
        elif len(dims) == 1:
            most = SAMPLE
        else:
            most = IMAGES if number == 0 else PIXELS
        length = min(x.shape[d], most)
        sample, left = sample.narrow(d, (x.shape[d] - length) // 2, length), left // length
    return in_compute_dtype(sample).sum(dims, True) / count(sample, dims)


def _mean_of_few(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Returns the mean of FEW elements of each row, spread evenly: the kernel that reads the row computes it, too."""
    total = None
    for k in range(FEW):
        element = x
        for d in dims:
            element = element.narrow(d, x.shape[d] * (2 * k + 1) // (2 * FEW), 1)
        total = in_compute_dtype(element) if total is None else total + in_compute_dtype(element)
    assert total is not None
    return total / FEW


def is_long(x: Tensor, dims: Sequence[int]) -> bool:
    """Returns whether `moments` cuts the rows into parts.

    On a GPU, columns are left to lamina-split-reductions, which knows how many programs there is room for. Images of known sizes
    may lie with their channels last there, whatever the layout of `x`.
    """
    size = count(x, dims)
    if not on_cpu(x) and len(dims) > 1 and isinstance(size, int) and size >= PIECES:
        return True
    if _along_memory(x, dims):
        return surely(size > LONG)
    return on_cpu(x) and surely(size >= LONG_COLUMN)


def on_cpu(x: Tensor) -> bool:
    """Returns whether a tensor is on a CPU."""
    return x.device.type == "cpu"


def _in_f64(x: Tensor) -> bool:
    """Returns whether eager computes moments of `x` in f64: those of f32 on a CPU."""
    return x.dtype is torch.float32 and on_cpu(x)


def count(x: Tensor, dims: Sequence[int]) -> int:
    """Returns how many elements lie along dimensions; 1 for a tensor without dimensions."""
    return math.prod(x.shape[d] for d in dims) if x.dim() else 1


def _along_memory(x: Tensor, dims: Sequence[int]) -> bool:
    """Returns whether adjacent elements in memory belong to one row."""
    sizes = [(guess(s), guess(n)) for s, n in zip(x.stride(), x.shape, strict=True)]
    sides = [(s, -d) for d, (s, n) in enumerate(sizes) if s and n > 1]
    return not sides or -min(sides)[1] in dims


def _pieces(x: Tensor, dims: Sequence[int]) -> list[tuple[Tensor, list[int], tuple[int, ...]]]:
    """Splits rows into parts, as views. Returns each view with the dimensions of one part and those along which parts lie.

    Where the length of a part does not divide that of a row, the last part is a piece by itself. A length that is not known is not
    searched for a divisor: each that is tried would be a guard.
    """
    if not is_long(x, dims):
        return [(x, list(dims), ())]
    most = PART if _along_memory(x, dims) else COLUMN_PART
    ordered = sorted(dims, key=lambda d: (x.stride(d), -d))
    place, inner = 0, 1
    while inner * x.shape[ordered[place]] <= most:
        inner *= x.shape[ordered[place]]
        place += 1
    split, size = ordered[place], x.shape[ordered[place]]
    length = int(max(most // inner, 1))
    if isinstance(size, int):
        length = next((divisor for divisor in range(length, length // 2, -1) if size % divisor == 0), length)
    whole = size // length * length
    cut = x.narrow(split, 0, whole).unflatten(split, (size // length, length))
    over = tuple(_after(other, split) for other in ordered[place + 1 :])
    within = [_after(other, split) for other in ordered[:place]]
    pieces = [(cut, [*within, split + 1], (split, *over))]
    if whole < size:
        rest = x.narrow(split, whole, size - whole).unsqueeze(split)
        pieces.append((rest, [*within, split + 1], (split, *over)))
    return pieces


def _after(other: int, split: int) -> int:
    """Returns the number of a dimension after `d` was split in two."""
    return other + (other > split)


def _moments(x: Tensor, dims: list[int], over: tuple[int, ...], exact_mean: bool) -> _Part:
    wide, size = in_compute_dtype(x), count(x, dims)
    if exact_mean and _in_f64(x):
        mean = wide.double().sum(dims, True) / size
        shift = mean.float()
        distance, rest = wide - shift, mean - shift.double()
    else:
        shift = wide.sum(dims, True) / size
        distance = wide - shift
        rest = distance.sum(dims, True) / size
    squares = (distance * distance).sum(dims, True) - size * rest * rest
    return _Part(shift, rest, squares.abs(), size, over)  # a negative value comes from rounding


def _joined(parts: list[_Part], size: int) -> Moments:
    """Merges the moments of all parts."""
    if len(parts) == 1 and not parts[0].over:
        return Moments(parts[0].shift + parts[0].rest, parts[0].squares)
    parts = [_higher(part) for part in parts]
    first = parts[0]
    base = first.shift.sum(first.over, True) / count(first.shift, first.over)  # near the mean
    away = [(part.shift - base) + part.rest for part in parts]  # of their means from `base`
    rest = _added([a.sum(part.over, True) * part.count for a, part in zip(away, parts, strict=True)]) / size
    between = [((a - rest) * (a - rest)).sum(part.over, True) * part.count for a, part in zip(away, parts, strict=True)]
    squares = _added([part.squares.sum(part.over, True) + spread for part, spread in zip(parts, between, strict=True)])
    mean = base + rest
    return Moments(mean.squeeze(first.over[0]), squares.squeeze(first.over[0]))


def _higher(part: _Part) -> _Part:
    """Returns the part in f64 in place of f32, on a CPU."""
    if _in_f64(part.shift):
        return _Part(part.shift.double(), part.rest.double(), part.squares.double(), part.count, part.over)
    return part


def _added(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else values[0] + values[1]
