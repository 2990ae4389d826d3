"""Tests normal, exponential and other random numbers, and random integers, in kernels: eager's statistics, and seeds that
repeat."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

STRICT = {"cache": False, "strict": True}
N = 1 << 16


def drawn(fn: Callable[..., Tensor], *inputs: Tensor, dynamic: bool = False) -> Tensor:
    torch._dynamo.reset()
    run = torch.compile(fn, backend="lamina", options=STRICT, fullgraph=True, dynamic=dynamic)
    with torch.no_grad():
        torch.manual_seed(5)
        first, second = run(*inputs), run(*inputs)
        torch.manual_seed(5)
        again = run(*inputs)
    assert torch.equal(first, again) and not torch.equal(first, second)
    return first


def follows(x: Tensor, distribution: Callable[[Tensor], Tensor], step: float = 0.0) -> None:
    """Compares the numbers with a cumulative distribution (Kolmogorov and Smirnov), and neighbors with each other."""
    at = distribution(x.double().flatten().sort().values)
    steps = torch.arange(1, len(at) + 1) / len(at)
    assert (at - steps).abs().max() < 2 / math.sqrt(len(at)) + step
    rank = distribution(x.double().flatten()) - 0.5
    for far in (1, 2, 3, 4, 256):
        assert abs((rank[far:] * rank[:-far]).mean() * 12) < 5 / math.sqrt(len(rank))


def normal(mean: float = 0.0, std: float = 1.0) -> Callable[[Tensor], Tensor]:
    return torch.distributions.Normal(mean, std).cdf


X = torch.zeros(256, 256)
NORMAL: dict[str, tuple[Callable[..., Tensor], float, float]] = {
    "randn": (lambda x: torch.randn(x.shape, dtype=x.dtype), 0, 1),
    "randn_like": (torch.randn_like, 0, 1),
    "normal_": (lambda x: torch.empty_like(x).normal_(0.5, 3), 0.5, 3),
    "means": (lambda x: torch.normal(x + 2, 0.5), 2, 0.5),
    "deviations": (lambda x: torch.normal(-1.0, x + 2), -1, 2),
    "both": (lambda x: torch.normal(x + 1, x[:1] + 2), 1, 2),
    "of a size": (lambda x: torch.normal(1.0, 2.0, x.shape, dtype=x.dtype), 1, 2),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", NORMAL)
def test_normal_numbers(name: str, dynamic: bool) -> None:
    fn, mean, std = NORMAL[name]
    x = drawn(fn, X, dynamic=dynamic)
    assert x.dtype is torch.float32 and x.shape == X.shape
    follows(x, normal(mean, std))
    away = (x.double() - mean).abs() / std
    assert 3.5 < away.max() < 6.7 and abs((away > 2).double().mean() - 0.0455) < 5 * math.sqrt(0.0455 / N)


@pytest.mark.parametrize(("dtype", "digits"), [(torch.float16, 11), (torch.bfloat16, 8)])
def test_half_types(dtype: torch.dtype, digits: int) -> None:
    x = drawn(torch.randn_like, X.to(dtype))
    assert x.dtype is dtype
    follows(x.float(), normal(), 2.0**-digits)


def test_the_tails_of_normal_numbers() -> None:
    x = drawn(torch.randn_like, torch.empty(1 << 21)).double().abs()
    for bound in (3.0, 4.0, 4.5):
        expected = 2 * float(normal()(torch.tensor(-bound, dtype=torch.float64))) * len(x)
        assert abs(int((x > bound).sum()) - expected) < 5 * math.sqrt(expected)


def test_other_distributions() -> None:
    follows(drawn(lambda x: torch.empty_like(x).exponential_(2.0), X), lambda x: 1 - (-2 * x).exp())
    follows(drawn(lambda x: torch.empty_like(x).uniform_(-1, 3), X), lambda x: (x + 1) / 4)
    follows(drawn(lambda x: torch.empty_like(x).log_normal_(0.5, 2.0), X).log(), normal(0.5, 2.0))
    gumbel = drawn(lambda x: -torch.empty_like(x).exponential_().log(), X)
    assert gumbel.isfinite().all()
    follows(gumbel, lambda x: (-(-x).exp()).exp())
    chosen = drawn(lambda x: F.gumbel_softmax(x, hard=True), torch.tensor([0.0, 1.0, 2.0]).expand(N, 3))
    want = torch.tensor([0.0, 1.0, 2.0]).softmax(0)
    assert ((chosen.mean(0) - want).abs() < 5 / math.sqrt(N)).all()


def test_integers() -> None:
    for fn in (
        lambda x: torch.randint(-3, 7, x.shape),
        lambda x: torch.randint(10, x.shape) - 3,
        lambda x: torch.randint_like(x, -3, 7).long(),
    ):
        x = drawn(fn, X)
        assert x.dtype is torch.int64 and x.unique().tolist() == list(range(-3, 7))
        share = torch.bincount(x.flatten() + 3).double() / N
        assert ((share - 0.1).abs() < 5 * math.sqrt(0.1 / N)).all()


def test_strides_and_gradients() -> None:
    """Backward draws the same numbers again, in the memory order of the tensor that they are like."""
    torch._dynamo.reset()
    run = torch.compile(lambda x, s: x + torch.randn_like(x) * s.exp(), backend="lamina", options=STRICT)
    x, s = torch.zeros(4, 8, 16, 16).to(memory_format=torch.channels_last), torch.randn(8, 1, 1, requires_grad=True)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = run(x, s)
    assert y.stride() == x.stride() and all(t.numel() < x.numel() for t in saved)
    y.square().sum().backward()
    torch.testing.assert_close(s.grad, 2 * y.detach().square().sum((0, 2, 3))[:, None, None], rtol=1e-4, atol=1e-4)


def test_negative_deviations_raise_as_in_eager() -> None:
    run = torch.compile(lambda m, s: torch.normal(m, s), backend="lamina", options=STRICT)
    with pytest.raises(RuntimeError, match="std >= 0.0"):
        run(torch.zeros(3), torch.tensor([1.0, -1.0, 2.0]))
