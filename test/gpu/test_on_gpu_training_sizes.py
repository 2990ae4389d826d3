"""Tests on a GPU: training steps with changing sizes, gradients of depthwise weights, and images of few channels in another
order."""

from collections.abc import Callable

import pytest
import torch
from spying import spied
from test_direct_training import is_direct
from torch import Tensor, nn

BF16 = torch.bfloat16

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...], torch.dtype]] = {
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 24, 3, 1, 1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 4, 1)),
        ((4, 3, 32, 48), (2, 3, 33, 31), (7, 3, 64, 16), (3, 3, 130, 20)),
        torch.float32,
    ),
    "depthwise signals": (
        lambda: nn.Sequential(nn.Conv1d(64, 64, 4, padding=3, groups=64), nn.SiLU(), nn.Conv1d(64, 32, 1)),
        ((4, 64, 1000), (2, 64, 127), (3, 64, 33), (9, 64, 257)),
        BF16,
    ),
    "depthwise images": (
        lambda: nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 16, 1)),
        ((4, 32, 28, 24), (2, 32, 7, 9), (5, 32, 33, 12)),
        BF16,
    ),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True), ((4, 128, 64), (3, 77, 64), (9, 33, 64)), BF16),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_training(name: str, dynamic: bool) -> None:
    """Each size is called several times, until calls are recorded as CUDA graphs and kernels for ranges of sizes are ready."""
    make, shapes, dtype = MODELS[name]
    model = make().cuda()
    exact = make().cuda().double()
    exact.load_state_dict(model.state_dict())
    model.to(dtype)
    compiled, returned = spied(model, dynamic=dynamic)
    for shape in shapes if dynamic else shapes[:1]:
        x = torch.randn(shape, device="cuda", dtype=dtype)
        wide = _gradients(exact, exact, x.double())
        for _ in range(12):
            found = _gradients(compiled, model, x)
        for mine, right in zip(found, wide, strict=True):
            spread = right.abs().max().item()
            assert (mine.double() - right).abs().max().item() <= (0.05 if dtype == BF16 else 5e-3) * max(spread, 1.0)
    assert len(returned) == 1 and is_direct(returned[0])


def _gradients(call: Callable[[Tensor], Tensor], model: nn.Module, x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    result = call(x)
    return [result.detach(), *torch.autograd.grad(result.square().mean() * 100, [x, *model.parameters()])]


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
@pytest.mark.parametrize("shape", [(8, 8, 256, 256), (4, 12, 257, 131), (2, 24, 512, 300), (64, 40, 33, 65)])
@pytest.mark.parametrize("last", [False, True])
def test_images_of_few_channels_in_another_order(shape: tuple[int, ...], dtype: torch.dtype, last: bool) -> None:
    orders = (torch.contiguous_format, torch.channels_last)
    x = torch.randn(shape, device="cuda", dtype=dtype).contiguous(memory_format=orders[last])
    compiled, _ = spied(lambda x: (x * 2).contiguous(memory_format=orders[not last]))
    assert torch.equal(compiled(x), x * 2)
