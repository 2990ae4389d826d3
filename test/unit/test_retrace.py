"""Tests decomposing an exported graph op by op, and for which graphs that is possible."""

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import ENTRY_POINTS, as_eager
from torch import Tensor, fx, nn

import lamina
from lamina.frontend.capture.as_module import as_module
from lamina.frontend.capture.retrace import decomposed
from lamina.frontend.capture.trace import Traced, trace
from lamina.frontend.decompositions.table import table
from lamina.frontend.fx.aliases import storage
from lamina.frontend.fx.locations import origin_of, where


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


def repeated(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Ops of one kind, and of kinds that differ in a number's type or sign, a layout or in which arguments are one."""
    a, b = F.softmax(x, -1), F.softmax(y, -1)
    c = F.softmax(a.t(), -1).t() + F.softmax(b.t().contiguous(), -1).t()
    return F.dropout(a, 0.5, False) * b, c * c + a * b, a - 0.0, b - -0.0, a.float() * 2, b * 2.0, *c.split(2), *b.split(2)


DROPS_NOTHING = inspect.getsourcelines(repeated)[1] + 4


def test_each_call_of_a_kind_is_copied_with_its_own_line_and_memory() -> None:
    found = traced(repeated, torch.randn(4, 4), torch.randn(4, 4))
    with torch.no_grad():
        gm = decomposed(found.program.graph_module)
        expected = found.program.run_decompositions(table()).graph_module
    assert gm is not None
    # torch's own way copies what a dropout that drops nothing returns; eager returns its argument.
    assert calls(expected) - calls(gm) == Counter({("aten.clone.default", f"{__file__}:{DROPS_NOTHING}"): 1})
    assert not calls(gm) - calls(expected)
    returned = [n.meta["val"] for n in gm.graph.output_node().args[0]]
    own, halves = returned[:-4], returned[-4:]
    assert len({storage(t) for t in own}) == len(own)
    assert [storage(t) == storage(halves[i - i % 2]) for i, t in enumerate(halves)] == [True] * 4
    assert [(n.meta["val"].shape, n.meta["val"].stride()) for n in gm.graph.output_node().args[0]] == [
        (n.meta["val"].shape, n.meta["val"].stride()) for n in expected.graph.output_node().args[0]
    ]


def in_place(x: Tensor) -> tuple[Tensor, ...]:
    y = x + 1
    before = y.sum(-1)
    twice = y.mul_(2)
    y += x
    y.relu_()
    return y.transpose(0, 1), twice, before, y.view(-1)[1:5]


def test_what_is_changed_in_place_is_the_new_value_for_all_that_read_it_later() -> None:
    x = torch.randn(3, 4, 5)
    with torch.no_grad():
        assert decomposed(traced(in_place, x).program.graph_module) is not None
    compiled = lamina.compile(in_place, (x,))
    for y, expected in zip(compiled(x), in_place(x), strict=True):
        torch.testing.assert_close(y, expected)
        assert y.stride() == expected.stride()


class Activations(nn.Module):
    """Of image models, in place."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = F.hardswish(x + 1, inplace=True)
        z = F.leaky_relu(x - 1, 0.1, inplace=True)
        dropped = F.dropout(y * z, 0.5, self.training, inplace=True)
        return y, z, dropped, dropped * 2


@pytest.mark.parametrize("training", [False, True])
def test_activations_and_dropout_in_place_are_decomposed_op_by_op(training: bool) -> None:
    model, x = Activations().train(training), torch.rand(300, 5) * 4 - 1.7
    with torch.no_grad():
        assert decomposed(traced(model, x).program.graph_module) is not None
        *found, dropped, twice = lamina.compile(model, (x,))(x)
        *expected, _, _ = model.eval()(x)
    torch.testing.assert_close(found, expected)
    whole = found[0] * found[1]
    kept = dropped != 0
    torch.testing.assert_close(dropped, torch.where(kept, whole * 2, 0.0) if training else whole)
    torch.testing.assert_close(twice, dropped * 2)
    assert 0.4 < kept.double().mean() < 0.6 if training else kept.all()


def powers(x: Tensor) -> tuple[Tensor, ...]:
    y, z = x + 1, x.double() - 1
    return y.pow_(2), z.float_power_(2)


def conjugate(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.complex(x, x + 1)
    turned = y.conj()
    y.mul_(2)
    return turned * 1, y


def filled(x: Tensor) -> tuple[Tensor, ...]:
    y = (x + 1).t()
    y.fill_(x[0, 0])
    z = (x * 2).t()
    z.copy_(x[0, 0:1].expand(4, 3))
    return y, y.t().view(-1) * 2, z, z.t().view(-1) + 1


@pytest.mark.parametrize("model", [powers, conjugate, filled])
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_what_is_changed_in_place_is_as_in_eager(model: Callable[..., Any], entry_point: str) -> None:
    with torch.no_grad():
        as_eager(ENTRY_POINTS[entry_point], model, torch.randn(3, 4))


def an_argument(x: Tensor) -> Tensor:
    return x.relu_()


def an_argument_by_a_view(x: Tensor) -> Tensor:
    return x[0].add_(1) * 2


def a_part(x: Tensor) -> Tensor:
    y = x * 2
    part = y[0]
    y += 1
    return part * y


def part_of(x: Tensor) -> Tensor:
    y = x * 2
    y[0].add_(1)
    return y


def a_narrow_one(x: Tensor) -> Tensor:
    return (x.half() * 2).add_(x)


def branches(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))


LEFT = [an_argument, an_argument_by_a_view, a_part, part_of, a_narrow_one, branches]


@pytest.mark.parametrize("model", [*LEFT, nn.BatchNorm1d(4), nn.InstanceNorm1d(4, track_running_stats=True)])
def test_what_is_more_than_a_function_of_tensors_is_left_to_torch_export(model: Callable[..., Any]) -> None:
    with torch.no_grad():
        assert decomposed(traced(model, torch.randn(3, 4, 5)).program.graph_module) is None


@pytest.mark.parametrize("model", LEFT[:-1])
def test_what_is_left_to_torch_export_is_right(model: Callable[..., Any]) -> None:
    x = torch.randn(3, 4, 5)
    mine, eager = x.clone(), x.clone()
    with torch.no_grad():
        torch.testing.assert_close(lamina.compile(model, (x.clone(),))(mine), model(eager))
    torch.testing.assert_close(mine, eager)
