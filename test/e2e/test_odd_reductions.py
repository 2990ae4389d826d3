"""Tests reductions whose length has no suitable divisor, which are split into equal parts and a remainder, and instance norms."""

from collections.abc import Callable

import pytest
import torch
from oracle import check
from torch import Tensor
from torch.nn import functional as F

import lamina

REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: x.sin().sum(0),
    "all": lambda x: (x * x).mean(),
    "largest": lambda x: x.amax(0),
    "norm": lambda x: x.norm(),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(100003, 3), (10007, 41), (1000003, 1), (5, 100003)])
def test_lengths_without_divisors(name: str, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    function = REDUCTIONS[name]
    found, exact = lamina.compile(function, (x,))(x), function(x.double())
    torch.testing.assert_close(found.double(), exact, rtol=2e-5, atol=2e-5 * shape[0] ** 0.5)


SUMS_OF_ROWS: dict[str, Callable[[Tensor], Tensor]] = {
    "entropy": lambda x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1).mean(),
    "divergence": lambda x: F.kl_div(x.log_softmax(-1), x.roll(1, -1).softmax(-1), reduction="batchmean"),
    "of what is normalized": lambda x: (F.layer_norm(x, x.shape[-1:]) - x).pow(2).mean(),
    "largest": lambda x: (x - x.mean(-1, keepdim=True)).abs().amax(),
}


