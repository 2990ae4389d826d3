"""Tests that results have eager's strides, for inputs of any layout, through both entry points."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import ENTRY_POINTS, static_and_dynamic
from torch import Tensor
from torch.utils import _pytree as pytree

import lamina

aten = torch.ops.aten
Function = Callable[[Tensor], Any]


def assigned(x: Tensor) -> Tensor:
    y = x.clone()
    y[1:2] = 0
    return y


def added_in_place(x: Tensor) -> Tensor:
    return torch.ones(x.shape).add_(x)


def reshaped(x: Tensor) -> Tensor:
    """Returns whether reshape copies depends on the layout of what comes before."""
    return x.masked_fill(x > 0, 0.0).transpose(0, 1).reshape(x.shape[1], -1)


def batch_norm(x: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, training=True)


FUNCTIONS: dict[str, Function] = {
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "slice assignment": assigned,
    "in place": added_in_place,
    "reshape": reshaped,
    "batch_norm": batch_norm,
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x, 2),
    "rrelu": lambda x: F.rrelu(x, 0.2, 0.2, training=True),
    "copysign": lambda x: torch.copysign(x, x.flip(0)),
    "copysign of a broadcast one": lambda x: torch.copysign(x, x[:, :1].flip(0)),
    "floor division": lambda x: torch.div(x, x[:, :1] + 9, rounding_mode="floor"),
    "slice_scatter": lambda x: torch.slice_scatter(x, torch.zeros_like(x[:, :1]), 1, 1, 2),
    "select_scatter": lambda x: torch.select_scatter(x, torch.zeros_like(x[:, 0]), 1, 1),
    "as_strided_scatter": lambda x: torch.as_strided_scatter(x, torch.zeros(3), (3,), (1,), 0),
    "views of a result with gaps": lambda x: torch.slice_scatter(x, torch.zeros_like(x[:1]), 0, 1, 2)[1:].transpose(0, 1),
    "fmod": lambda x: torch.fmod(x, 2.0),
    "fmod of two": lambda x: torch.fmod(x.contiguous(), x + 9),
    "dropout of nothing": lambda x: F.dropout(x, 0.0, True),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "batch norm with update": lambda x: aten._batch_norm_with_update_functional(x, *torch.ones(4, x.shape[1]), 0.1, 1e-5)[0],
    "max_unpool2d": lambda x: F.max_unpool2d(x, torch.arange(x[0, 0].numel()).view(x.shape[2:]).expand(x.shape), 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "logsigmoid": F.logsigmoid,
    "number to a power": lambda x: 2**x,
    "roll": lambda x: x.roll(1, 1),
    "gelu": F.gelu,
    "softmax": lambda x: x.softmax(1),
    "lerp": lambda x: torch.lerp(x, x + 1, x),
}

LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "transposed": lambda: torch.randn(2, 4, 6, 5).transpose(-1, -2),
    "sliced": lambda: torch.randn(2, 4, 5, 12)[..., ::2],
    "expanded": lambda: torch.randn(1, 4, 5, 6).expand(2, 4, 5, 6),
    "channels last": lambda: torch.randn(2, 4, 5, 6).contiguous(memory_format=torch.channels_last),
}


def strides(results: Any) -> list[list[int]]:
    """Returns the strides of dimensions with more than one element."""
    return [[s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] for t in pytree.tree_leaves(results)]


def all_layouts(function: Function) -> Callable[..., Any]:
    return lambda *inputs: [function(x) for x in inputs]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "entry_point"), static_and_dynamic(FUNCTIONS))
def test_strides(name: str, entry_point: str) -> None:
    warnings.simplefilter("ignore")
    inputs = tuple(make() for make in LAYOUTS.values())
    run = all_layouts(FUNCTIONS[name])
    with torch.no_grad():
        want = run(*inputs)
        got = ENTRY_POINTS[entry_point](run, inputs)(*inputs)
    assert dict(zip(LAYOUTS, strides(got), strict=True)) == dict(zip(LAYOUTS, strides(want), strict=True))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["masked_fill", "fmod", "rms_norm", "rrelu", "slice_scatter", "roll"])
def test_kernels(name: str) -> None:
    """The kernel that computes a result also stores it in its layout."""
    for layout, make in LAYOUTS.items():
        with torch.no_grad():
            assert len(lamina.explain(FUNCTIONS[name], (make(),)).kernels) == 1, layout


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(1, 6, 1, 1), (2, 6, 7, 5), (3, 130, 9, 1)])
def test_a_group_norm_beside_its_input(shape: tuple[int, ...], layout: torch.memory_format) -> None:
    """The norm reshapes images and back: its kernel's other results keep their order, and values and gradients are right."""
    x = torch.randn(shape).to(memory_format=layout).requires_grad_()

    def step(x: Tensor) -> list[Tensor]:
        t = torch.tanh(x)
        y = F.group_norm(t, 2)
        return [t, y, *torch.autograd.grad((y * y.detach().sin() + t).sum(), x)]

    compiled = torch.compile(lambda x: (torch.tanh(x), F.group_norm(torch.tanh(x), 2)), backend="lamina", dynamic=False)
    t, y = compiled(x)
    got = [t, y, *torch.autograd.grad((y * y.detach().sin() + t).sum(), x)]
    want = step(x.detach().double().requires_grad_())
    for mine, exact in zip(got, want, strict=True):
        assert strides(mine) == strides(x)
        torch.testing.assert_close(mine.double(), exact, rtol=1e-4, atol=1e-4)


class Normalized(torch.nn.Module):
    """A convolution with weight norm. The weight's gradient, whose order differs for rows of length 1, is read as rows."""

    def __init__(self) -> None:
        super().__init__()
        convolution = torch.nn.Conv1d(8, 8, 4, padding=2, groups=4)
        self.convolution = torch.nn.utils.parametrizations.weight_norm(convolution, dim=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x.transpose(1, 2))


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_fallbacks_get_the_strides_of_eager(entry_point: str) -> None:
    model, x = Normalized(), torch.randn(2, 1, 8)
    parameters = list(model.parameters())
    right = torch.autograd.grad(model(x).square().sum(), parameters)
    got = torch.autograd.grad(ENTRY_POINTS[entry_point](model, (x,))(x).square().sum(), parameters)
    torch.testing.assert_close(got, right)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_fallbacks_take_expanded_tensors(entry_point: str) -> None:
    x = (torch.randn(5, 5) + 5 * torch.eye(5),)
    functions: tuple[Function, ...] = (torch.trace, lambda x: torch.linalg.solve(x, (x[:, 0] * 2).expand(5, 5)))
    for function in functions:
        torch.testing.assert_close(ENTRY_POINTS[entry_point](function, x)(*x), function(*x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ["pointwise", "rows", "three"])
def test_results_in_two_orders(name: str, dynamic: bool) -> None:
    """Adjacent elements of one result are not adjacent in the other."""
    functions: dict[str, Function] = {
        "pointwise": lambda x: (x + 1, (x * 2).t().contiguous()),
        "rows": lambda x: (x.softmax(1), x.softmax(1).exp().t().contiguous()),
        "three": lambda x: (x.sin(), x.sin().t().contiguous() * 2, x.cos(), (x > 0).sum(0)),
    }
    function = functions[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="lamina", dynamic=dynamic)
    for shape in ((127, 65), (3, 1000), (33, 34)):
        x = torch.randn(shape)
        found, exact = compiled(x), function(x.double())
        for mine, eager in zip(found, exact, strict=True):
            assert mine.stride() == eager.stride()
            torch.testing.assert_close(mine.to(eager.dtype), eager, rtol=1e-5, atol=1e-5)
