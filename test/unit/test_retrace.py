"""An exported graph decomposed in one trace, and which graphs may be."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from lamina.frontend.decompositions import table
from lamina.frontend.locations import origin_of, where
from lamina.frontend.retrace import decomposed
from lamina.frontend.trace import Traced, as_module, trace


def traced(model: Callable[..., Any], *args: Tensor) -> Traced:
    with torch.no_grad():
        return trace(as_module(model), args, {})


def calls(gm: fx.GraphModule) -> Counter[tuple[str, str]]:
    """Ops with their lines."""
    return Counter((str(n.target), where(n)) for n in gm.graph.nodes if n.op == "call_function" and n.users)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(12), nn.Linear(12, 36)
        self.conv, self.batch = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)

    def forward(self, x: Tensor, image: Tensor) -> tuple[Tensor, ...]:
        q, k, v = self.up(self.norm(x)).view(2, 5, 3, 12).unbind(2)
        attended = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])
        return F.gelu(attended).softmax(-1), self.batch(self.conv(image)), F.rms_norm(x, (12,)), x.double().mean()


def test_the_same_graph_as_torch_exports_own_way() -> None:
    found = traced(Block().eval(), torch.randn(2, 5, 12), torch.randn(1, 2, 7, 8))
    with torch.no_grad():
        gm = decomposed(found.program.graph_module)
        expected = found.program.run_decompositions(table()).graph_module
    assert gm is not None
    assert calls(gm) == calls(expected)
    origins = {origin_of(n) for n in gm.graph.nodes}
    assert {"aten.rms_norm.default", "aten.native_layer_norm.default", "aten.gelu.default", "aten._softmax.default"} <= origins
    assert [n.op for n in gm.graph.nodes].count("placeholder") == len(found.slots)


def in_place(x: Tensor) -> Tensor:
    return (x + 1).relu_()


def branches(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))


@pytest.mark.parametrize("model", [in_place, branches, nn.BatchNorm1d(4), nn.InstanceNorm1d(4, track_running_stats=True)])
def test_what_is_more_than_a_function_of_tensors_is_left_to_torch_export(model: Callable[..., Any]) -> None:
    with torch.no_grad():
        assert decomposed(traced(model, torch.randn(3, 4, 5)).program.graph_module) is None
