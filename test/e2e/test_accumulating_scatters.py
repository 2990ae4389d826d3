"""Tests scatters that add or reduce on a CPU (scatter_add, scatter_reduce, index_add) against torch in float64."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pairs import pairwise
from torch import Tensor

REDUCTIONS = ("sum", "mean", "amax", "amin", "prod")
HALF = (torch.float16, torch.bfloat16)
aten = torch.ops.aten


def compiled(fn: Callable[..., Any], strict: bool = True, **more: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend="lamina", options={"cache": False, "strict": strict}, **more)


def check(fn: Callable[..., Any], *given: Tensor, strict: bool = True, tolerance: float = 1e-5, **more: Any) -> None:
    """Compares the compiled function with eager's in float64; integers must be equal."""
    found = compiled(fn, strict, **more)(*given)
    want = fn(*(t.double() if t.is_floating_point() else t for t in given)).to(found.dtype)
    torch.testing.assert_close(found, want, rtol=tolerance, atol=tolerance, equal_nan=True)


def near_one(*shape: int) -> Tensor:
    return torch.rand(shape) * 0.2 + 0.9


@pytest.mark.parametrize(
    ("size", "reduce", "own"), pairwise([(1, 1), (3, 3), (127, 5), (1000, 64), (4097, 17)], [*REDUCTIONS], [True, False])
)
def test_segments(size: tuple[int, int], reduce: str, own: bool) -> None:
    """own: old elements count."""
    at = torch.randint(0, 40, size[:1])
    check(
        lambda x, at, v: x.scatter_reduce(0, at[:, None].expand_as(v), v, reduce, include_self=own),
        torch.rand(40, size[1]), at, near_one(*size), tolerance=2e-4,
    )  # fmt: skip


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool, torch.float64, *HALF], ids=str)
def test_types(dtype: torch.dtype, reduce: str) -> None:
    if dtype is torch.bool and reduce == "mean":
        pytest.skip("eager has none")
    x, at, v = torch.randint(-3, 3, (40, 7)).to(dtype), torch.randint(0, 40, (300, 7)), torch.randint(-4, 5, (300, 7)).to(dtype)
    tolerance = 1e-2 if dtype in HALF else 1e-5
    check(lambda x, at, v: x.scatter_reduce(0, at, v, reduce), x, at, v, tolerance=tolerance)
    if reduce == "sum":
        check(lambda x, at, v: aten.index_put(x, [at], v, True), x, at[:, 0] - 40, v, tolerance=tolerance)
        check(lambda x, at, v: x.index_add(0, at, v), x, at[:, 0], v, tolerance=tolerance)


def test_elements_of_the_tensor_itself() -> None:
    """As top-p sampling scatters its flags into the order of the tokens; they are stored in memory before."""

    def unsorted(x: Tensor) -> Tensor:
        values, order = x.sort(-1)
        flags = values.softmax(-1).cumsum(-1) <= 0.2
        return x.masked_fill(flags.scatter(1, order, flags), 0)

    check(unsorted, torch.randn(5, 50))
    check(lambda x, at: (x * 2).scatter(1, at, x * 2), torch.randn(7, 33), torch.rand(7, 33).argsort(1))
    check(lambda x, at: x.exp().scatter_add(1, at, x.exp()), torch.randn(7, 33), torch.randint(0, 33, (7, 33)))


CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Tensor, ...]]]] = {
    "more values than indices": (
        lambda x, at, v: x.scatter_add(1, at, v),
        lambda: (torch.rand(5, 40), torch.randint(0, 40, (4, 60)), torch.rand(6, 70)),
    ),
    "transposed": (
        lambda x, at, v: x.t().scatter_add(0, at.t(), v.t()),
        lambda: (torch.rand(5, 40), torch.randint(0, 40, (5, 60)), torch.rand(5, 60)),
    ),
    "along rows": (
        lambda x, at, v: x.index_add(1, at, v, alpha=0.5),
        lambda: (torch.rand(33, 40), torch.randint(0, 40, (600,)), torch.rand(33, 600)),
    ),
    "a number": (lambda x, at, v: x.scatter_add(0, at, v), lambda: (torch.tensor(3.0), torch.tensor(0), torch.tensor(2.0))),
    "no values": (
        lambda x, at, v: x.index_add(0, at, v) + 1,
        lambda: (torch.rand(5, 3), torch.randint(0, 5, (0,)), torch.rand(0, 3)),
    ),
    "put": (
        lambda x, at, v: x.put(at, v, accumulate=True),
        lambda: (torch.rand(5, 7), torch.randint(-35, 35, (50,)), torch.rand(50)),
    ),
    "two indices": (
        lambda x, i, j, v: aten.index_put(x, [i, None, j], v, True),
        lambda: (torch.rand(6, 5, 7), torch.randint(-6, 6, (30, 1)), torch.randint(-7, 7, (4,)), torch.rand(30, 4, 5)),
    ),
    "one number for all": (
        lambda x, at: aten.index_put(x, [at[:, None].expand(-1, 5)], torch.scalar_tensor(2.0, dtype=x.dtype), True),
        lambda: (torch.rand(60), torch.randint(-60, 60, (30,))),
    ),
    "by name": (
        lambda x, at, v: x.scatter(1, at, v, reduce="multiply").scatter(1, at, 1.5, reduce="add"),
        lambda: (torch.rand(5, 40), torch.randint(0, 40, (4, 60)), near_one(4, 60)),
    ),
    "NaN": (
        lambda x, at, v: x.scatter_reduce(0, at, v, "amax"),
        lambda: (
            torch.rand(5, 3),
            torch.randint(0, 5, (40, 3)),
            torch.where(torch.rand(40, 3) > 0.9, torch.nan, torch.rand(40, 3)),
        ),
    ),
    "an embedding's gradient": (
        lambda g, at: aten.embedding_dense_backward(g, at, 30, 4, True),
        lambda: (torch.rand(6, 50, 7), torch.randint(0, 30, (6, 50))),
    ),
    "masked": (
        lambda x, m, i, j, v: aten._unsafe_masked_index_put_accumulate(x, m, [i, j], v),
        lambda: (
            torch.rand(9, 8),
            torch.rand(6, 5) > 0.5,
            torch.randint(0, 9, (6, 1)),
            torch.randint(0, 8, (5,)),
            torch.rand(6, 5),
        ),
    ),
    "softmax over neighbors": (
        lambda n, a, b, s: _attention(n, a, b, s),
        lambda: (torch.rand(30, 20), torch.randint(0, 30, (90,)), torch.randint(0, 30, (90,)), torch.randn(90)),
    ),
}


def _attention(nodes: Tensor, source: Tensor, to: Tensor, score: Tensor) -> Tensor:
    most = torch.full_like(nodes[:, 0], -torch.inf).scatter_reduce(0, to, score, "amax")
    power = (score - most[to]).exp()
    total = torch.zeros_like(most).scatter_add(0, to, power)
    return torch.zeros_like(nodes).index_add(0, to, nodes[source] * (power / total[to])[:, None])


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    fn, make = CASES[name]
    check(fn, *make())


@pytest.mark.parametrize("columns", [1, 16, 64])
def test_symbolic_sizes(columns: int) -> None:
    def mean(x: Tensor, at: Tensor, v: Tensor) -> Tensor:
        return x.scatter_reduce(0, at[:, None].expand(-1, v.shape[1]), v, "mean")

    run = compiled(mean, dynamic=True)
    for edges, nodes in ((3, 40), (127, 9), (1000, 40), (4097, 33)):
        given = torch.rand(nodes, columns), torch.randint(0, nodes, (edges,)), torch.rand(edges, columns)
        torch.testing.assert_close(run(*given), mean(*given), rtol=1e-4, atol=1e-4)


