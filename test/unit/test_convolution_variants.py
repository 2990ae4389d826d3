"""Tests convolutions of all kinds with the ops around them. Unmeasured, they are library calls with that reason; the other ops
are Lamina kernels, and nothing falls back."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distribute, tiled
from test_products_convolutions import random
from test_tune_products import graph_level
from torch import Tensor
from torch_mlir import ir

from lamina.core.program import Call, Launch
from lamina.passes.families.surroundings import calls

FORWARD, BACKWARD = "aten.convolution.default", "aten.convolution_backward.default"
Shape = tuple[int, ...]
F32 = torch.float32


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


VARIANTS: dict[str, tuple[Callable[..., Tensor], Shape, Shape]] = {
    "a multiplier": (lambda x, w: F.conv2d(x, w, padding=1, groups=8), (2, 8, 6, 7), (16, 1, 3, 3)),
    "groups": (lambda x, w: F.conv2d(x, w, padding=1, groups=2), (2, 8, 6, 7), (16, 4, 3, 3)),
    "depthwise, far apart": (lambda x, w: F.conv2d(x, w, padding=16, dilation=8, groups=8), (2, 8, 6, 7), (8, 1, 5, 5)),
    "depthwise, stride 3": (lambda x, w: F.conv2d(x, w, stride=3, groups=8), (2, 8, 6, 7), (8, 1, 3, 3)),
    "zeros on one side": (lambda x, w: F.conv2d(F.pad(x, (1, 0, 2, 1)), w, dilation=2), (2, 8, 6, 7), (8, 8, 3, 3)),
    "the same size": (lambda x, w: F.conv1d(x, w, padding="same"), (2, 8, 13), (8, 8, 4)),
    "rows": (lambda x, w: F.conv1d(x, w, stride=2), (2, 8, 13), (8, 8, 4)),
    "rows in groups": (lambda x, w: F.conv1d(x, w, padding=8, groups=2), (2, 8, 13), (8, 4, 16)),
    "rows, transposed": (lambda x, w: F.conv_transpose1d(x, w, stride=2, output_padding=1), (2, 8, 9), (8, 8, 3)),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2), (2, 8, 5, 6), (8, 4, 3, 3)),
    "depthwise, transposed": (lambda x, w: F.conv_transpose2d(x, w, groups=8), (2, 8, 5, 6), (8, 1, 3, 3)),
    "volumes": (lambda x, w: F.conv3d(x, w, padding=1), (2, 4, 3, 5, 6), (4, 4, 3, 3, 3)),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", VARIANTS)
def test_forward(name: str) -> None:
    run, image, weight = VARIANTS[name]

    def block(x: Tensor, w: Tensor) -> Tensor:
        return F.relu(run(x * 2, w)) + 1

    inputs = random(*image), random(*weight)
    module = graph_level(*inputs, fn=block)
    with module.context:
        found = [(ir.StringAttr(op.attributes[a]).value for a in ("callee", "reason")) for op in calls(module)]
    assert list(map(tuple, found)) == [(FORWARD, "library")]
    kernels, program = tiled(block, inputs)
    assert [type(s) for s in program.steps] == [Launch, Call, Launch]
    distribute(kernels)
    mine, want, eager = Simulated(kernels, program)(*inputs)[0], block(*(x.double() for x in inputs)), block(*inputs)
    assert mine.stride() == eager.stride()
    assert (mine.double() - want).norm() <= 1.1 * (eager.double() - want).norm() + 1e-5 * want.norm()


@pytest.mark.parametrize(
    ("image", "weight", "dtype"),
    [((2, 8, 13), (16, 8, 3), torch.bfloat16), ((2, 8, 5, 6), (8, 2, 3, 3), torch.bfloat16), ((2, 8, 5, 6), (8, 8, 3, 3), F32)],
)
def test_gradients(image: Shape, weight: Shape, dtype: torch.dtype) -> None:
    """Statistics, norm, activation and their gradients are Lamina kernels between two calls."""
    convolve = F.conv1d if len(image) == 3 else F.conv2d

    def loss(x: Tensor, w: Tensor, g: Tensor, b: Tensor) -> Tensor:
        y = F.batch_norm(convolve(x, w, padding=1, groups=image[1] // weight[1]), None, None, g, b, training=True)
        return F.silu(y).float().square().sum()

    def gradients(*values: Tensor) -> tuple[Tensor, ...]:
        return torch.func.grad(loss, argnums=(0, 1, 2, 3))(*values)

    inputs = [random(*shape, dtype=dtype) for shape in (image, weight, weight[:1], weight[:1])]
    module, program = tiled(gradients, inputs)
    assert [s.callee for s in program.steps if isinstance(s, Call)] == [FORWARD, BACKWARD]
    distribute(module)
    found = Simulated(module, program)(*inputs)
    exact, eager = gradients(*(x.double() for x in inputs)), gradients(*inputs)
    for mine, want, other in zip(found, exact, eager, strict=True):
        assert mine.stride() == other.stride()
        assert (mine.double() - want).norm() <= 1.5 * (other.double() - want).norm() + 1e-3 * want.norm()
