"""Tests the analysis of attention masks, without a GPU."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import lamina
from lamina.frontend.attention import recognize as recognition
from lamina.frontend.attention.calls import SDPA, make_whole
from lamina.frontend.attention.mask_flags import flag_masks, kind_of_mask, mask_kind
from lamina.frontend.attention.op import ATTENTION
from lamina.frontend.fx.known import known_value
from lamina.frontend.fx.reading import value
from lamina.passes.families.attention.torch_kernels.registry import TORCH_KERNELS, settings

CPU_CALLEE = "aten._scaled_dot_product_flash_attention_for_cpu.default"

N = 7


def by_comparisons(x: Tensor) -> Tensor:
    at = torch.arange(x.shape[2])
    return (at[None, :] <= at[:, None])[None, None]


def bias(x: Tensor) -> Tensor:
    hidden = torch.full((N, N), torch.finfo(torch.bfloat16).min).triu(1)
    return hidden[None, None].expand(2, 1, N, N)


def window(x: Tensor) -> Tensor:
    at = torch.arange(N)
    return by_comparisons(x) & (at[:, None] - at[None, :] < 3)


def of_values(x: Tensor) -> Tensor:
    return x[:, :, :, :1] > 0


MASKS = {
    "causal": [by_comparisons, bias],
    "nothing": [lambda x: torch.arange(N)[None, None, None] >= 0, lambda x: torch.zeros(1, 1, N, N)],
    "bias": [window, of_values, lambda x: torch.linspace(0, 1, N * N).reshape(N, N), lambda x: by_comparisons(x)[:, :, :, :5]],
}


@pytest.mark.parametrize(("kind", "number"), [(k, i) for k, v in MASKS.items() for i in range(len(v))])
def test_meaning_of_a_mask_in_a_graph(kind: str, number: int) -> None:
    mask = MASKS[kind][number]
    size = mask(torch.zeros(2, 3, N, 4)).shape[-1]

    class Model(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, y, y, attn_mask=mask(x))

    graph = torch.export.export(Model(), (torch.randn(2, 3, N, 4), torch.randn(2, 3, size, 4))).graph_module
    (node,) = (n for n in graph.graph.nodes if n.target is SDPA)
    given = node.args[3] if len(node.args) > 3 else node.kwargs["attn_mask"]
    assert isinstance(given, fx.Node)
    assert mask_kind(known_value(given, graph)) == kind


def attentions(gm: fx.GraphModule) -> list[fx.Node]:
    return [n for n in gm.graph.nodes if "attention" in str(n.target)]


def test_dynamo_graphs() -> None:
    """Attention calls in Dynamo's form of a graph become the one op too, masks included, with the layout that eager gives."""
    seen: list[str] = []

    def backend(gm: fx.GraphModule, inputs: list[Tensor]) -> fx.GraphModule:
        (node,) = attentions(gm)
        seen.append(kind_of_mask(node, gm))
        assert (flag_masks(gm), make_whole(gm)) == (1, 1)
        (node,) = attentions(gm)
        assert node.target is ATTENTION and node.args[3:8] == (None, None, 0.0, True, 0.5) and node.args[8] == TORCH_KERNELS
        return gm

    def fn(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=by_comparisons(x).expand(2, 1, N, N))

    x = torch.randn(2, N, 3, 4).transpose(1, 2)
    with torch.no_grad():
        found = torch.compile(fn, backend=backend)(x)
        torch.testing.assert_close(found, fn(x))
    assert seen == ["causal"] and found.stride() == fn(x).stride()


