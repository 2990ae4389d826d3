"""Tests graphs that do not fit in one program, because of higher-order ops, complex numbers, or dtypes and layouts without
kernels. Each goes through both entry points, with static and dynamic sizes, forward and backward, and is compared with eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import BACKEND, NO_CACHE
from functorch.experimental.control_flow import map as torch_map
from torch import Tensor, fx
from torch._higher_order_ops.flex_attention import flex_attention as flex_attention_op
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask
from torch.utils import _pytree as pytree

import lamina
from lamina.frontend.importing.outside import why_outside
from lamina.report.explanation import Peaks


@torch.library.custom_op("lamina_test::scale_", mutates_args=("x",))
def scale_(x: Tensor, factor: float) -> None:
    x.mul_(factor)


@torch.library.custom_op("lamina_test::exchange", mutates_args=("x", "y"))
def exchange(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    x.add_(z)
    y.sub_(z)
    return z * 2


@exchange.register_fake
def _(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return torch.empty_like(z)


def mutates(x: Tensor) -> Tensor:
    y = x.sin() + 1
    torch.ops.lamina_test.scale_(y, 3.0)
    return y.cos() * 2


def mutates_an_argument(x: Tensor) -> Tensor:
    torch.ops.lamina_test.scale_(x, 3.0)
    return x + 1


def mutates_views(x: Tensor) -> Any:
    a, b = x.sin(), x.cos()
    torch.ops.lamina_test.scale_(a[1:3], 2.0)
    c = torch.ops.lamina_test.exchange(a, b, x + 1)
    return a + 1, b.t() * 2, c.relu()


def maps(x: Tensor, y: Tensor) -> Any:
    return torch_map(lambda a, b: (a.sin() + b).relu(), x * 2, y) + 1


def loops(x: Tensor) -> Any:
    return while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 2 + 1), (torch.tensor(0), x.sin()))[1].relu()


def scans(x: Tensor) -> Any:
    return scan(lambda c, a: (c + a, c * a), torch.zeros(x.shape[1]), x.exp())


CAUSAL = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")


def attends(q: Tensor, k: Tensor, v: Tensor) -> Any:
    def closer(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + (i - j) * 0.1

    return flex_attention_op(q * 2, k, v, closer, CAUSAL.as_tuple(), 0.3, {})[0] + 1


def through_complex32(x: Tensor) -> Tensor:
    return (x * 2).to(torch.complex32).to(torch.complex64) * 2


def through_uint16(x: Tensor) -> Tensor:
    return (x * 2).abs().to(torch.uint16).to(torch.int32) + 1


def dtypes_without_code(x: Tensor, n: Tensor) -> Any:
    return through_complex32(x), through_uint16(x), n.to(torch.int64) + 1, (n.to(torch.int64) * 2).to(torch.uint32), n


def looks_up(table: Tensor, ids: Tensor) -> Tensor:
    return F.embedding(ids, table, sparse=True).sin() * 2


def normal(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "mutates": (mutates, lambda: (normal(5),)),
    "mutates an argument": (mutates_an_argument, lambda: (normal(5, grad=False),)),
    "mutates views": (mutates_views, lambda: (normal(5, 3, grad=False),)),
    "map": (maps, lambda: (normal(4, 3), normal(3))),
    "while_loop": (loops, lambda: (normal(3),)),
    "scan": (scans, lambda: (normal(5, 3, grad=False),)),
    "complex scalar": (lambda z: z * (1 + 2j) + 1, lambda: (normal(4, dtype=torch.complex64),)),
    "angle": (lambda z: (z * z).angle() * 2, lambda: (normal(4, dtype=torch.complex64),)),
    "complex32, uint16, uint32": (dtypes_without_code, lambda: (normal(4, grad=False) * 10, torch.arange(4).to(torch.uint32))),
    "sparse gradients": (lambda w, i: looks_up(w * 2, i), lambda: (normal(10, 3), torch.tensor([1, 2, 2, 5]))),
}


def _run(model: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    """Returns results, gradients and the arguments after the call."""
    args = tuple(a.detach().clone().requires_grad_(a.requires_grad) for a in args)
    results = pytree.tree_leaves(model(*args))
    loss = [r.abs().sum() for r in results if r.requires_grad]
    if loss:
        torch.stack(loss).sum().backward()
    return [*results, *args, *(a.grad for a in args)]


def _same(got: list[Any], want: list[Any]) -> None:
    for a, b in zip(got, want, strict=True):
        if b is None:
            assert a is None
            continue
        assert a.dtype == b.dtype and a.layout == b.layout
        dense = [t.detach().to_dense() if t.layout is not torch.strided else t.detach() for t in (a, b)]
        torch.testing.assert_close(*dense)


@pytest.mark.parametrize("entry_point", ["ahead", "static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:ComplexHalf support", "ignore:lamina compiles this graph once per size")
def test_outside(name: str, entry_point: str) -> None:
    model, draw = CASES[name]
    torch._dynamo.reset()
    if entry_point == "ahead":
        compiled: Any = lamina.compile(model, draw(), options=NO_CACHE)
    else:
        compiled = torch.compile(model, backend=BACKEND, options=NO_CACHE, dynamic=entry_point == "dynamic", fullgraph=True)
    for _ in range(2):
        args = draw()
        _same(_run(compiled, args), _run(model, args))


def test_flex_attention_in_both_passes() -> None:
    torch._dynamo.reset()
    q, k, v = (normal(1, 2, 16, 8) for _ in range(3))
    compiled = torch.compile(attends, backend=BACKEND, options=NO_CACHE, dynamic=False, fullgraph=True)
    reference = torch.compile(attends, backend="aot_eager", dynamic=False, fullgraph=True)
    _same(_run(compiled, (q, k, v)), _run(reference, (q, k, v)))


def test_explain_lists_what_runs_between_compiled_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.frontend.entry.explain_backend.peaks", lambda again=False: Peaks("somecpu", 2, 10e9, 100e9))
    found = lamina.explain(maps, (normal(4, 3), normal(3)), training=True, show=False)
    names = [f"graph 0, part {i} of 3" for i in (1, 2, 3)]
    assert [g.name for g in found.graphs][:3] == names
    assert found.graphs[1].is_eager and not found.graphs[1].kernels and found.graphs[0].kernels
    (call,) = found.graphs[1].fallbacks
    assert (call.callee, call.why) == ("map_impl", "a higher-order op")
    assert call.where == (f"{__file__}:{maps.__code__.co_firstlineno + 1}",)
    assert "fallback: a higher-order op" in str(found) and "runs eagerly, between compiled parts" in str(found)


def test_numbers_beside_tensors_stay_inside() -> None:
    """On a GPU, attention also returns the longest sequences' lengths as numbers."""
    graph = fx.Graph()
    q = graph.placeholder("q")
    q.meta["val"] = torch.empty(1, 1, 2, 8)
    node = graph.call_function(torch.ops.aten._scaled_dot_product_flash_attention.default, (q, q, q))
    node.meta["val"] = (q.meta["val"], torch.empty(1, 1, 2), None, None, 2, 2, torch.empty(2), torch.empty(0), torch.empty(0))
    assert why_outside(node, fx.GraphModule({}, graph)) is None
    node.meta["val"] = 3
    assert "type int" in str(why_outside(node, fx.GraphModule({}, graph)))
