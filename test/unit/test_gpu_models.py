"""Runs whole programs for GPUs: kernels in the simulator, library calls by torch on the CPU."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import errors
from torch import Tensor, nn

from lamina.core.program import Call, Launch

BF16 = torch.bfloat16


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.first = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(32, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32))
        self.short = nn.Sequential(nn.Conv2d(16, 32, 1, 2, bias=False), nn.BatchNorm2d(32))
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = F.relu(self.second(self.first(x)) + self.short(x))
        return self.head(x.mean((2, 3)))


class Gated(nn.Module):
    """Squeeze and excitation after a depthwise convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(24, 24, 3, 1, 1, groups=24, bias=False), nn.BatchNorm2d(24), nn.Hardswish())
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 8, 1), nn.ReLU(), nn.Conv2d(8, 24, 1), nn.Hardsigmoid())
        self.out = nn.Conv2d(24, 16, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        return self.out(self.gate(x) * x)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out, self.qkv = nn.LayerNorm(64), nn.Linear(64, 64), nn.Linear(64, 192)
        self.mlp = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.view(*x.shape[:2], 4, 16).transpose(1, 2) for t in self.qkv(self.norm(x)).split(64, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(x)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_transformer_block(dtype: torch.dtype) -> None:
    mine, eager, program = errors(Block().to(dtype), torch.randn(2, 33, 64).to(dtype))
    assert mine <= 1.5 * eager + 1e-6
    assert {s.reason for s in program.program.steps if isinstance(s, Call)} == {"library"}


@pytest.mark.usefixtures("channels_last")
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_residual_network(dtype: torch.dtype) -> None:
    """Convolutions of half types, and of f32 if tf32 is allowed, have channels last from the image on."""
    mine, eager, program = errors(Residual().eval().to(dtype), torch.randn(2, 3, 64, 64).to(dtype))
    assert mine <= 1.5 * eager + 1e-6
    calls = [s for s in program.program.steps if isinstance(s, Call) and "convolution" in s.callee]
    layouts = {s.owned[0].strides[1] == 1 for s in calls if s.owned[0] is not None}
    assert len(calls) == 4 and layouts == {True}


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_squeeze_and_excitation(dtype: torch.dtype) -> None:
    """The gated image is computed once for its mean and again for the gate, with two matrix products in between."""
    mine, eager, program = errors(Gated().eval().to(dtype), torch.randn(2, 24, 12, 12).to(dtype))
    assert mine <= 1.5 * eager + 1e-6
    images = [[a.shape for a in s.args].count((2, 24, 12, 12)) for s in program.program.steps if isinstance(s, Launch)]
    assert [n for n in images if n][-2:] == [1, 2]  # without what puts the channels last
    assert Counter(s.callee for s in program.program.steps if isinstance(s, Call)) == {
        "aten.convolution.default": 1,  # the depthwise one is a Lamina kernel
        "aten.addmm.default" if dtype is BF16 else "aten.mm.default": 2,  # kernels add biases of f32
    }
