"""Tests images sampled by grids, and affine grids, against float64: graphs, kernels for GPUs in the simulator, and calls on a
CPU."""

import itertools
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import aot_function, make_boxed_func
from gpu_programs import Simulated, distributed
from kernel_inputs import BF16
from pairs import covering
from torch import Tensor, fx

from lamina.frontend.decompositions.table import table
from lamina.frontend.fx import support

aten = torch.ops.aten
ON_CPU = "lamina.frontend.decompositions.ops.images.sample.on_cpu"
PADDINGS = ("zeros", "border", "reflection")
KINDS = [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]
SIZES = ((7, 5, 6), (1, 3, 2), (4, 1, 1))
CASES = [((2, "bilinear"), *case) for case in itertools.product(PADDINGS, (True, False), SIZES)]
CASES += covering(KINDS[1:], PADDINGS, (True, False), SIZES)


def sampled(mode: str, padding: str, align: bool) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, grid: F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)


def inputs(dims: int, size: tuple[int, ...], batch: int = 2, channels: int = 3) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, channels, *size[:dims]), torch.randn(batch, *(4, 6, 3)[:dims], dims)


def compiled(fn: Callable[..., Any], dynamic: bool = False) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend="lamina", dynamic=dynamic, options={"cache": False, "strict": True})


def gradients(fn: Callable[..., Tensor], given: tuple[Tensor, ...], flow: Tensor) -> list[Tensor | None]:
    """Returns the result and the gradients of all inputs."""
    mine = [t.clone().requires_grad_() for t in given]
    out = fn(*mine)
    out.backward(flow.to(out.dtype))
    return [out.detach(), *(t.grad for t in mine)]


def hold(fn: Callable[..., Tensor], run: Callable[..., Tensor], given: tuple[Tensor, ...], tolerance: float = 1e-4) -> None:
    """Asserts that values and gradients are those of eager in f64."""
    flow = torch.randn(fn(*given).shape)
    found, want = gradients(run, given, flow), gradients(fn, tuple(t.double() for t in given), flow)
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("kind", "padding", "align", "size"), CASES)
def test_graphs(kind: tuple[int, str], padding: str, align: bool, size: tuple[int, ...]) -> None:
    (dims, mode), calls = kind, set()

    def keep(gm: fx.GraphModule, _: Any) -> Any:
        calls.update(str(n.target) for n in gm.graph.nodes if n.op == "call_function" and support.reason(n) == "fallback")
        return make_boxed_func(gm.forward)

    fn = sampled(mode, padding, align)
    run = aot_function(fn, fw_compiler=keep, bw_compiler=keep, decompositions=table())
    hold(fn, run, inputs(dims, size), 2e-4)
    assert not calls


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("dims", "mode"), KINDS)
def test_a_cpu_samples(dims: int, mode: str, dynamic: bool) -> None:
    """No two symbolic sizes are equal in the first call: torch would use one symbol for both, and compile once more."""
    fn = sampled(mode, "zeros", False)
    run = compiled(lambda x, grid: fn(x * 2, grid).tanh(), dynamic)
    for shape in ((5, 9, (7, 8, 10)), (3, 17, (5, 9, 2))):
        hold(lambda x, grid: fn(x * 2, grid).tanh(), run, inputs(dims, shape[2], *shape[:2]), 2e-4)


@pytest.mark.parametrize("padding", PADDINGS)
def test_places_that_are_no_numbers_or_far_away(padding: str) -> None:
    x, grid = inputs(2, (7, 5))
    grid[0, 0, :6, 0] = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e30, -3e9, 2.5])
    x[0, 0, 0, 0] = torch.inf
    for mode in ("bilinear", "nearest"):
        fn = sampled(mode, padding, True)
        if padding == "reflection":
            grid[0, 0, 1:5, 0] = 0.3
        with torch.no_grad():
            found, want = compiled(fn)(x, grid), fn(x, grid)
        torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_half_types_and_layouts() -> None:
    fn = sampled("bilinear", "border", False)
    x, grid = (t.to(BF16) for t in inputs(2, (7, 5), channels=4))
    hold(fn, compiled(fn), (x.to(memory_format=torch.channels_last), grid.transpose(1, 2)), 5e-2)
    run = compiled(fn)
    for empty in ((torch.randn(0, 3, 4, 4), torch.randn(0, 5, 5, 2)), (torch.randn(2, 3, 4, 4), torch.randn(2, 0, 5, 2))):
        torch._dynamo.reset()
        assert torch.compile(fn, backend="lamina")(*empty).shape == fn(*empty).shape
    assert run is not None


