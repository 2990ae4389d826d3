"""Tests scans, selections and sorts of rows, and antialiased interpolation, on a GPU: values and gradients against eager in
float64, with known and symbolic sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kernel_inputs import no_numbers_in
from torch import Tensor

Case = tuple[Callable[..., Any], Callable[[], Tensor]]


def on_gpu(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda")


def distinct(rows: int, n: int) -> Tensor:
    return torch.stack([torch.randperm(n, device="cuda") for _ in range(rows)]).float()


CASES: dict[str, Case] = {
    "cummax": (lambda a: a.cummax(-1), lambda: on_gpu(999, 1000)),
    "cummax of ties": (lambda a: a.round().cummax(-1), lambda: on_gpu(33, 257)),
    "cummin, down": (lambda a: a.cummin(0), lambda: on_gpu(1000, 999)),
    "cummax, one long row": (lambda a: a.cummax(-1), lambda: on_gpu(1, 1 << 20)),
    "cummax, few long columns": (lambda a: a.cummax(0), lambda: on_gpu(100001, 3)),
    "logcumsumexp": (lambda a: torch.logcumsumexp(a * 30, -1), lambda: on_gpu(999, 1000)),
    "logcumsumexp, down": (lambda a: torch.logcumsumexp(a * 30, 0), lambda: on_gpu(1000, 999)),
    "logcumsumexp, one long row": (lambda a: torch.logcumsumexp(a * 30, -1), lambda: on_gpu(1, 1 << 20)),
    "two scans": (lambda a: a.cumsum(-1) / (a.abs().cumsum(-1) + 1), lambda: on_gpu(99, 4097)),
    "experts": (lambda a: torch.topk(a.softmax(-1), 8), lambda: on_gpu(4096, 256)),
    "experts, few": (lambda a: torch.topk(a.softmax(-1), 2), lambda: on_gpu(4097, 8)),
    "many of the greatest": (lambda a: torch.topk(a, 16), lambda: distinct(127, 1000)),
    "the least": (lambda a: torch.topk(a, 32, largest=False), lambda: distinct(127, 500)),
    "the greatest down": (lambda a: torch.topk(a, 3, 0), lambda: distinct(33, 1000).t().contiguous()),
    "sorted": (lambda a: torch.sort(a, stable=True), lambda: on_gpu(999, 127).round()),
    "sorted down": (lambda a: torch.sort(a, dim=0, descending=True, stable=True), lambda: on_gpu(64, 1000).round()),
} | {
    f"{mode}, {name}": (lambda a, mode=mode, by=by: F.interpolate(a, mode=mode, antialias=True, **by), lambda: on_gpu(2, 3, 127, 190))
    for mode in ("bilinear", "bicubic")
    for name, by in {"half": {"scale_factor": 0.5}, "larger": {"scale_factor": 1.7}, "to nine": {"size": (9, 9)}}.items()
}  # fmt: skip


def trained(fn: Callable[..., Any], a: Tensor) -> list[Tensor]:
    """Returns the results, and the gradient of the first."""
    leaf = a.detach().clone().requires_grad_()
    found = fn(leaf)
    results = [found] if isinstance(found, Tensor) else list(found)
    flow = torch.linspace(0.5, 1.5, results[0].numel(), device="cuda").view(results[0].shape).to(results[0].dtype)
    return [r.detach() for r in results] + [*torch.autograd.grad(results[0], leaf, flow)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, dynamic: bool) -> None:
    fn, make = CASES[name]
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="lamina", dynamic=dynamic, options={"cache": False, "strict": True})
    a = make()
    for got, want in zip(trained(compiled, a), trained(fn, a.double()), strict=True):
        if want.dtype.is_floating_point:
            torch.testing.assert_close(got.double(), want, rtol=5e-4, atol=2e-5 * max(1.0, want.abs().max().item()))
        else:
            torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["cummax", "cummin", "logcumsumexp"])
def test_infinities_and_no_numbers(name: str) -> None:
    a = no_numbers_in(on_gpu(400, 333) * 300)
    fn = getattr(torch, name)
    for dim in (0, 1):
        torch._dynamo.reset()
        found, want = torch.compile(fn, backend="lamina", options={"cache": False})(a, dim), fn(a.double(), dim)
        for got, exact in zip(
            [found] if isinstance(found, Tensor) else found, [want] if isinstance(want, Tensor) else want, strict=True
        ):
            torch.testing.assert_close(got.double(), exact.double(), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8], ids=str)
def test_types(dtype: torch.dtype) -> None:
    a = (on_gpu(127, 100) * 9).abs().to(dtype)

    def fn(t: Tensor) -> list[Tensor]:
        return [t.cummax(1).values, t.cummin(0).values, *t.sort(stable=True, dim=1), t.topk(5)[0], t.topk(5, largest=False)[0]]

    torch._dynamo.reset()
    for got, want in zip(torch.compile(fn, backend="lamina", options={"cache": False, "strict": True})(a), fn(a), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


LONG: dict[str, Case] = {
    **{f"sorted {n}": (lambda a: torch.sort(a, stable=True), lambda n=n: on_gpu(333, n).round()) for n in (2, 33, 256, 1000, 2048)},
    "sorted, few": (lambda a: torch.sort(a, descending=True, stable=True), lambda: on_gpu(3, 513)),
    "sorted down": (lambda a: torch.sort(a, dim=0, stable=True), lambda: on_gpu(700, 99).round()),
    "with what surrounds it": (lambda a: F.gelu(torch.sort(a * 2)[0]) * a, lambda: distinct(99, 777) / 400 - 1),
    "many of the greatest": (lambda a: torch.topk(a, 50), lambda: distinct(333, 1000)),
    "a median": (lambda a: torch.median(a, -1), lambda: distinct(333, 1001)),
    "a median without NaN": (lambda a: torch.nanmedian(torch.where(a < 99, torch.nan, a), -1), lambda: distinct(333, 1001)),
    "the greatest of columns": (lambda a: a.max(1), lambda: distinct(64, 128 * 99).view(64, 128, 99)),
    "the least of columns": (lambda a: a.min(0), lambda: distinct(99, 300).t().contiguous()),
    "masked scatter": (lambda a: a.masked_scatter(a[:, :1] > 0, a.flip(0)), lambda: on_gpu(1000, 99)),
}


@pytest.mark.parametrize("name", LONG)
def test_rows_of_known_lengths(name: str) -> None:
    fn, make = LONG[name]
    torch._dynamo.reset()
    compiled, a = torch.compile(fn, backend="lamina", options={"cache": False, "strict": True}), make()
    for got, want in zip(trained(compiled, a), trained(fn, a.double()), strict=True):
        torch.testing.assert_close(got.to(want.dtype), want, rtol=5e-4, atol=2e-5)
