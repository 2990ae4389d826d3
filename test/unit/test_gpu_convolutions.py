"""Tests convolutions for GPUs without a GPU: kernels in the simulator, and cuDNN's call with its ReLU by its definition."""

from collections.abc import Iterator
from typing import Any

import gpu_programs
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lamina.core.program import Call

BF16 = torch.bfloat16
FUSED, PLAIN, ADDMM = "aten.cudnn_convolution_relu.default", "aten.convolution.default", "aten.addmm.default"


@pytest.fixture(autouse=True)
def _cudnn() -> Iterator[None]:
    torch.manual_seed(0)
    with gpu_programs.cudnn_by_definition():
        yield


def conv(*sizes: int, norm: bool = True, **how: Any) -> nn.Sequential:
    layers = nn.Sequential(nn.Conv2d(*sizes, bias=not norm, **how))
    if norm:
        layers.append(nn.BatchNorm2d(sizes[1]))
        nn.init.normal_(layers[1].running_mean)
        nn.init.uniform_(layers[1].running_var, 0.2, 3.0)
        nn.init.uniform_(layers[1].weight, -1.5, 1.5)
        nn.init.normal_(layers[1].bias)
    return layers


class Bottleneck(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 16, 7, stride=2, padding=3)
        self.first, self.second, self.third = conv(16, 8, 1), conv(8, 8, 3, padding=1), conv(8, 16, 1)
        self.last = nn.Sequential(conv(16, 24, 3, norm=False), nn.ReLU(), conv(24, 8, 1, norm=False))

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        y = F.relu(self.second(F.relu(self.first(x))))
        return self.last(F.relu(self.third(y) + x))


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16)
        self.wide, self.down = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 32, 2, 2)
        self.head = nn.Conv2d(32, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.head(self.down(F.gelu(self.wide(x)) + x))


def errors(model: nn.Module, x: Tensor) -> tuple[float, float, list[Call]]:
    """Returns Lamina's and eager's errors relative to float64, and the calls that ran."""
    mine, eager, ran = gpu_programs.errors(model.eval().to(x.dtype), x, "model")
    return mine, eager, [s for s in ran.program.steps if isinstance(s, Call)]


def test_a_residual_block() -> None:
    mine, eager, calls = errors(Bottleneck(), torch.randn(2, 3, 48, 48).to(BF16))
    assert mine <= 1.5 * eager
    assert [c.callee for c in calls] == [PLAIN, FUSED, FUSED, PLAIN, FUSED, PLAIN]
    assert all(c.owned[0] is not None and c.owned[0].strides[1] == 1 for c in calls)


def test_patches() -> None:
    mine, eager, calls = errors(Patches(), torch.randn(2, 3, 32, 40).to(BF16))
    assert mine <= 1.5 * eager
    assert [c.callee for c in calls] == [ADDMM, ADDMM, PLAIN]