@pytest.mark.parametrize("name", SUMS_OF_ROWS)
@pytest.mark.parametrize("shape", [(4099, 127), (3, 1000, 100), (20011, 17), (66, 4097)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_sums_of_all_of_normalized_rows(name: str, shape: tuple[int, ...], dynamic: bool) -> None:
    torch._dynamo.reset()
    x, function = torch.randn(shape), SUMS_OF_ROWS[name]
    torch.testing.assert_close(
        torch.compile(function, backend="lamina", dynamic=dynamic)(x).double(), function(x.double()), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("shape", [(4, 3, 97), (2, 8, 31, 17), (1, 4, 5, 7, 3), (3, 5, 1, 2), (8, 97)])
@pytest.mark.parametrize(("affine", "dtype"), [(False, torch.float32), (True, torch.bfloat16)])
def test_instance_norms_are_as_eagers(shape: tuple[int, ...], affine: bool, dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype) + 3
    if x.dim() == 4:
        x = x.to(memory_format=torch.channels_last)
    channels = shape[-2] if x.dim() == 2 else shape[1]
    weights = [torch.randn(channels, dtype=dtype) for _ in range(2)] if affine else [None, None]

    def function(x: Tensor) -> Tensor:
        return F.relu(F.instance_norm(x if x.dim() > 2 else x[None], weight=weights[0], bias=weights[1], eps=1e-3))

    eager = function(x)
    torch._dynamo.reset()  # whose limit of recompilations others have used
    with torch.no_grad():
        found = torch.compile(function, backend="lamina", dynamic=False)(x)
    assert found.stride() == eager.stride() and found.dtype == dtype
    exact = F.relu(
        F.instance_norm(
            (x if x.dim() > 2 else x[None]).double(),
            eps=1e-3,
            **{k: w if w is None else w.double() for k, w in zip(("weight", "bias"), weights, strict=True)},
        )
    )
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=3e-5 if dtype == torch.float32 else 6e-2)


REPEATED: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: (x[:, :, None, None].expand(*x.shape, 5, 7) * 0.5).sum((0, 2, 3)),
    "sum of all": lambda x: x[:, None].expand(x.shape[0], 9, x.shape[1]).exp().sum((0, 1)),
    "mean of integers": lambda x: (x * 4).long()[:, :, None].expand(*x.shape, 6).sum(2),
    "largest of merged": lambda x: x[:, :, None].expand(*x.shape, 3).reshape(x.shape[0], -1).amax(1),
    "transposed": lambda x: x.t()[None].expand(4, *x.shape[::-1]).sin().sum(0),
    "nothing": lambda x: x[:, :, None].expand(*x.shape, 0).sum(2),
    "positions": lambda x: (torch.arange(7) * x.new_ones(3, 7)).sum(1)[None] + x[:, :1],
    "where a position is": lambda x: torch.where(torch.arange(6) == 4, x[..., None].expand(*x.shape, 6), 0.0).sum(2),
}


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("shape", [(3, 127), (0, 5), (1000, 1)])
def test_reductions_of_what_repeats(name: str, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    x = x if name != "largest of merged" or shape[0] else torch.randn(2, 5)
    found, exact = lamina.compile(REPEATED[name], (x,))(x), REPEATED[name](x.double())
    torch.testing.assert_close(found.to(exact.dtype), exact, rtol=2e-5, atol=2e-5 * shape[0] ** 0.5)


COMPARED: dict[str, Callable[[Tensor], Tensor]] = {
    "largest": lambda x: F.gelu(x * 1.3).amax(0),
    "smallest": lambda x: torch.tanh(x * 1.3).amin(1),
    "of a norm": lambda x: F.rms_norm(x.cumsum(-1), (67,)).amax(1),
    "where it is largest": lambda x: ((y := torch.sigmoid(x * 0.7)) == y.amax(1, keepdim=True)).to(x.dtype) * y,
    "among the largest": lambda x: torch.where((y := F.silu(x)) >= y.topk(5, 1)[0][:, -1:], y, 0.0),
}


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_compared_as_they_are_stored(name: str, dtype: torch.dtype) -> None:
    """If only one side was rounded, no element equaled the maximum, and the gradient shared among the equal ones was 0 / 0."""
    torch._dynamo.reset()
    function, x = COMPARED[name], torch.randn(35, 67, dtype=dtype, requires_grad=True)
    found, eager = torch.compile(function, backend="lamina", options={"cache": False})(x), function(x)
    assert ((found != 0) == (eager != 0)).all()
    mine, theirs = (torch.autograd.grad(y.sum(), x)[0] for y in (found, eager))
    assert ((mine != 0) == (theirs != 0)).float().mean() > 0.99 and mine.isfinite().all()
    torch.testing.assert_close(found, eager, rtol=1e-2, atol=1e-2)


def test_casts_are_compared_as_they_are_cast() -> None:
    x, y = torch.tensor([1.0001, 2.0, 3.0003]), torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.bfloat16() == y, x.bfloat16() > y

    for found, eager in zip(lamina.compile(function, (x, y))(x, y), function(x, y), strict=True):
        assert torch.equal(found, eager)
    options = lamina.Options(round_intermediates=True)
    rounded = lamina.compile(lambda x: x.bfloat16().float() * 1.5, (x,), options=options)(x)
    assert torch.equal(rounded, x.bfloat16().float() * 1.5)


@pytest.mark.parametrize("columns", [1, 2, 3, 16])
def test_values_of_rows_that_are_written_one_by_one(columns: int) -> None:
    """Columns of the kept values are not adjacent in the kernel's local memory."""

    def advantages(x: Tensor) -> Tensor:
        rows = torch.zeros_like(x)
        for t in range(11):
            rows[t] = x[t] + x[t + 1]
        return (rows - rows.mean()) / rows.std()

    x = torch.randn(12, columns)
    found, exact = lamina.compile(advantages, (x,))(x), advantages(x.double())
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shapes", [((5, 7, 3), (5, 3, 1)), ((5, 7, 1), (5, 1, 4)), ((5, 1, 9), (5, 9, 1)), ((3, 4, 0), (3, 0, 1))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_matrices_by_a_vector_each(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype) -> None:
    a, b = (torch.randn(shape, dtype=dtype) for shape in shapes)
    check(torch.bmm, a, b)
    assert not lamina.explain(torch.bmm, (a, b), show=False).externals


@pytest.mark.parametrize("function", [torch.any, torch.all])
@pytest.mark.parametrize("dim", [(), (0, 1), 1, None, (0,), -1])
@pytest.mark.parametrize("shape", [(3, 5), (0, 5), (3, 0), (129, 1000)])
def test_truth(function: Callable[..., Tensor], dim: int | tuple[int, ...] | None, shape: tuple[int, ...]) -> None:
    """No dimension is not all of them; of nothing, all are true and none is."""
    torch._dynamo.reset()
    given = {} if dim is None else {"dim": dim}
    compiled = torch.compile(lambda x: function(x, **given), backend="lamina")
    for x in (torch.randn(shape) > 1, torch.randint(2, shape, dtype=torch.uint8) * 7, torch.randn(shape).relu()):
        found, exact = compiled(x), function(x, **given)
        assert found.dtype == exact.dtype and found.shape == exact.shape and torch.equal(found, exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_mish(dtype: torch.dtype) -> None:
    """Mish and its gradient are as precise as eager's, also where an exponential overflows."""
    edges = [0, 19.99, 20, 20.5, 60, 1e4, -60, -90, -1e4]
    x = torch.cat((torch.randn(4097) * 6, torch.tensor(edges))).to(dtype).requires_grad_()
    found = torch.compile(F.mish, backend="lamina")(x)
    (gradient,) = torch.autograd.grad(found.sum(), x)
    wide = x.detach().double().requires_grad_()
    exact = F.mish(wide)
    (slope,) = torch.autograd.grad(exact.sum(), wide)
    bound = {torch.float32: 1e-6, torch.float64: 1e-14, torch.bfloat16: 8e-3}[dtype]
    torch.testing.assert_close(found.double(), exact, rtol=bound, atol=0)
    torch.testing.assert_close(gradient.double(), slope, rtol=bound, atol=bound)
