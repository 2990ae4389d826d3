"""Tests what is computed from the sums of short rows: several rows at a time, with static and symbolic sizes, against float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Make = Callable[[int, int], tuple[Tensor, ...]]


def points(m: int, n: int) -> tuple[Tensor, ...]:
    return torch.randn(m, 24) / 2, torch.randn(n, 24) / 2


def row_and_full(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    d = (x[:, None] - y).pow(2).sum(-1)
    return d.exp().neg().expm1(), (d + 1).sqrt().log()


FUNCTIONS: dict[str, tuple[Callable[..., Tensor | tuple[Tensor, ...]], Make]] = {
    "exponentials of distances": (lambda x, y: (-(x[:, None] - y).pow(2).sum(-1)).exp(), points),
    "two results": (row_and_full, points),
    "two sums": (lambda x: (x.softmax(-1) * x).sum(-1).exp(), lambda m, n: (torch.randn(m, n, 13),)),
    "other values of the row": (
        lambda x, y, z: (x.sum(-1) * y).tanh() + z[:, None].cos(),
        lambda m, n: (torch.randn(m, n, 20), torch.randn(m, n), torch.randn(m)),
    ),
    "values at indices": (lambda x, i: x[i].norm(dim=-1).log(), lambda m, n: (torch.randn(m, 33), torch.arange(3 * n) % m)),
    "cosines": (lambda x, y: torch.cosine_similarity(x[:, None], y, -1).exp(), points),
    "halves": (lambda x: x.square().mean(-1).rsqrt().sin(), lambda m, n: (torch.randn(m * n, 40).bfloat16(),)),
    "flags": (lambda x: (x.sum(-1).exp() > 1) & (x.amax(-1).cos() < 0.5), lambda m, n: (torch.randint(-3, 4, (m, n, 24)).float(),)),
    "indices": (lambda x: x.argmax(-1) * (x.amax(-1).exp() > 0), lambda m, n: (torch.randn(m, n, 24),)),
}
SIZES = ((5, 16), (3, 129), (70, 64), (41, 17), (2, 15))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows(name: str, dynamic: bool) -> None:
    """Whole blocks of rows, parts of blocks, and too few rows."""
    function, make = FUNCTIONS[name]
    torch._dynamo.reset()
    run = torch.compile(function, backend="lamina", dynamic=dynamic)
    for m, n in SIZES:
        args = make(m, n)
        wide = [a.double() if a.is_floating_point() else a for a in args]
        results, wanted = run(*args), function(*wide)
        pairs = [(results, wanted)] if isinstance(results, Tensor) else zip(results, wanted, strict=True)
        for got, want in pairs:
            if not got.is_floating_point():
                assert torch.equal(got, want)
                continue
            unit = 2**-8 if got.dtype == torch.bfloat16 else 2**-17
            torch.testing.assert_close(got.double(), want, rtol=unit, atol=unit)


def test_sums_of_other_rows() -> None:
    """Results that need sums which are the same for all rows of a block: gradients of cosines of all pairs."""
    run = torch.compile(lambda x, y: torch.cosine_similarity(x[:, None], y, -1), backend="lamina")
    for m, n in SIZES:
        x, y = (a.requires_grad_() for a in points(m, n))
        wide = [a.detach().double().requires_grad_() for a in (x, y)]
        weight = torch.randn(m, n)
        got = torch.autograd.grad(run(x, y), (x, y), weight)
        want = torch.autograd.grad(torch.cosine_similarity(wide[0][:, None], wide[1], -1), wide, weight.double())
        for a, b in zip(got, want, strict=True):
            assert (a - b).norm() <= 1e-5 * b.norm()


def test_in_place() -> None:
    """Results over an argument that the rows read."""

    def update(x: Tensor, total: Tensor) -> Tensor:
        total.mul_(0.5).add_(x.pow(2).sum(-1).add(1).log())
        return total

    x, total = torch.randn(53, 19, 12), torch.randn(53, 19)
    want = total.double() * 0.5 + x.double().pow(2).sum(-1).add(1).log()
    assert torch.compile(update, backend="lamina")(x, total) is total
    torch.testing.assert_close(total.double(), want, rtol=1e-5, atol=1e-5)