@pytest.mark.parametrize(("dims", "mode"), KINDS)
def test_a_gpu_samples_by_one_kernel(dims: int, mode: str) -> None:
    fn = sampled(mode, "reflection", False)

    def around(x: Tensor, grid: Tensor, bias: Tensor) -> Tensor:
        return (fn(x, grid) + bias.view(-1, *[1] * dims)).relu()

    given = [*inputs(dims, (7, 5, 6), channels=33), torch.randn(33)]
    with patch(ON_CPU, return_value=False):
        program = Simulated(*distributed(around, given))
    assert len(program.program.steps) == 1
    torch.testing.assert_close(program(*given)[0], around(*given), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("dims", "mode"), KINDS)
def test_gradients_on_a_gpu(dims: int, mode: str) -> None:
    op = aten.grid_sampler_2d_backward if dims == 2 else aten.grid_sampler_3d_backward
    number = {"bilinear": 0, "nearest": 1, "bicubic": 2}[mode]
    x, grid = inputs(dims, (7, 5, 6))
    given = [torch.randn(2, 3, *grid.shape[1:-1]), x, grid]
    with patch(ON_CPU, return_value=False):
        program = Simulated(*distributed(lambda g, x, grid: op(g, x, grid, number, 0, False, [True, True]), given))
    assert not [step for step in program.program.steps if hasattr(step, "callee")]
    want = op(*(t.double() for t in given), number, 0, False, [True, True])
    for one, other in zip(program(*given), want, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-4)


def test_cudnn_samples_linearly() -> None:
    """Eager calls this op on a GPU if cuDNN is enabled; a CPU has no kernel for it."""
    x, grid = inputs(2, (7, 5))
    sample, gradient = (table()[op] for op in (aten.cudnn_grid_sampler.default, aten.cudnn_grid_sampler_backward.default))
    flow = torch.randn(2, 3, 4, 6)
    found, want = [sample(x, grid), *gradient(x, grid, flow)], gradients(sampled("bilinear", "zeros", True), (x, grid), flow)
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dims", [2, 3])
def test_affine_grids(dims: int, dynamic: bool) -> None:
    def warped(theta: Tensor, x: Tensor) -> Tensor:
        return F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)

    run = compiled(warped, dynamic)
    for n, size in ((2, 5), (3, 5 if dynamic else 8)):  # torch captures a graph for each size of an image, but one for all batches
        x = torch.randn(n, 3, *range(size, size + dims))
        hold(warped, run, (torch.randn(n, dims, dims + 1), x), 1e-3)


@torch._dynamo.config.patch(error_on_recompile=True)
@pytest.mark.filterwarnings("error:lamina compiles this graph once per size")
def test_gradients_of_affine_grids_are_compiled_once_for_all_batches() -> None:
    """torch itself captures a graph for each size of an image, since `linspace` takes no symbols."""

    def grid(theta: Tensor, x: Tensor) -> Tensor:
        return F.affine_grid(theta, list(x.shape), align_corners=True)

    run = compiled(grid, dynamic=True)
    for n in (9, 4, 11):
        theta, x, flow = torch.randn(n, 2, 3, requires_grad=True), torch.randn(n, 3, 5, 7), torch.randn(n, 5, 7, 2)
        found, want = (torch.autograd.grad(fn(theta, x), theta, flow)[0] for fn in (run, grid))
        torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-4)


def test_positions_are_not_saved_for_backward() -> None:
    """The indices of images and channels in the gradient are known: they take no memory and need no checks."""
    x, grid = (t.requires_grad_() for t in inputs(2, (7, 5)))
    out = compiled(sampled("bilinear", "zeros", False))(x, grid)
    assert {t.dtype for t in out.grad_fn.saved_tensors} == {torch.float32}
