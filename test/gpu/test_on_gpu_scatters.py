"""Tests values that kernels add to elements at indices on a GPU, or combine with them, by atomic operations."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)


def check(fn: Callable[..., Any], *given: Tensor, tolerance: float = 1e-4, **more: Any) -> None:
    """The compiled function against eager's in float64; integers are exact."""
    torch._dynamo.reset()
    run = torch.compile(fn, backend="lamina", options={"cache": False, "strict": True}, **more)
    for _ in range(3):
        found = run(*given)
        want = fn(*(t.double() if t.is_floating_point() else t for t in given)).to(found.dtype)
        torch.testing.assert_close(found, want, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("own", [True, False], ids=["old ones count", "old ones do not"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin", "prod"])
@pytest.mark.parametrize("size", [(1, 1), (127, 5), (4097, 17), (100000, 64)], ids=str)
def test_segments(size: tuple[int, int], reduce: str, own: bool) -> None:
    at, x = torch.randint(0, 4000, size[:1], device="cuda"), torch.rand(4000, size[1], device="cuda")
    v = torch.rand(size, device="cuda") * 0.2 + 0.9
    check(lambda x, at, v: x.scatter_reduce(0, at[:, None].expand_as(v), v, reduce, include_self=own), x, at, v, tolerance=1e-3)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin", "prod"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.float64, *HALF], ids=str)
def test_types(dtype: torch.dtype, reduce: str) -> None:
    x, at = torch.randint(-3, 3, (40, 7), device="cuda").to(dtype), torch.randint(0, 40, (300, 7), device="cuda")
    v = torch.randint(-4, 5, (300, 7), device="cuda").to(dtype)
    tolerance = 1e-2 if dtype in HALF else 1e-5
    check(lambda x, at, v: x.scatter_reduce(0, at, v, reduce), x, at, v, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF], ids=str)
@pytest.mark.parametrize("columns", [2, 6, 8, 100, 127, 1000, 4097])
def test_rows(columns: int, dtype: torch.dtype) -> None:
    """Rows of many widths, of which a thread adds several elements at a time, also into a part of a larger tensor."""
    x, at = torch.randn(300, columns, device="cuda").to(dtype), torch.randint(0, 300, (1000,), device="cuda")
    v = torch.randn(1000, columns, device="cuda").to(dtype)
    tolerance = 2e-2 if dtype in HALF else 1e-4
    check(lambda x, at, v: x.index_add(0, at, v * 0.5), x, at, v, tolerance=tolerance)
    check(lambda x, at, v: x.index_put((at // 2 + 7,), v, accumulate=True), x, at, v, tolerance=tolerance)


def test_nan_and_infinity_in_extrema() -> None:
    x, at = torch.full((50, 3), -torch.inf, device="cuda"), torch.randint(0, 50, (900, 3), device="cuda")
    v = torch.where(torch.rand(900, 3, device="cuda") > 0.99, torch.nan, torch.randn(900, 3, device="cuda"))
    for reduce in ("amax", "amin"):
        check(lambda x, at, v, how=reduce: x.scatter_reduce(0, at, v, how), x, at, v)


def test_bags_of_maxima() -> None:
    table = torch.randn(9000, 65, device="cuda").requires_grad_()
    rows, starts = torch.randint(0, 9000, (4097,), device="cuda"), torch.arange(0, 4097, 9, device="cuda")
    bags = lambda i, w, o: F.embedding_bag(i, w, o, mode="max")  # noqa: E731
    check(bags, rows, table, starts)
    torch._dynamo.reset()
    results = [run(rows, table, starts) for run in (torch.compile(bags, backend="lamina", options={"strict": True}), bags)]
    mine, eager = (torch.autograd.grad(r, table, torch.ones_like(r))[0] for r in results)
    torch.testing.assert_close(mine, eager)


def test_many_values_for_few_elements() -> None:
    at = torch.randint(0, 7, (1 << 20,), device="cuda")
    check(lambda at: torch.zeros(7, device="cuda", dtype=torch.int64).scatter_add(0, at, torch.ones_like(at)), at)


@pytest.mark.parametrize("dynamic", [False, True])
def test_messages_and_their_gradients(dynamic: bool) -> None:
    def fn(x: Tensor, source: Tensor, to: Tensor, w: Tensor) -> Tensor:
        return F.relu(torch.zeros_like(x).index_add(0, to, x[source] * w[:, None])).square().sum()

    torch._dynamo.reset()
    run = torch.compile(fn, backend="lamina", dynamic=dynamic, options={"cache": False})
    for nodes, edges in ((300, 5000), (1000, 4097)):
        source, to = torch.randint(0, nodes, (2, edges), device="cuda")
        x, w = torch.randn(nodes, 48, device="cuda", requires_grad=True), torch.randn(edges, device="cuda", requires_grad=True)
        exact = [t.detach().double().requires_grad_() for t in (x, w)]
        run(x, source, to, w).backward()
        fn(exact[0], source, to, exact[1]).backward()
        for mine, want in zip((x, w), exact, strict=True):
            assert mine.grad is not None and want.grad is not None
            torch.testing.assert_close(mine.grad.double(), want.grad, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_embeddings_gradient(dtype: torch.dtype) -> None:
    at, g = torch.randint(0, 3000, (32, 128), device="cuda"), torch.randn(32, 128, 64, device="cuda", dtype=dtype)
    tolerance = 1e-2 if dtype in HALF else 1e-4
    check(lambda g, at: torch.ops.aten.embedding_dense_backward(g, at, 3000, 0, False), g, at, tolerance=tolerance)


def test_deterministic_calls_are_the_same() -> None:
    def fn(x: Tensor, at: Tensor, v: Tensor) -> Tensor:
        return x.index_add(0, at, v)

    torch._dynamo.reset()
    torch.use_deterministic_algorithms(True)
    try:
        run = torch.compile(fn, backend="lamina", options={"cache": False})
        given = torch.randn(9, 16, device="cuda"), torch.randint(0, 9, (5000,), device="cuda"), torch.randn(5000, 16, device="cuda")
        first = run(*given)
        assert all(torch.equal(first, run(*given)) for _ in range(5))
    finally:
        torch.use_deterministic_algorithms(False)
