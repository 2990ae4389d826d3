"""Tests that gradients of pooling are sums over the windows that cover or chose an element, and that gradients and indices are
eager's."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import NO_CACHE
from torch import Tensor

import lamina

WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "apart": ((2, 3, 8, 6), {"kernel_size": 2}),
    "overlapping": ((2, 3, 9, 7), {"kernel_size": 3, "stride": 2, "padding": 1}),
    "every place": ((1, 2, 7, 5), {"kernel_size": 3, "stride": 1, "padding": 1}),
    "with gaps": ((2, 1, 11, 13), {"kernel_size": 2, "stride": 5}),
    "dilated": ((1, 3, 17, 12), {"kernel_size": 3, "stride": 2, "dilation": 2, "padding": 1}),
    "oblong": ((3, 2, 10, 31), {"kernel_size": (1, 4), "stride": (2, 3), "padding": (0, 2)}),
    "ceil": ((2, 3, 8, 9), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    "large": ((1, 1, 127, 3), {"kernel_size": (5, 3), "stride": (2, 1), "padding": (2, 1)}),
    "one": ((1, 1, 1, 1), {"kernel_size": 1}),
    "depth": ((1, 2, 6, 5, 7), {"kernel_size": 3, "stride": 2, "padding": 1}),
}


CASES = [*((name, torch.float32, "contiguous") for name in WINDOWS), ("overlapping", torch.bfloat16, "channels_last")]


@pytest.mark.parametrize(("name", "dtype", "layout"), CASES)
def test_max_pool(name: str, dtype: torch.dtype, layout: str) -> None:
    shape, window = WINDOWS[name]
    pool = F.max_pool3d if len(shape) == 5 else F.max_pool2d

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        result, places = pool(x, return_indices=True, **window)
        return result * 2, places

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="lamina", options=NO_CACHE)
    x = torch.randint(-4, 4, shape).to(dtype)  # with ties
    x.view(-1)[::7] = float("-inf")
    given = x.to(memory_format=torch.channels_last) if layout == "channels_last" else x
    found, wanted = (_with_gradient(f, given) for f in (compiled, model))
    for mine, eager in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, eager, rtol=1e-6 if dtype == torch.float32 else 2e-2, atol=1e-6)


AVERAGED = [
    *((name, {}, torch.float32) for name, (_, window) in WINDOWS.items() if "dilation" not in window),
    *((name, {"count_include_pad": False}, torch.float32) for name in ("oblong", "depth")),
    ("overlapping", {"count_include_pad": False}, torch.bfloat16),
    ("ceil", {"divisor_override": 5}, torch.bfloat16),
]


@pytest.mark.parametrize(("name", "more", "dtype"), AVERAGED)
def test_average_pool(name: str, more: dict[str, Any], dtype: torch.dtype) -> None:
    shape, window = WINDOWS[name]
    pool = F.avg_pool3d if len(shape) == 5 else F.avg_pool2d
    torch._dynamo.reset()

    def model(x: Tensor) -> Tensor:
        return pool(x.tanh(), **window, **more)

    x = torch.randn(shape, dtype=dtype)
    if len(shape) == 4 and dtype == torch.bfloat16:
        x = x.to(memory_format=torch.channels_last)
    gradients = []
    for f, given in ((torch.compile(model, backend="lamina", options=NO_CACHE), x), (model, x.double())):
        leaf = given.clone().requires_grad_()
        result = f(leaf)
        weights = torch.linspace(-1, 1, result.numel(), dtype=torch.float64).view(result.shape).to(dtype).to(result.dtype)
        gradients.append(torch.autograd.grad(result, leaf, weights)[0])
    torch.testing.assert_close(gradients[0].double(), gradients[1], rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-2)


def _with_gradient(f: Any, given: Tensor) -> list[Tensor]:
    x = given.clone().requires_grad_()
    result, places = f(x)
    weights = torch.linspace(-1, 1, result.numel()).view(result.shape).to(result.dtype)
    (gradient,) = torch.autograd.grad(result, x, weights)
    return [result.detach(), places, gradient]


def test_nan_is_taken_by_every_window() -> None:
    """The last NaN of a window is its maximum, and receives its gradient."""
    x = torch.randn(1, 1, 6, 6)
    x[0, 0, 2, 3] = x[0, 0, 3, 3] = float("nan")
    torch._dynamo.reset()

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        result, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        return result, places

    found, wanted = (_with_gradient(f, x) for f in (torch.compile(model, backend="lamina", options=NO_CACHE), model))
    for mine, eager in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, eager, equal_nan=True)


BEFORE_CONVOLUTIONS: dict[str, Any] = {
    "average": lambda x: F.avg_pool2d(x, 2),
    "largest": lambda x: F.max_pool2d(x, 3, 2, 1) * 2,
    "every second": lambda x: x[:, :, ::2, 1::2].tanh(),
}


@pytest.mark.parametrize("name", BEFORE_CONVOLUTIONS)
@pytest.mark.parametrize("transposed", [False, True])
def test_pooling_before_a_convolution(name: str, transposed: bool) -> None:
    """The convolution's image has channels last; the pooled image does not."""
    convolution = torch.nn.Conv2d(34, 40, 3, padding=1)

    def model(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.conv2d(BEFORE_CONVOLUTIONS[name](x), weight, bias, padding=1)

    x = torch.randn(8, 34, 34, 32)
    x = x.transpose(2, 3) if transposed else x
    given = (x, convolution.weight.detach(), convolution.bias.detach())
    found = lamina.compile(model, given, options=lamina.Options(cache=False))(*given)
    torch.testing.assert_close(found.double(), model(*(t.double() for t in given)), rtol=0, atol=2e-5)
