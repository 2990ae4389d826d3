"""Tests scans, searches, selections and distances along rows, windows and diagonals, through `torch.compile`: values, gradients,
strides, and that only matrix products are left to libraries."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kernel_inputs import no_numbers_in
from test_decompositions import fallbacks, graphs
from torch import Tensor

x = torch.randn
ROWS = x(4, 9).sort(-1).values
CASES: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "cumprod": (lambda a: a.cumprod(1), [1 + x(3, 35) / 10]),
    "cumprod across": (lambda a: a.cumprod(0), [1 + x(35, 3) / 10]),
    "cumprod with zeros": (lambda a: a.cumprod(1), [torch.tensor([[0.0, 2, 3, 4], [2, 0, 3, 4], [2, 0, 3, 0], [1, 2, 3, 0], [0, 0, 0, 0]])]),
    "cumprod of a number": (lambda a: a.cumprod(0), [x(1)[0]]),
    "cumprod of flags": (lambda a: a.cumprod(0), [x(7, 3) > -1]),
    "cummax": (lambda a: a.cummax(-1), [x(3, 127)]),
    "cummax across": (lambda a: a.cummax(0), [x(127, 3).t().contiguous().t()]),
    "cummin with ties": (lambda a: a.cummin(1), [x(3, 40).round()]),
    "cummin of bytes": (lambda a: a.cummin(0), [torch.randint(0, 256, (40, 3)).byte()]),
    "cummax of flags": (lambda a: a.cummax(1), [x(3, 40) > 1]),
    "cummax of integers": (lambda a: a.cummax(0), [torch.randperm(1000)]),
    "logcumsumexp": (lambda a: torch.logcumsumexp(a, 1), [x(127, 127) * 9]),  # one row: the greatest error is chance
    "logcumsumexp across": (lambda a: torch.logcumsumexp(a, 0), [x(127, 129) * 9]),
    "logcumsumexp of one": (lambda a: torch.logcumsumexp(a, 1), [x(3, 1)]),
    "diagonal": (lambda a: a.diagonal(-2) + 1, [x(5, 7)]),
    "diagonal of others": (lambda a: a.diagonal(1, 2, 0) * 2, [x(4, 5, 6)]),
    "diagonal_copy": (lambda a: torch.diagonal_copy(a, 1), [x(7, 5).t()]),
    "diagonal_scatter": (lambda a, s: torch.diagonal_scatter(a, s, 1, 2, 0), [x(4, 5, 6), x(5, 3)]),
    "diagonal_scatter below": (lambda a, s: torch.diagonal_scatter(a, s, -1), [x(4, 5), x(3)]),
    "trace": (torch.trace, [x(5, 6)]),
    "permute_copy": (lambda a: torch.permute_copy(a, (1, 0)), [x(5, 7)]),
    "view_copy": (lambda a: torch.view_copy(a, (7, 5)), [x(5, 7)]),
    "narrow_copy": (lambda a: torch.narrow_copy(a, 1, 2, 3), [x(5, 7)]),
    "unbind_copy": (lambda a: torch.unbind_copy(a, 1)[2], [x(5, 7)]),
    "maximum of flags": (lambda a: torch.max(a, 1), [x(5, 7) > 0]),
    "argmax of a number": (torch.argmax, [x(1)[0]]),
    "all of a number": (torch.all, [x(1)[0]]),
    "the greatest": (lambda a: torch.topk(a, 1), [x(6, 300)]),
    "the four greatest": (lambda a: torch.topk(a, 4, 0), [x(17, 5)]),
    "experts of tokens": (lambda a: torch.topk(a.softmax(-1), 8), [torch.stack([torch.randperm(256) for _ in range(7)]) / 8]),
    "the least floats": (lambda a: torch.topk(a, 3, largest=False), [torch.stack([torch.randperm(250) for _ in range(6)]).float()]),
    "the greatest long integers": (lambda a: torch.topk(a, 7), [torch.randint(-(2**63), 2**63 - 1, (5, 40))]),
    "sorted": (lambda a: torch.sort(a, stable=True), [x(7, 33)]),
    "the fifth": (lambda a: torch.kthvalue(a, 5), [torch.stack([torch.randperm(100) for _ in range(3)]).float()]),
    "the third down": (lambda a: torch.kthvalue(a, 3, 0, True), [torch.randperm(60).view(20, 3)]),
    "sorted down": (lambda a: torch.sort(a, dim=0, descending=True, stable=True), [x(40, 3)]),
    "sorted with ties": (lambda a: torch.sort(a, stable=True, dim=1), [x(7, 128).round()]),
    "sorted, long": (lambda a: torch.sort(a, stable=True, descending=True), [x(3, 250).round() * -0.0 ** torch.randint(0, 2, (3, 250))]),
    "sorted halves": (lambda a: torch.sort(a, stable=True), [x(5, 100).bfloat16()]),
    "sorted along a slice": (lambda a: torch.sort(a[:, ::2], stable=True), [x(5, 90)]),
    "sorted over two dimensions of a slice": (lambda a: torch.sort(a[:, 1].abs().view(-1), stable=True), [x(5, 3, 17)]),
    "many of the greatest": (lambda a: torch.topk(a, 60), [torch.stack([torch.randperm(200) for _ in range(3)]).float()]),
    "many of the least": (lambda a: torch.topk(a, 40, 0, False), [torch.randperm(150).view(50, 3).float()]),
    "masked scatter": (lambda a, m, s: a.masked_scatter(m, s), [x(3, 7, 5), x(3, 7, 1) > 0, x(11, 12)]),
    "masked scatter of all": (lambda a, m, s: a.masked_scatter(m, s), [x(1000), x(1000) > -9, x(1000)]),
    "median": (lambda a: torch.median(a, 1), [torch.stack([torch.randperm(100) for _ in range(3)]).float()]),
    "median, kept": (lambda a: torch.median(a, -1, True), [torch.stack([torch.randperm(33) for _ in range(3)]).float()]),
    "mode": (lambda a: torch.mode(a, 1), [x(7, 14).round()]),
    "mode among zeros": (lambda a: torch.mode(a, 1), [torch.tensor([[0.0, -0.0, 1.0], [-0.0, 1.0, 0.0], [2.0, -1.0, 3.0]])]),
    "mode of integers": (lambda a: torch.mode(a, 0, True), [torch.randint(0, 5, (13, 3))]),
    "median down": (lambda a: torch.median(a, 0), [torch.randperm(60).view(20, 3).float()]),
    "median of all": (torch.median, [torch.randperm(60).view(20, 3).float()]),
    "median of integers": (lambda a: torch.median(a, 1), [torch.stack([torch.randperm(100) for _ in range(3)]).int()]),
    "median without NaN": (lambda a: torch.nanmedian(torch.where(a < 30, torch.nan, a), 1), [torch.randperm(200).view(2, 100).float()]),
    "sorted flags": (lambda a: torch.sort(a, stable=True), [x(7, 33) > 0]),
    "sorted places": (lambda a: torch.argsort(a, -1, descending=True), [torch.stack([torch.randperm(100) for _ in range(3)])]),
    "the least integers": (lambda a: torch.topk(a, 3, largest=False), [torch.randperm(40).view(2, 20)]),
    "bucketize": (torch.bucketize, [torch.cat([x(50), ROWS[0], torch.tensor([math.nan, math.inf, -math.inf])]), ROWS[0]]),
    "searchsorted": (torch.searchsorted, [ROWS, x(4, 6)]),
    "searchsorted, right": (lambda a, b: torch.searchsorted(a, b, right=True, out_int32=True), [ROWS, ROWS.clone()]),
    "searchsorted, unsorted": (lambda a, b, s: torch.searchsorted(a, b, sorter=s), [ROWS.flip(1), x(4, 6), torch.arange(9).flip(0).repeat(4, 1)]),
    "addmv": (lambda a, m, v: torch.addmv(a, m, v, beta=0.3, alpha=2), [x(7), x(7, 9), x(9)]),
    "addmv, ignored": (lambda m, v: torch.addmv(m.new_full((7,), math.nan), m, v, beta=0), [x(7, 9), x(9)]),
    "addbmm": (lambda a, m, n: torch.addbmm(a, m, n, beta=0.3, alpha=2), [x(7, 5), x(3, 7, 9), x(3, 9, 5)]),
    "bilinear": (F.bilinear, [x(2, 6, 7), x(2, 6, 5), x(4, 7, 5), x(4)]),
    "adaptive max pool": (lambda a: F.adaptive_max_pool2d(a, (3, 5)), [x(2, 3, 6, 10)]),
    "adaptive max pool, ragged": (lambda a: F.adaptive_max_pool2d(a, (4, 3)), [x(2, 3, 9, 7)]),
    "adaptive average pool, ragged": (lambda a: F.adaptive_avg_pool2d(a, (4, 3)), [x(2, 3, 9, 7)]),
    "adaptive average pool, larger": (lambda a: F.adaptive_avg_pool2d(a, (9, 5)), [x(2, 3, 4, 3)]),
    "adaptive average pool, 3-D": (lambda a: F.adaptive_avg_pool3d(a, (2, 4, 3)), [x(2, 3, 5, 9, 6)]),
    "adaptive max pool, 3-D": (lambda a: F.adaptive_max_pool3d(a, (2, 1, 3)), [x(2, 3, 4, 3, 6)]),
} | {
    f"{name} {p}": (fn, [x(5, 7), x(6, 7)])
    for p in (0.5, 1.0, 2.0, 3.0, math.inf)
    for name, fn in {"cdist": lambda a, b, p=p: torch.cdist(a, b, p), "dist": lambda a, b, p=p: torch.dist(a[0], b, p + 0.25)}.items()
}  # fmt: skip


def trained(fn: Callable[..., Any], given: list[Tensor]) -> list[Tensor]:
    """Returns results and gradients."""
    leaves = [t.detach().clone(memory_format=torch.preserve_format) for t in given]
    leaves = [t.requires_grad_() if t.dtype.is_floating_point else t for t in leaves]
    found = fn(*leaves)
    results = [found] if isinstance(found, Tensor) else list(found)
    if results[0].requires_grad:
        results[0].backward(torch.linspace(0.5, 1.5, results[0].numel()).view(results[0].shape).to(results[0].dtype))
    return [r.detach() for r in results] + [t.grad for t in leaves if t.grad is not None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, dtype: torch.dtype) -> None:
    fn, inputs = CASES[name]
    if dtype is torch.bfloat16 and name.startswith("cdist"):
        pytest.skip("eager has no kernel")
    given = [t.to(dtype) if t.dtype.is_floating_point else t for t in inputs]
    exact = trained(fn, [t.double() if t.dtype.is_floating_point else t for t in given])
    eager, mine = trained(fn, given), trained(torch.compile(fn, backend="lamina"), given)
    for got, e, want in zip(mine, eager, exact, strict=True):
        assert (got.dtype, got.shape) == (e.dtype, e.shape) and (got.stride() == e.stride() or got.numel() < 2)
        if not want.dtype.is_floating_point:
            torch.testing.assert_close(got, e, rtol=0, atol=0)
            continue
        error, theirs = ((t.double() - want).abs().nan_to_num().max() for t in (got, e))
        assert error <= 2 * theirs + 2 * torch.finfo(dtype).eps * want.abs().max()


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_left_to_aten(name: str) -> None:
    fn, inputs = CASES[name]
    first = lambda *a: out if isinstance(out := fn(*a), Tensor) else out[0]  # noqa: E731
    given = [t.clone().requires_grad_() if t.dtype.is_floating_point else t for t in inputs]
    assert set().union(*map(fallbacks, graphs(first, given))) == set()


@pytest.mark.parametrize("fn", [lambda a, b: torch.topk(a, b.shape[0]), lambda a, b: torch.kthvalue(a, b.shape[0])])
def test_a_size_tells_how_many_are_taken(fn: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="lamina", dynamic=True, options={"strict": True})
    a = torch.stack([torch.randperm(60) for _ in range(3)]).float()
    torch._dynamo.mark_static(a)
    for n in (5, 9, 41):
        for got, want in zip(compiled(a, x(n)), fn(a, x(n)), strict=True):
            assert got.equal(want)


def test_gradients_of_products_are_as_many_ops_at_any_length() -> None:
    assert (
        len({sum(len(gm.graph.nodes) for gm in graphs(lambda a: a.cumprod(1), [x(2, n, requires_grad=True)])) for n in (5, 50)})
        == 1
    )


@pytest.mark.parametrize(
    "name",
    [
        "cumprod",
        "cummax",
        "logcumsumexp",
        "experts of tokens",
        "sorted",
        "masked scatter",
        "diagonal of others",
        "diagonal_scatter",
        "searchsorted",
        "cdist 2.0",
    ],
)
def test_sizes_may_be_symbols(name: str) -> None:
    fn, inputs = CASES[name]
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="lamina", dynamic=True)
    larger = (
        [torch.cat([t, t]) for t in inputs]
        if name in ("cumprod", "cummax", "logcumsumexp", "searchsorted", "cdist 2.0")
        else inputs
    )
    for given in (inputs, larger):
        for got, want in zip(trained(compiled, given), trained(fn, given), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cummax", "cummin", "logcumsumexp"])
def test_scans_of_infinities_and_no_numbers(name: str) -> None:
    a = no_numbers_in(x(40, 33) * 300)
    a[:5, :9] = -math.inf
    fn = getattr(torch, name)
    for dim in (0, 1):
        found, want = torch.compile(fn, backend="lamina")(a, dim), fn(a.double(), dim)
        for got, exact in zip(
            [found] if isinstance(found, Tensor) else found, [want] if isinstance(want, Tensor) else want, strict=True
        ):
            torch.testing.assert_close(got.double(), exact.double(), rtol=1e-6, atol=1e-6, equal_nan=True)


def test_adaptive_max_pool_reports_the_places_of_its_maxima() -> None:
    a = x(2, 3, 5, 7)
    a[0, 0, 2, 3] = math.nan
    a[1, 1] = 2.0
    for size in ((2, 3), (4, 5), (5, 7), (6, 8)):
        found = torch.compile(lambda t, size=size: F.adaptive_max_pool2d(t, size, return_indices=True), backend="lamina")(a)
        for got, want in zip(found, F.adaptive_max_pool2d(a, size, return_indices=True), strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
def test_counted_numbers_of_narrow_dtypes(dtype: torch.dtype) -> None:
    """torch-mlir crashed the process for arange in bytes, and from floats in integers."""

    def fn(a: Tensor) -> list[Tensor]:
        return [torch.arange(*by, dtype=dtype) * (a > 0) for by in ((5,), (1, 9, 2), (9, 1, -2), (0.0, 5.0, 1.0), (3, 9, 1.5))]

    for got, want in zip(torch.compile(fn, backend="lamina")(torch.ones(1)), fn(torch.ones(1)), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def ordered(t: Tensor) -> Any:
    return t.sort(stable=True)


def test_the_greatest_among_infinities_and_no_numbers() -> None:
    a = x(4, 17)
    a[0, 5:] = -math.inf
    a[0, :2] = math.inf
    a[1, 3] = math.nan
    a[2, 3:] = -math.inf
    a[3, ::2] = -math.nan
    for largest in (True, False):
        for t in (a, a.double(), a.bfloat16()):
            values, places = torch.compile(lambda t, largest=largest: torch.topk(t, 4, largest=largest), backend="lamina")(t)
            torch.testing.assert_close(values, torch.topk(t, 4, largest=largest).values, rtol=0, atol=0, equal_nan=True)
            torch.testing.assert_close(t.gather(1, places), values, rtol=0, atol=0, equal_nan=True)
            assert all(len(set(row)) == 4 for row in places.tolist())
            for got, want in zip(torch.compile(ordered, backend="lamina")(t), ordered(t), strict=True):
                torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("fn", [torch.median, torch.nanmedian])
def test_medians_of_rows_with_a_nan(fn: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    rows = torch.stack([torch.randperm(99) for _ in range(4)]).float()
    rows[0, 7] = rows[1, 3:50] = rows[2] = torch.nan
    compiled = torch.compile(lambda a: fn(a, 1), backend="lamina")
    for got, want in zip(compiled(rows), fn(rows, 1), strict=True):
        torch.testing.assert_close(got[[0, 1, 3]], want[[0, 1, 3]], equal_nan=True)
    assert compiled(rows)[0][2].isnan()
    torch.testing.assert_close(torch.compile(lambda a: fn(a), backend="lamina")(rows[:1]), fn(rows[:1]), equal_nan=True)
