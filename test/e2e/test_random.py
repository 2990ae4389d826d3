"""Tests random numbers through both entry points: eager's statistics, seeds that repeat, and gradients that use the same dropped
elements as forward."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import BACKEND, ENTRY_POINTS, NO_CACHE, Model
from pairs import pairwise
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import lamina

STRICT = {**NO_CACHE, "strict": True}
SIGMAS = 5.0
N = 1 << 16

EntryPoint = Callable[[Model, tuple[Any, ...]], Model]


def by_export(model: Model, args: tuple[Any, ...]) -> Model:
    return lamina.compile(model, args, options=STRICT)


def by_torch(model: Model, args: tuple[Any, ...], dynamic: bool = False) -> Model:
    torch._dynamo.reset()
    compiled: Model = torch.compile(model, backend=BACKEND, options=STRICT, dynamic=dynamic, fullgraph=True)
    return compiled


def by_torch_dynamic(model: Model, args: tuple[Any, ...]) -> Model:
    return by_torch(model, args, dynamic=True)


@pytest.fixture(params=[by_export, by_torch, by_torch_dynamic], ids=list(ENTRY_POINTS))
def entry_point(request: pytest.FixtureRequest) -> EntryPoint:
    chosen: EntryPoint = request.param
    return chosen


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def is_rate(mask: Tensor, p: float) -> None:
    """Returns whether so many are true as chance allows, and neighbors, in rows and columns, know nothing of each other."""
    n = mask.numel()
    assert abs(mask.double().mean().item() - p) <= SIGMAS * math.sqrt(p * (1 - p) / n)
    centered = (mask.double() - p) / math.sqrt(p * (1 - p))
    for pair in (centered[:, 1:] * centered[:, :-1], centered[1:] * centered[:-1], centered[:, 4:] * centered[:, :-4]):
        assert abs(pair.mean().item()) <= SIGMAS / math.sqrt(pair.numel())


FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize(("dtype", "entry_point", "p"), pairwise(FLOATS, [by_export, by_torch, by_torch_dynamic], [0.1, 0.5, 0.9]))
def test_dropout(dtype: torch.dtype, entry_point: EntryPoint, p: float) -> None:
    x = torch.rand(251, 261).to(dtype) + 0.5
    with torch.no_grad():
        run = entry_point(lambda x: F.dropout(x, p), (x,))
        first, second = run(x), run(x)
    for y in (first, second):
        kept = y != 0
        is_rate(kept, 1 - p)
        torch.testing.assert_close(y[kept], (x.double() / (1 - p)).to(dtype)[kept])
    is_rate((first != 0) == (second != 0), p * p + (1 - p) * (1 - p))


def test_gradients_agree_with_what_was_dropped(entry_point: EntryPoint) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.3), nn.GELU(), nn.Dropout(0.2))
    x = torch.randn(128, 64, requires_grad=True)
    run = entry_point(model, (x,))
    for _ in range(2):
        y = run(x)
        (mine,) = torch.autograd.grad(y.sum(), x)
        first = model[0](x)
        pre = first.detach().requires_grad_()
        gelu = F.gelu(pre / 0.7) / 0.8
        kept = y.detach() != 0  # both dropouts kept it, or gelu is 0 of what was dropped
        torch.testing.assert_close(y[kept], gelu[kept], rtol=1e-4, atol=1e-5)
        (slope,) = torch.autograd.grad(gelu[kept].sum(), pre)
        torch.testing.assert_close(mine, slope @ model[0].weight.detach(), rtol=1e-3, atol=1e-4)
        is_rate(kept, 0.7 * 0.8)


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (1.0, True), (0.4, False)])
def test_nothing_or_all_is_dropped(entry_point: EntryPoint, p: float, training: bool) -> None:
    x = torch.tensor([[1.0, -2.0, float("nan"), float("inf"), 0.0]], requires_grad=True)
    run = entry_point(lambda x: F.dropout(x, p, training) * 2, (x,))
    got, want = run(x), F.dropout(x, p, training) * 2
    torch.testing.assert_close(got, want, equal_nan=True)
    grads = [torch.autograd.grad(y[0, :2].sum(), x)[0] for y in (got, want)]
    torch.testing.assert_close(*grads)


def test_what_is_dropped_is_multiplied_by_zero(entry_point: EntryPoint) -> None:
    """As in eager, NaN and infinities are not hidden by dropout."""
    x = torch.full((8, 64), float("inf"))
    with torch.no_grad():
        y = entry_point(lambda x: F.dropout(x, 0.5), (x,))(x)
    assert set(map(str, y.flatten().tolist())) == {"inf", "nan"}


def test_a_seed_is_that_of_the_call(entry_point: EntryPoint) -> None:
    """Two dropouts in a call differ, and so do two calls; manual_seed repeats them, whatever ran before."""
    x = torch.ones(64, 64)

    def fn(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return F.dropout(x, 0.5), F.dropout(x, 0.5), torch.rand_like(x)

    with torch.no_grad():
        run = entry_point(fn, (x,))
        a, b, u = run(x)
        torch.manual_seed(7)
        first = run(x)
        run(x)
        torch.manual_seed(7)
        again = run(x)
    is_rate((a != 0) == (b != 0), 0.5)
    is_rate((u < 0.5) == (b != 0), 0.5)
    assert not torch.equal(a, first[0]) and all(map(torch.equal, first, again))


@pytest.mark.parametrize(("dtype", "digits"), [(torch.float32, 24), (torch.bfloat16, 8), (torch.float16, 11)])
def test_uniform_numbers(entry_point: EntryPoint, dtype: torch.dtype, digits: int) -> None:
    x = torch.empty(256, 256, dtype=dtype)
    with torch.no_grad():
        u, v = entry_point(lambda x: (torch.rand_like(x), torch.rand(256, 256, dtype=dtype)), (x,))(x)
    for y in (u, v):
        assert y.dtype == dtype and y.min() >= 0 and y.max() < 1
        scaled = y.double() * 2**digits
        assert torch.equal(scaled, scaled.round())
        steps = torch.arange(1, N + 1) / N
        assert (y.double().flatten().sort().values - steps).abs().max() < 2 / math.sqrt(N) + 2.0**-digits  # Kolmogorov and Smirnov
        is_rate(y < 0.25, 0.25)
    is_rate((u < 0.5) == (v < 0.5), 0.5)


def test_bernoulli(entry_point: EntryPoint) -> None:
    p = torch.linspace(0, 1, 65)[:, None].expand(65, 4096).contiguous()
    with torch.no_grad():
        y, z = entry_point(lambda p: (torch.bernoulli(p), torch.empty_like(p).bernoulli_(0.3)), (p,))(p)
    assert y[0].max() == 0 and y[-1].min() == 1 and set(z.unique().tolist()) == {0.0, 1.0}
    error = (y.double().mean(1) - p[:, 0]).abs()
    assert (error <= SIGMAS * (p[:, 0] * (1 - p[:, 0]) / 4096).sqrt()).all()
    is_rate(z == 1, 0.3)


@pytest.mark.parametrize("fn", [F.alpha_dropout, F.feature_alpha_dropout, F.dropout2d], ids=lambda f: f.__name__)
def test_kin_of_dropout(entry_point: EntryPoint, fn: Callable[..., Tensor]) -> None:
    x = torch.randn(32, 64, 8, 8)
    with torch.no_grad():
        run, eager = entry_point(lambda x: fn(x, 0.3, True), (x,)), fn(x, 0.3, True)
        y = run(x)
    assert abs(y.mean() - eager.mean()) < 0.1 and abs(y.std() / eager.std() - 1) < 0.05
    if fn is F.dropout2d:
        assert all(len(set((c != 0).tolist())) == 1 for c in y.flatten(2).flatten(0, 1)[:64])


def test_channels_last_keeps_its_strides(entry_point: EntryPoint) -> None:
    x = torch.ones(2, 8, 16, 16).to(memory_format=torch.channels_last)
    with torch.no_grad():
        y = entry_point(lambda x: F.dropout(x, 0.5), (x,))(x)
    assert y.stride() == x.stride()
    is_rate(y.permute(0, 2, 3, 1).reshape(-1, 8) != 0, 0.5)


def test_gradients_of_a_layer_that_drops_everywhere(entry_point: EntryPoint) -> None:
    """Compares with finite differences that draw the same numbers."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True).double()
    x = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    run = entry_point(layer, (x,))

    def seeded(x: Tensor) -> Tensor:
        torch.manual_seed(11)
        y: Tensor = run(x)
        return y

    assert torch.autograd.gradcheck(seeded, (x,), atol=1e-5)


