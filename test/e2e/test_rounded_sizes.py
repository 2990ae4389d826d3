"""Tests torch.compile(dynamic=True) with one compilation for sizes that are rounded floats, sums divisible by a number, or
computed from negative ints."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import same
from sized_graphs import compilations, dynamic, observed, precise_enough, x
from torch import Tensor

from lamina.core.program import Program

F = torch.nn.functional
__all__ = ["compilations"]
SIZES = ((4, 14), (6, 31), (5, 130), (9, 7), (4, 1001))

ROUNDED: dict[str, Callable[[Tensor], Any]] = {
    "a share": lambda a: a[:, : int(a.shape[1] * 0.7)].softmax(1),
    "a share of both": lambda a: a.reshape(-1)[: int(a.shape[1] * a.shape[0] * 0.3)].cumsum(0),
    "a half, to even": lambda a: a[:, : round(a.shape[1] / 2)] * 2,
    "a third": lambda a: a[:, : round(a.shape[1] / 3)] * 2,
    "steps": lambda a: a[:, : math.ceil(math.log2(a.shape[1]))].cos(),
    "digits": lambda a: a.new_ones(int(math.log2(a.shape[1]) / 1.7) + 1) * a.sum(),
    "a power": lambda a: a[:, : int(a.shape[1] ** 0.8)].sum(1),
    "a bounded share": lambda a: a[:, : max(1, int(min(0.6, 20 / a.shape[1]) * a.shape[1]))].sin(),
    "a capacity": lambda a: a.reshape(-1).topk(int(1.25 * a.numel() / 4)).values,
    "positions": lambda a: a + torch.arange(0, a.shape[1] / 2, 0.5),
    "parts": lambda a: torch.arange(0, 1, 1 / a.shape[1]).sum() + a,
    "whole numbers up to a share": lambda a: torch.linspace(0.5, a.shape[1] * 0.7, 5, dtype=torch.int64).sum() + a,
    "around 0": lambda a: torch.arange(-a.shape[1] / 2, a.shape[1] / 2) + a,
    "an image": lambda a: F.interpolate(a[None, None], scale_factor=0.7, mode="bilinear") * 2,
    "a larger image": lambda a: F.interpolate(a[None, None], scale_factor=(1.3, 0.9), mode="nearest").exp(),
}


@pytest.mark.filterwarnings("error:lamina compiles")
@pytest.mark.parametrize("name", ROUNDED)
def test_a_size_is_a_rounded_float(name: str, compilations: list[Program]) -> None:
    function = ROUNDED[name]
    compiled = dynamic(function)
    for sizes in SIZES:
        a = x(*sizes)
        precise_enough(compiled(a), function(a), function(a.double()), f"at {sizes}")
    assert len(compilations) == 1


@pytest.mark.filterwarnings("error:lamina compiles")
def test_a_rounded_float_below_0(compilations: list[Program]) -> None:
    """Half of a difference is rounded towards 0, and cuts or pads."""

    def centered(a: Tensor) -> Tensor:
        return F.pad(a, (int((33 - a.shape[1]) / 2), 3)) * 2

    compiled = dynamic(centered)
    for n in (12, 17, 33, 50, 36, 1000):
        a = x(3, n)
        same(compiled(a), centered(a))
    assert len(compilations) <= 3  # torch asks whether it is cut, and whether it is padded


SUMS: dict[str, tuple[Callable[..., Tensor], Callable[[int, int], tuple[Tensor, ...]]]] = {
    "pairs": (lambda a, b: torch.cat([a, b], 1).view(a.shape[0], -1, 2).softmax(1), lambda b, n: (x(b, 2 * n), x(b, 2 * n + 2))),
    "of three": (
        lambda a, b, c: torch.cat([a, b, c]).view(-1, 3, a.shape[1]).sin().sum(1),
        lambda b, n: (x(3 * b, n), x(3, n), x(6 * b, n)),
    ),
    "halves": (lambda a, b: torch.cat([a, b]).view(2, -1, a.shape[1]).exp().sum(0), lambda b, n: (x(b, n), x(b + 2, n))),
    "of products of sizes": (
        lambda a, b: torch.cat([a, b]).view(4, (a.shape[0] + b.shape[0]) * a.shape[1] // 4).softmax(1),
        lambda b, n: (x(2 * b, 2 * n), x(2 * b + 4, 2 * n)),
    ),
    "by columns and rows": (
        lambda a, b: torch.cat([a, b]).view(-1, 4, (a.shape[0] + b.shape[0]) * a.shape[1] // 4).cumsum(2),
        lambda b, n: (x(2 * b, 2 * n), x(2 * b + 4, 2 * n)),
    ),
    "with one more": (
        lambda a, b: F.pad(torch.cat([a, b], 1), (1, 0)).view(a.shape[0], -1, 4).amax(2),
        lambda b, n: (x(b, n + 2), x(b, 3 * n + 1)),
    ),
}


@pytest.mark.filterwarnings("error:lamina compiles")
@pytest.mark.parametrize("name", SUMS)
def test_a_view_divides_a_sum_of_sizes(name: str, compilations: list[Program]) -> None:
    function, make = SUMS[name]
    compiled = dynamic(function)
    for sizes in SIZES:
        args = [a.requires_grad_() for a in make(*sizes)]
        wide = [a.detach().double() for a in args]
        got, eager, want = observed(compiled, args, True), observed(function, args, True), observed(function, wide, True)
        for i, parts in enumerate(zip(got, eager, want, strict=True)):
            precise_enough(*parts, f"result {i} at {sizes}")
    assert len(compilations) == 2


BELOW_0: dict[str, Callable[[Tensor, int], Tensor]] = {
    "the last rows": lambda a, n: a[n:].sum(0),
    "all but the last columns": lambda a, n: a[:, :n].softmax(1),
    "one row": lambda a, n: a[n] * 2,
    "a factor": lambda a, n: a * n - n // 2 + n % 3,
    "a diagonal": lambda a, n: a.tril(n),
    "a shift": lambda a, n: a.roll(n, 1),
    "a size": lambda a, n: a.new_ones(3 - n, a.shape[1] + n) * a.sum(),
    "positions": lambda a, n: torch.arange(n, a.shape[0]) * 2,
    "a pad": lambda a, n: F.pad(a, (n, -n)),
}


@pytest.mark.filterwarnings("error:lamina compiles")
@pytest.mark.parametrize("name", BELOW_0)
def test_an_int_is_below_0(name: str, compilations: list[Program]) -> None:
    function = BELOW_0[name]
    compiled = dynamic(function)
    for rows, n in ((12, -5), (9, -7), (31, -2), (130, -128), (17, -15)):
        a = x(rows, rows)
        same(compiled(a, n), function(a, n))
    assert len(compilations) == 1
    a = x(10, 10)
    same(compiled(a, 3), function(a, 3))  # compiled apart
    same(compiled(a, -3), function(a, -3))