Q = (2, 4, 7, 16)
CALLS: dict[str, tuple[Callable[..., Tensor], tuple[int, ...], bool]] = {
    "a mask of two dimensions": (lambda q, k: F.scaled_dot_product_attention(q, k, k, q[0, 0] @ k[0, 0].mT), Q, True),
    "bools": (lambda q, k: F.scaled_dot_product_attention(q, k, k, q[:, :1, :, :1] < torch.arange(7)), Q, True),
    "a mask of rows": (lambda q, k: F.scaled_dot_product_attention(q, k, k, q[..., :1]), Q, False),
    "a mask of three": (lambda q, k: F.scaled_dot_product_attention(q, k, k, (q @ k.mT)[0]), Q, True),
    "shared heads": (lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), (2, 2, 7, 16), True),
    "values of another size": (lambda q, k: F.scaled_dot_product_attention(q, k, k[..., :8]), Q, False),
    "three dimensions": (lambda q, k: F.scaled_dot_product_attention(q[0], k[0], k[0]), Q, False),
    "dropout on a CPU": (lambda q, k: F.scaled_dot_product_attention(q, k, k, dropout_p=0.5), Q, False),
    "elements far apart": (lambda q, k: F.scaled_dot_product_attention(q.mT.contiguous().mT, k, k), Q, False),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_some_kernel_computes_is_one_op(name: str) -> None:
    """Calls that no kernel computes keep torch's decomposition, as in eager."""
    fn, shape, whole = CALLS[name]

    class Model(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return fn(q, k)

    q, k = torch.randn(Q), torch.randn(shape)
    gm = torch.export.export(Model(), (q, k)).graph_module
    (node,) = (n for n in gm.graph.nodes if n.target is SDPA)
    eager = node.meta["val"].stride()
    assert make_whole(gm) == whole and [n.target is ATTENTION for n in attentions(gm)] == [whole]
    if whole:
        with torch.no_grad():
            (found,) = gm(q, k)
            torch.testing.assert_close(found, fn(q, k))
            assert found.stride() == eager
        (node,) = attentions(gm)
        assert node.args[3] is None or value(node.args[3]).dtype is torch.float32  # type: ignore[union-attr]


@pytest.mark.parametrize("keys", [1, 13])
def test_results_are_copied_to_any_order_of_dimensions(keys: int) -> None:
    """Eager's efficient kernel returns heads adjacent in memory; the op's result has the query's order of dimensions."""
    graph, fake = fx.Graph(), FakeTensorMode()
    shapes = {"q": (2, 4, 70, 64), "k": (2, 4, keys, 64), "mask": (2, 1, 70, keys)}

    def node(made: fx.Node, shape: tuple[int, ...], order: tuple[int, ...] = (0, 1, 2, 3)) -> fx.Node:
        with fake:
            made.meta["val"] = torch.empty_permuted(shape, order, dtype=torch.bfloat16, device="cuda")
        return made

    q, k, mask = (node(graph.placeholder(name), shape) for name, shape in shapes.items())
    called = node(graph.call_function(SDPA, (q, k, k, mask)), shapes["q"], (0, 2, 1, 3))
    graph.output((called,))
    gm = fx.GraphModule(nn.Module(), graph)
    assert make_whole(gm) == 1 and [n.target for n in attentions(gm)] == [ATTENTION]
    with fake:
        (found,) = gm(*map(value, (q, k, mask)))
    assert found.shape == shapes["q"] and found.stride() == (17920, 64, 256, 1)


def test_settings_of_torch_count() -> None:
    """Also settings that a graph changes itself."""
    gm = torch.export.export(_Plain(), (torch.randn(Q),)).graph_module
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert settings() == "" and make_whole(gm) == 0
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        assert settings() == "flash" and make_whole(gm) == 1
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        assert settings() == "cudnn"
    found: list[int] = []

    def backend(gm: fx.GraphModule, _: object) -> fx.GraphModule:
        found.append(make_whole(gm))
        return gm

    def fn(x: Tensor) -> Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return F.scaled_dot_product_attention(x, x, x)

    torch.compile(fn, backend=backend, fullgraph=True)(torch.randn(Q))
    assert found == [0]


class _Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize("trained", [False, True])
def test_under_autocast(trained: bool) -> None:
    """The op computes in the dtype that autocast gives it."""
    x = torch.randn(Q, requires_grad=trained)

    def fn(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.scaled_dot_product_attention(x, x, x, attn_mask=(x @ x.mT).detach())

    callees = [
        e.callee
        for g in lamina.explain(fn, (x,), training=trained, options={"cache": False}, show=False).graphs
        for e in g.externals
    ]
    assert [c for c in callees if "attention" in c] == [CPU_CALLEE, CPU_CALLEE.replace(".default", "_backward.default")][
        : 1 + trained
    ]
    run = torch.compile(fn, backend="lamina", options={"cache": False})
    torch.testing.assert_close(run(x), fn(x), rtol=2e-2, atol=2e-2)


def test_checkpoints() -> None:
    """Attention in their bodies is one op, too."""
    x = torch.randn(Q, requires_grad=True)

    def fn(x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(_Plain(), x * 2, use_reentrant=False) * 2

    found: list[int] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recognition, "make_whole", lambda *given: found.append(make_whole(*given)) or found[-1])
        run = torch.compile(fn, backend="lamina", options={"cache": False}, fullgraph=True)
        mine, eager = (torch.autograd.grad(f(x).square().sum(), x)[0] for f in (run, fn))
    assert found == [1]
    torch.testing.assert_close(mine, eager)


def test_values_that_hide_all_but_not_quite_are_a_bias() -> None:
    assert mask_kind(torch.full((3, 3), -1.0)) == "bias"
    assert mask_kind(None) == "bias" and mask_kind(torch.zeros(3)) == "bias" and mask_kind(torch.zeros(0, 3)) == "bias"
    assert mask_kind(torch.full((1, 1), -torch.inf)) == "bias"


def test_a_mask_has_its_values_while_a_graph_is_traced() -> None:
    def fn(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=by_comparisons(x).expand(2, 1, N, N))

    x = torch.randn(2, 3, N, 4)
    with torch.no_grad():
        torch.testing.assert_close(lamina.compile(fn, (x,), options={"cache": False})(x), fn(x))


def set_afterwards(x: Tensor) -> Tensor:
    mask = torch.ones(N, N, dtype=torch.bool)
    mask[0].fill_(False)
    return mask


def random(x: Tensor) -> Tensor:
    return torch.rand(N, N) >= 0


@pytest.mark.parametrize("mask", [set_afterwards, random])
def test_masks_that_are_written_to_or_random(mask: Callable[[Tensor], Tensor]) -> None:
    """Both used to be taken for masks that hide nothing, the first because of its initial value."""

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, attn_mask=mask(x))

    graph = torch.export.export(Model(), (torch.randn(2, 3, N, 4),)).graph_module
    (node,) = (n for n in graph.graph.nodes if n.target is SDPA)
    assert kind_of_mask(node, graph) == "bias"


@pytest.mark.parametrize("mask", [by_comparisons, bias, window, of_values, lambda x: torch.zeros(1, 1, N, N)])
def test_known_masks_become_flags(mask: Callable[[Tensor], Tensor]) -> None:
    """Also on a CPU, and if gradients are needed."""

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, value=x, attn_mask=mask(x), scale=0.3)

    x = torch.randn(2, 3, N, 4)
    graph = torch.export.export(Model(), (x,)).graph_module
    (node,) = (n for n in graph.graph.nodes if n.target is SDPA)
    flags = {by_comparisons: True, bias: True, window: None, of_values: None}
    flag = flags.get(mask, False)
    assert flag_masks(graph) == (flag is not None)
    if flag is not None:
        assert (node.args[3:], node.kwargs) == ((None, 0.0, flag), {"scale": 0.3})
    with torch.no_grad():
        torch.testing.assert_close(lamina.compile(Model(), (x,), options={"cache": False})(x), Model()(x))