@pytest.mark.parametrize("name", ["dropout", "randn_like", "rrelu"])
def test_checkpoints_draw_once(name: str) -> None:
    """Recomputation for gradients uses the random numbers of the first computation."""
    noisy: Callable[[Tensor], Tensor] = {
        "dropout": lambda x: F.dropout(x, 0.5), "randn_like": lambda x: x * torch.randn_like(x), "rrelu": lambda x: F.rrelu(-x, 0.2, 0.9, True),
    }[name]  # fmt: skip

    def fn(x: Tensor) -> Tensor:
        y: Tensor = checkpoint(lambda x: noisy(torch.sin(x)), x * 2, use_reentrant=False)
        return y

    x = torch.rand(64, 64, requires_grad=True)
    torch._dynamo.reset()
    y = torch.compile(fn, backend=BACKEND, options=NO_CACHE, fullgraph=True)(x)
    (found,) = torch.autograd.grad(y.sum(), x)
    factors = (y / torch.sin(2 * x)).detach()
    torch.testing.assert_close(found, factors * 2 * torch.cos(2 * x).detach(), rtol=1e-3, atol=1e-3)


def test_gradients_of_rrelu_are_its_slopes() -> None:
    x = torch.randn(7, 33, requires_grad=True)
    torch._dynamo.reset()
    y = torch.compile(lambda x: F.rrelu(x, 0.2, 0.9, training=True), backend=BACKEND, options=NO_CACHE | {"strict": True})(x)
    (found,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(found, (y / x).detach())
