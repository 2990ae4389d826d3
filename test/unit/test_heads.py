"""Tests attention heads that several queries share, without a GPU."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from captured import by_dynamo, exported
from torch import Tensor, fx, nn

from lamina.frontend.attention.calls import make_whole
from lamina.frontend.attention.heads import before_repetition
from lamina.frontend.attention.op import ATTENTION
from lamina.frontend.fx.reading import value

Q, KV = (2, 8, 16, 8), (2, 2, 16, 8)


def by_expansion(x: Tensor) -> Tensor:
    """Repeats heads as transformers does."""
    batch, heads, length, size = x.shape
    return x[:, :, None, :, :].expand(batch, heads, 4, length, size).reshape(batch, 4 * heads, length, size)


def by_unsqueeze(x: Tensor) -> Tensor:
    return x.unsqueeze(2).expand(2, 2, 4, 16, 8).contiguous().view(2, 8, 16, 8)


def by_interleaving(x: Tensor) -> Tensor:
    return x.repeat_interleave(4, dim=1)


def by_tiling(x: Tensor) -> Tensor:
    """Repeats heads in another order."""
    return x[:, None].expand(2, 4, 2, 16, 8).reshape(2, 8, 16, 8)


def by_functions(x: Tensor) -> Tensor:
    return torch.repeat_interleave(x, repeats=4, dim=-3)


def of_length(x: Tensor) -> Tensor:
    return x[:, :, :4].repeat_interleave(4, dim=2).repeat_interleave(4, dim=1)


class Model(nn.Module):
    def __init__(self, repeat: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.repeat = repeat

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, self.repeat(k), self.repeat(v), is_causal=True)


@pytest.mark.parametrize("graph", [exported, by_dynamo])
@pytest.mark.parametrize(
    ("repeat", "shared"),
    [
        (by_expansion, True), (by_unsqueeze, True), (by_interleaving, True), (by_functions, True), (of_length, True),
        (by_tiling, False), (lambda x: torch.cat([x] * 4, 1), False),
    ],
)  # fmt: skip
def test_repeated_heads_are_shared(graph: Callable[..., fx.GraphModule], repeat: Callable[[Tensor], Tensor], shared: bool) -> None:
    inputs = torch.randn(Q), torch.randn(KV), torch.randn(KV)
    with torch.no_grad():
        gm = graph(Model(repeat), inputs)
        assert make_whole(gm) == 1
        (node,) = (n for n in gm.graph.nodes if n.target is ATTENTION)
        assert [value(n).shape[1] for n in node.args[1:3]] == [2 if shared else 8] * 2  # type: ignore[union-attr]
        gm.graph.eliminate_dead_code()
        gm.recompile()
        named = dict(zip("qkv", inputs, strict=True))  # Dynamo has them in the order of their use, as l_q_ and so on
        (found,) = gm(*(named[n.name.strip("_")[-1]] for n in gm.graph.nodes if n.op == "placeholder"))
        torch.testing.assert_close(found, Model(repeat)(*inputs))


def test_only_one_of_key_and_value_is_left() -> None:
    inputs = torch.randn(Q), torch.randn(KV), torch.randn(Q)

    class One(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, by_expansion(k), v)

    gm = exported(One(), inputs)
    assert make_whole(gm) == 1
    (node,) = (n for n in gm.graph.nodes if n.target is ATTENTION)
    assert [value(n).shape[1] for n in node.args[:3]] == [8] * 3  # type: ignore[union-attr]
    assert isinstance(node.args[0], fx.Node) and before_repetition(node.args[0]) is None
