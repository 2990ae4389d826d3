"""What masks of attention mean, without a GPU."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import lamina
from lamina.frontend.attention import keep as attention
from lamina.frontend.attention.aligned_bias import align
from lamina.frontend.attention.keep import ATTENTION, flag_masks, is_on_gpu, keep_whole, kind_of_mask, meaning, whole
from lamina.frontend.decompositions.table import table
from lamina.frontend.fx.known import concrete

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


@pytest.mark.parametrize("keys", [1, 8, 49, 64, 127])
def test_rows_of_biases_are_aligned(keys: int) -> None:
    """However a bias comes about: torch pads it before it expands it, and what is expanded is materialized."""
    op = torch.ops.aten._scaled_dot_product_efficient_attention.default

    def expanded(q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
        return op(q, k, k, F.pad(bias, (0, -keys % 8))[..., :keys].expand(4, 3, 5, keys), False)[0]

    def computed(q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
        return op(q, k, k, bias.expand(4, 3, 5, keys) * 2, False)[0]

    shapes = ((4, 3, 5, 16), (4, 3, keys, 16), (1, 3, 5, keys))
    for function in (expanded, computed):
        with FakeTensorMode():
            gm = make_fx(function)(*map(torch.empty, shapes))
        align(gm.graph)
        gm.graph.lint()
        (call,) = [n for n in gm.graph.nodes if n.target is op]
        value = call.args[3].meta["val"]
        assert value.shape == (4, 3, 5, keys) and all(s % 8 == 0 for s in value.stride()[:-1])
        assert keys % 8 == 0 or call.args[3].args[0].target is torch.ops.aten.constant_pad_nd.default


@pytest.mark.parametrize("size", [1, 3, 20, 64, 100])
@pytest.mark.parametrize(("heads", "scale"), [(4, None), (2, 0.3)])
def test_heads_of_odd_sizes_are_filled_up_for_the_flash_kernel(
    monkeypatch: pytest.MonkeyPatch, size: int, heads: int, scale: float | None
) -> None:
    """As scaled_dot_product_attention does it, which the kernel counts on: shapes, strides and the scale are the same."""
    monkeypatch.setattr(attention, "choice", lambda *_: 1)  # SDPBackend.FLASH_ATTENTION
    op = torch.ops.aten._scaled_dot_product_flash_attention.default

    def fn(q: Tensor, k: Tensor, v: Tensor) -> Tensor | None:
        return attention.attend("bias", (q, k, v), {"scale": scale, "is_causal": True, "enable_gqa": heads < 4})

    with FakeTensorMode(), torch.no_grad():
        shapes = ((2, 4, 7, size), (2, heads, 7, size), (2, heads, 7, size))
        gm = make_fx(fn, decomposition_table=table())(*(torch.empty(s, device="cuda", dtype=torch.float16) for s in shapes))
    (call,) = [n for n in gm.graph.nodes if n.target is op]
    (out,) = gm.graph.output_node().all_input_nodes
    whole = size + -size % 8
    assert {n.meta["val"].shape[-1] for n in call.args[:3]} == {whole}
    assert call.kwargs.get("scale") == (scale if scale or size == whole else size**-0.5)
    assert out.meta["val"].shape == (2, 4, 7, size)
    assert out.meta["val"].stride() == (4 * 7 * whole, 7 * whole, whole, 1)


@pytest.mark.parametrize("size", [3, 20])
def test_filled_up_heads_do_not_change_attention(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """With the CPU's kernel in the place of the GPU's."""

    def kernel(q: Tensor, k: Tensor, v: Tensor, dropout: float, causal: bool, debug: bool, *, scale: float) -> tuple[Tensor]:
        assert q.shape[-1] == k.shape[-1] == v.shape[-1] == size + -size % 8
        return (F.scaled_dot_product_attention(q, k, v, None, dropout, causal, scale=scale),)

    monkeypatch.setattr(attention, "aten", SimpleNamespace(_scaled_dot_product_flash_attention=kernel))
    q, k, v = torch.randn(3, 2, 4, 7, size).unbind()
    found = attention._flash(q, k, v, True, None)
    want = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-5)


class OnGpu(Tensor):
    """A tensor that says it is on a GPU."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", 0)


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
    (node,) = (n for n in graph.graph.nodes if n.target is ATTENTION)
    given = node.args[3] if len(node.args) > 3 else node.kwargs["attn_mask"]
    assert isinstance(given, fx.Node)
    assert meaning(concrete(given, graph)) == kind


def test_dynamo_graphs_keep_what_is_on_the_cpu() -> None:
    """Masks are read in Dynamo's form of a graph too; on the CPU torch's decomposition stays."""
    seen: list[str] = []

    def backend(gm: fx.GraphModule, inputs: list[Tensor]) -> fx.GraphModule:
        (node,) = (n for n in gm.graph.nodes if "attention" in str(n.target))
        seen.append(kind_of_mask(node, gm))
        query = node.args[0]
        assert isinstance(query, fx.Node) and not is_on_gpu(node)
        keep_whole(gm)
        assert whole not in [n.target for n in gm.graph.nodes]
        query.meta["example_value"] = OnGpu()  # what Dynamo says there of a tensor on a GPU
        assert is_on_gpu(node)
        keep_whole(gm)
        assert whole in [n.target for n in gm.graph.nodes]
        return gm

    def fn(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=by_comparisons(x).expand(2, 1, N, N))

    x = torch.randn(2, 3, N, 4)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(fn, backend=backend)(x), fn(x))
    assert seen == ["causal"]


def test_values_that_hide_all_but_not_quite_are_a_bias() -> None:
    assert meaning(torch.full((3, 3), -1.0)) == "bias"
    assert meaning(None) == "bias" and meaning(torch.zeros(3)) == "bias" and meaning(torch.zeros(0, 3)) == "bias"
    assert meaning(torch.full((1, 1), -torch.inf)) == "bias"


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
    """Both were taken to hide nothing: the first by what it was made as."""

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, attn_mask=mask(x))

    graph = torch.export.export(Model(), (torch.randn(2, 3, N, 4),)).graph_module
    (node,) = (n for n in graph.graph.nodes if n.target is ATTENTION)
    assert kind_of_mask(node, graph) == "bias"


@pytest.mark.parametrize("mask", [by_comparisons, bias, window, of_values, lambda x: torch.zeros(1, 1, N, N)])
def test_known_masks_become_flags(mask: Callable[[Tensor], Tensor]) -> None:
    """On a CPU too, and where gradients are wanted."""

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, value=x, attn_mask=mask(x), scale=0.3)

    x = torch.randn(2, 3, N, 4)
    graph = torch.export.export(Model(), (x,)).graph_module
    (node,) = (n for n in graph.graph.nodes if n.target is ATTENTION)
    flags = {by_comparisons: True, bias: True, window: None, of_values: None}
    flag = flags.get(mask, False)
    assert flag_masks(graph) == (flag is not None)
    if flag is not None:
        assert (node.args[3:], node.kwargs) == ((None, 0.0, flag), {"scale": 0.3})
    with torch.no_grad():
        torch.testing.assert_close(lamina.compile(Model(), (x,), options={"cache": False})(x), Model()(x))