def test_gradients() -> None:
    def fn(x: Tensor, w: Tensor, at: Tensor, v: Tensor) -> Tensor:
        found = F.embedding(at, w) * v + x.gather(0, at[:, None].expand_as(v)) + x.index_select(0, at) + x[at, :]
        return x.index_add(0, at, found.tanh()).scatter_reduce(0, at[:, None].expand_as(v), found, "amax").sin()

    given = [torch.randn(50, 12), torch.randn(50, 12), torch.randint(0, 50, (300,)), torch.randn(300, 12)]
    mine, exact = (
        [t.detach().to(d, copy=True).requires_grad_() if t.is_floating_point() else t for t in given]
        for d in (torch.float32, torch.float64)
    )
    compiled(fn)(*mine).sum().backward()
    fn(*exact).sum().backward()
    for a, b in zip(mine, exact, strict=True):
        if b.is_floating_point():
            torch.testing.assert_close(a.grad.double(), b.grad, rtol=1e-4, atol=1e-4)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    run = compiled(lambda x, at, v: x.index_add(0, at, v))
    given = torch.randn(300, 256), torch.randint(0, 300, (5000,)), torch.randn(5000, 256)
    found = []
    for threads in (1, 2, 5):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(threads == 2)
        try:
            found.append(run(*given))
        finally:
            torch.use_deterministic_algorithms(False)
            torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_an_index_out_of_range_is_an_error() -> None:
    run = compiled(lambda x, at, v: x.scatter_add(0, at, v))
    for bad in (5, -1, 2**40):
        with pytest.raises(IndexError, match="out of range"):
            run(torch.rand(5), torch.tensor([0, bad]), torch.rand(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(("last", "padding"), [(False, None), (True, 2)], ids=["", "to the last offset, with padding"])
def test_bags(dtype: torch.dtype, mode: str, last: bool, padding: int | None) -> None:
    bags = torch.nn.EmbeddingBag(20, 7, mode=mode, padding_idx=padding, include_last_offset=last, dtype=dtype)
    indices, offsets = torch.randint(0, 20, (31,)), torch.tensor([0, 0, 3, 3, 20, 27] + [31] * last)
    given = [indices, offsets, *([torch.randn(31, dtype=dtype, requires_grad=True)] if mode == "sum" else [])]

    def both(run: Any, weight: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        result = run(*given)
        leaves = [weight, *(t for t in given if t.requires_grad)]
        return result, *torch.autograd.grad(result, leaves, torch.linspace(-1, 1, result.numel()).view(result.shape).to(result))

    found = both(compiled(bags, strict=False), bags.weight, *given)
    exact = copy.deepcopy(bags).double()
    wide = [t.detach().double().requires_grad_() if t.is_floating_point() else t for t in given]
    tolerance = 3e-2 if dtype in HALF else 1e-5
    torch.testing.assert_close(found, tuple(t.to(dtype) for t in both(exact, exact.weight, *wide)), rtol=tolerance, atol=tolerance)


def test_bags_of_maxima() -> None:
    """Gives the gradient to the first of equal elements, and none to empty bags."""
    table, rows, starts = torch.randn(9, 24).round(), torch.randint(0, 9, (33,)), torch.tensor([0, 5, 5, 9, 33])
    check(lambda i, w, o: F.embedding_bag(i, w, o, mode="max"), rows, table, starts)

    def grad(run: Callable[..., Tensor]) -> Tensor:
        w = table.clone().requires_grad_()
        result = run(rows, w, starts)
        return torch.autograd.grad(result, w, torch.linspace(-1, 1, result.numel()).view(result.shape))[0]

    bags = lambda i, w, o: F.embedding_bag(i, w, o, mode="max")  # noqa: E731
    torch.testing.assert_close(grad(compiled(bags)), grad(bags), rtol=1e-6, atol=1e-6)


def test_integers_divided_by_what_is_at_least_one() -> None:
    given = torch.randint(-99, 99, (127,)), torch.randint(-9, 9, (127,))
    check(lambda a, b: a // b.clamp(min=1) + a % b.clamp(min=2), *given)


def test_bags_of_rows() -> None:
    table, rows = torch.rand(50, 24).bfloat16(), torch.randint(0, 50, (33, 4))
    check(lambda i, w: F.embedding_bag(i, w, mode="sum"), rows, table, tolerance=2e-2)
    with pytest.raises((RuntimeError, IndexError)):
        compiled(lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"))(rows[0], table, torch.tensor([1, 2]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_histograms(dynamic: bool) -> None:
    def histograms(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return torch.histc(y, 7, -1, 2.5), torch.histc(y.nan_to_num(0.5), 9), torch.histc(y[:1].nan_to_num(0.5), 3, 2, 2)

    run = compiled(histograms, dynamic=dynamic)
    for shape in ((127,), (1000,), (4097,)):
        x = torch.randn(shape)
        x[:3] = torch.tensor([torch.nan, -0.5, 1.25])
        torch.testing.assert_close(run(x), histograms(x), rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="finite"):
        compiled(lambda x: torch.histc(x, 9), dynamic=dynamic)(x)
