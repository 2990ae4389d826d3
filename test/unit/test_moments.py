"""Tests sums, means, variances and statistics of norms against float64: the error is at most 1.5 times eager's, or 2 units in the
last place, however far from zero the elements are and however long the rows."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distributed
from pairs import pairwise
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import lamina
from lamina.frontend.decompositions.ops.moments import moments

aten = torch.ops.aten
ULPS, OF_EAGER = 2.0, 1.5
SEEDS, OFFSETS = 3, (0.0, 1e2, 1e5, 1e6)
LAYOUTS: list[tuple[tuple[int, ...], list[int]]] = [
    ((64, 1), [1]), ((64, 3), [1]), ((64, 127), [1]), ((64, 1024), [1]), ((64, 1024), [0]), ((5, 4097), [1]),
    ((9001, 3), [0]), ((3, 4, 64, 256), [2, 3]), ((8, 6, 31, 33), [0, 2, 3]), ((1, 2, 512, 260), [2, 3]), ((300007,), [0]),
]  # fmt: skip
STATISTICS: dict[str, Callable[[Tensor, list[int]], Any]] = {
    "var": lambda x, d: torch.var(x, d, correction=0),
    "std": lambda x, d: torch.std(x, d, correction=2),
    "std_mean": lambda x, d: torch.std_mean(x, d, keepdim=True, correction=0),
}
SUMS: dict[str, Callable[[Tensor, list[int]], Any]] = {
    "sum": lambda x, d: x.sum(d),
    "mean": lambda x, d: x.mean(d, keepdim=True),
    "norm": lambda x, d: torch.linalg.vector_norm(x, 2, d),
    "sum and maximum": lambda x, d: (x.sum(d), x.amax(d)),
    "logsumexp": lambda x, d: torch.logsumexp(x, d),
}


def drawn(seed: int, shape: tuple[int, ...], offset: float, dtype: torch.dtype) -> Tensor:
    return (_normal(seed, shape) + offset).to(dtype)


@lru_cache(maxsize=4)
def _normal(seed: int, shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tensors(found: Any) -> list[Tensor]:
    return [found] if isinstance(found, Tensor) else list(found)


def error(found: Tensor, expected: Tensor, scale: Tensor | None = None) -> float:
    """The largest error in units in the last place of what is expected, or of a scale that is larger."""
    size = expected.abs() if scale is None else torch.maximum(expected.abs(), scale)
    info = torch.finfo(found.dtype)
    unit = torch.exp2(torch.floor(torch.log2(size.clamp_min(info.tiny)))) * info.eps
    missed = (found.double() - expected).abs() / unit
    return float(torch.where(expected.isnan() & found.isnan(), 0.0, missed).max())


def holds(name: str, seed: int, found: Any, eager: Any, expected: Any, scale: Tensor | None = None) -> None:
    for i, (a, b, c) in enumerate(zip(tensors(found), tensors(eager), tensors(expected), strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape
        ours, theirs = error(a, c, scale), error(b, c, scale)
        assert ours <= max(ULPS, OF_EAGER * theirs), f"{name}, result {i}, seed {seed}: {ours:.3g} ulp, eager {theirs:.3g}"


def cancelled(x: Tensor, dims: list[int], name: str) -> Tensor | None:
    """Returns the size of a sum of such elements without an offset: f32 has no digits of what cancels below it."""
    n = x.double().square().sum(dims, keepdim=name == "mean").sqrt()
    if name == "mean":
        return n / (x.numel() // n.numel())
    return n if "sum" in name and name != "logsumexp" else None


@pytest.mark.parametrize(("shape", "dims"), LAYOUTS, ids=str)
@pytest.mark.parametrize("name", [*STATISTICS, "sum", "norm"])
def test_f32(name: str, shape: tuple[int, ...], dims: list[int]) -> None:
    within_bounds(name, shape, dims)


@pytest.mark.parametrize(("shape", "dims"), [((64, 127), [1]), ((1000, 64), [0]), ((300007,), [0])], ids=str)
@pytest.mark.parametrize("name", ["mean", "sum and maximum", "logsumexp"])
def test_what_is_made_of_sums(name: str, shape: tuple[int, ...], dims: list[int]) -> None:
    within_bounds(name, shape, dims)


def within_bounds(name: str, shape: tuple[int, ...], dims: list[int]) -> None:
    fn = (STATISTICS | SUMS)[name]
    if name in STATISTICS and shape == (64, 1):
        pytest.skip("the variance of one element is none")
    compiled = lamina.compile(lambda x: fn(x, dims), (drawn(0, shape, 0.0, torch.float32),))
    for offset in OFFSETS:
        drawings = [drawn(seed, shape, offset, torch.float32) for seed in range(SEEDS)]
        of = [tuple(map(tensors, (compiled(x), fn(x, dims), fn(x.double(), dims)))) for x in drawings]
        scales = [cancelled(x, dims, name) if name in SUMS else None for x in drawings]
        for i in range(len(of[0][0])):
            ours = max(error(a[i], c[i], s) for (a, _, c), s in zip(of, scales, strict=True))
            theirs = max(error(b[i], c[i], s) for (_, b, c), s in zip(of, scales, strict=True))
            assert ours <= max(ULPS, OF_EAGER * theirs), f"{name} of {offset}, result {i}: {ours:.3g} ulp, eager {theirs:.3g}"


LOSSES: dict[str, Callable[..., Tensor]] = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth l1": F.smooth_l1_loss,
    "cross entropy": lambda x, y: F.cross_entropy(x.view(-1, 100), y[: x.numel() // 100].abs().long() % 100),
    "mean of transposed": lambda x, y: x.view(-1, 1000).t().mean(),
    "means of channels last": lambda x, y: x.view(-1, 10, 10, 10).permute(0, 3, 1, 2).mean((0, 2, 3)),
    "sums of transposed": lambda x, y: (x.view(-1, 100).t() + 1).sum(1),
    "variances of transposed": lambda x, y: x.view(-1, 100).t().var(1),
}


@pytest.mark.parametrize("n", [1000, 100_000, 10_000_000])
@pytest.mark.parametrize("name", LOSSES)
def test_means_of_many(name: str, n: int) -> None:
    """Means of losses, and of elements in other memory orders."""
    fn = LOSSES[name]
    given = drawn(1, (n,), 0.0, torch.float32), drawn(2, (n,), 0.0, torch.float32)
    compiled = lamina.compile(fn, given)
    for offset in OFFSETS[:: 3 if n > 100_000 else 1]:
        x, y = (given[0].double() + offset).float(), given[1]
        size = x.double().square().mean().sqrt() / n**0.5 * (100**0.5 if "s of" in name else 1)  # below this, elements cancel
        scale = size * n / 100 if name.startswith("sums") else size
        holds(f"{name} of {offset}", 1, compiled(x, y), fn(x, y), fn(x.double(), y.double()), scale)


@pytest.mark.parametrize(("shape", "dim"), [((1_000_003,), 0), ((4, 25_000), 1), ((25_000, 4), 0)], ids=str)
def test_cumsum(shape: tuple[int, ...], dim: int) -> None:
    compiled = lamina.compile(lambda x: x.cumsum(dim), (drawn(0, shape, 0.0, torch.float32),))
    for offset in OFFSETS:
        x = drawn(1, shape, offset, torch.float32)
        scale = x.double().square().cumsum(dim).sqrt()
        holds(f"of {offset}", 1, compiled(x), x.cumsum(dim), x.double().cumsum(dim), scale)


@pytest.mark.parametrize(
    ("name", "rows", "dtype"),
    pairwise(
        ["var", "std_mean", "sum", "mean"],
        [((64, 127), [1]), ((1000, 64), [0]), ((3, 140001), [1])],
        [torch.bfloat16, torch.float16],
    ),
)
def test_half_types(name: str, rows: tuple[tuple[int, ...], list[int]], dtype: torch.dtype) -> None:
    shape, dims = rows
    fn = (STATISTICS | SUMS)[name]
    compiled = lamina.compile(lambda x: fn(x, dims), (drawn(0, shape, 0.0, dtype),))
    for offset in (0.0, 1e2, 1e4) if dtype is torch.bfloat16 else (0.0, 1.0):  # sums of f16 would overflow
        x = drawn(1, shape, offset, dtype)
        holds(f"{name} of {offset}", 1, compiled(x), fn(x, dims), fn(x.double(), dims), cancelled(x, dims, "sum"))


@pytest.mark.parametrize(("shape", "dims"), [((64, 127), [1]), ((300, 64), [0]), ((140001,), [0])], ids=str)
def test_f64(shape: tuple[int, ...], dims: list[int]) -> None:
    """The reference is exact for these elements: they are f32 values plus an offset."""
    compiled = lamina.compile(lambda x: torch.var_mean(x, dims), (drawn(0, shape, 0.0, torch.float64),))
    near = drawn(1, shape, 0.0, torch.float32).double()
    for offset in (0.0, 2.0**20):
        variance, mean = compiled(near + offset)
        expected, about = torch.var_mean(near, dims)
        assert torch.allclose(variance, expected, rtol=1e-13 if offset else 1e-15)
        assert torch.allclose(mean, about + offset, rtol=1e-15, atol=1e-16)


def test_constant_rows_have_no_variance() -> None:
    for shape in ((64, 3), (64, 1000), (200001,)):
        x = torch.full(shape, 100000.0078125)
        assert not lamina.compile(lambda x: torch.std(x, -1), (x,))(x).any()


def test_infinities_and_nan() -> None:
    x = torch.ones(3, 300)
    x[0, 5], x[1, 7] = float("inf"), float("nan")
    assert lamina.compile(lambda x: torch.std(x, 1), (x,))(x).isnan().tolist() == [True, True, False]


NORMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "layer norm": (lambda x: aten.native_layer_norm(x, [x.shape[1]], None, None, 1e-5), (64, 1000)),
    "long layer norm": (lambda x: aten.native_layer_norm(x, [x.shape[1]], None, None, 1e-5), (3, 140000)),
    "group norm": (lambda x: aten.native_group_norm(x, None, None, 4, 8, 31 * 33, 4, 1e-5), (4, 8, 31, 33)),
    "long group norm": (lambda x: aten.native_group_norm(x, None, None, 1, 8, 256 * 140, 2, 1e-5), (1, 8, 256, 140)),
    "batch norm": (lambda x: aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5), (8, 16, 7, 7)),
    "long batch norm": (lambda x: aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5), (5, 3, 181, 163)),
    "instance norm": (lambda x: F.instance_norm(x, eps=1e-5), (4, 8, 31, 33)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str) -> None:
    """Their results on the scale of the largest: what lies at the mean cancels. Means on that of their own rounding."""
    fn, shape = NORMS[name]
    compiled = lamina.compile(fn, (drawn(0, shape, 0.0, torch.float32),))
    for offset in OFFSETS:
        x = drawn(1, shape, offset, torch.float32)
        with torch.no_grad():
            found, eager, expected = (tensors(f) for f in (compiled(x), fn(x), fn(x.double())))
        for i, (a, b, c) in enumerate(zip(found, eager, expected, strict=True)):
            rows = c.numel() if i else 1
            holds(f"{name} of {offset}", 1, a, b, c, c.abs().max() if i == 0 else c.abs().mean() * torch.ones(rows).view(c.shape))


def test_running_statistics() -> None:
    model = torch.nn.BatchNorm2d(16)
    eager, exact = torch.nn.BatchNorm2d(16), torch.nn.BatchNorm2d(16).double()
    compiled = torch.compile(model, backend="lamina")
    for seed, offset in enumerate(OFFSETS):
        x = drawn(seed, (8, 16, 9, 7), offset, torch.float32)
        for m, given in ((compiled, x), (eager, x), (exact, x.double())):
            torch.nn.init.zeros_(model.running_mean if m is compiled else m.running_mean)
            torch.nn.init.ones_(model.running_var if m is compiled else m.running_var)
            m(given)
        for a, b, c in zip(model.buffers(), eager.buffers(), exact.buffers(), strict=True):
            if a.is_floating_point():
                holds(f"of {offset}", seed, a, b, c)


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [((8, 1000), [1]), ((8, 127), [1]), ((1000, 40), [0]), ((140001,), [0]), ((4099, 67), [0]), ((31, 8, 33, 35), [0, 2, 3])],
    ids=str,
)
def test_on_a_gpu(shape: tuple[int, ...], dims: list[int], offset: float) -> None:
    """With GPU code, where all sums are f32."""
    x = drawn(2, shape, offset, torch.float32)
    program = Simulated(*distributed(lambda x: torch.var_mean(x, dims), (x,)))
    variance, mean = program(x)
    expected, about = torch.var_mean(x.double(), dims)
    assert error(variance, expected) <= 2 * ULPS
    assert error(mean, about, expected.sqrt()) <= ULPS


@pytest.mark.parametrize("shape", [(64, 4, 40, 40), (1, 4, 300, 300), (5, 4, 71001), (300007, 1)], ids=str)
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_a_batch_is_read_once_on_a_gpu(shape: tuple[int, ...], offset: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments are taken about the mean of a sample, also if some images consist of padding."""
    monkeypatch.setattr("lamina.frontend.decompositions.ops.moments.on_cpu", lambda x: False)
    x = drawn(5, shape, offset, torch.float32)
    dims = [d for d in range(x.dim()) if d != 1]
    for padded in (0, shape[0] // 3):
        x[:padded] = 0
        found, n = moments(x, dims), x.numel() // shape[1]
        mean, variance = x.double().mean(dims, True), x.double().var(dims, correction=0, keepdim=True)
        torch.testing.assert_close(found.squares.double() / n, variance, rtol=2e-6, atol=0)
        assert ((found.mean - mean).abs() <= 1e-6 * variance.sqrt() + 2e-7 * mean.abs()).all()
    assert not moments(torch.full(shape, 100000.0078125), dims).squares.any()


@pytest.mark.parametrize("shape", [(3, 12, 120, 121), (2, 1, 140001), (1, 1000, 12, 12)], ids=str)
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_long_rows_are_read_once_on_a_gpu(shape: tuple[int, ...], offset: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all dimensions of an image, in any layout: splitting the sums is left to lamina-split-reductions."""
    monkeypatch.setattr("lamina.frontend.decompositions.ops.moments.on_cpu", lambda x: False)
    x = drawn(6, shape, offset, torch.float32)
    dims = list(range(1, x.dim()))
    found, n = moments(x, dims), x.numel() // shape[0]
    mean, variance = x.double().mean(dims, True), x.double().var(dims, correction=0, keepdim=True)
    torch.testing.assert_close(found.squares.double() / n, variance, rtol=2e-6, atol=0)
    assert ((found.mean - mean).abs() <= 1e-6 * variance.sqrt() + 2e-7 * mean.abs()).all()


def test_a_length_that_is_not_known_is_not_searched_for_divisors() -> None:
    """Each divisor tried would add a guard: a variance of long rows took a minute to trace."""
    traced = make_fx(lambda x: moments(x, [1]).squares, tracing_mode="symbolic")(torch.randn(2, 140003))
    assert len(traced.shape_env.guards) < 20


def test_f64_that_a_model_asks_for_stays() -> None:
    x = drawn(3, (64, 1024), 1e6, torch.float32)
    for fn in (
        lambda x: x.double().var(1).float(),
        lambda x: x.sum(1, dtype=torch.float64).float(),
        lambda x: (torch.arange(1024, dtype=torch.float64) * 0.1).float() + x,
    ):
        assert torch.equal(lamina.compile(fn, (x,))(x), fn(x))
