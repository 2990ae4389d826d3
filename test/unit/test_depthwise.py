"""Depthwise convolutions as kernels of ours: strips of columns, against float64 in the simulator."""

import pytest
import torch
from gpu_programs import errors
from torch import Tensor, nn

from lamina.core.program import Call, Launch
from lamina.frontend import decompositions_library

BF16, LAST = torch.bfloat16, torch.channels_last


@pytest.fixture(autouse=True)
def _on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(decompositions_library, "on_gpu", lambda x: True)


def images(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(shape).to(dtype).contiguous(memory_format=LAST)


def depthwise(channels: int, kernel: int | tuple[int, int], stride: int = 1, **how: object) -> nn.Conv2d:
    sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
    how.setdefault("padding", tuple(k // 2 for k in sizes))
    return nn.Conv2d(channels, channels, sizes, stride, groups=channels, **how)  # type: ignore[arg-type]


CASES = [
    (depthwise(96, 7), (1, 96, 10, 8)),  # ConvNeXt
    (depthwise(64, 7), (2, 64, 7, 7)),  # one strip of a row, whose windows all reach over the edge
    (depthwise(32, 7), (1, 32, 3, 4)),  # windows larger than the image
    (depthwise(24, 3, 2, bias=False), (2, 24, 11, 9)),
    (depthwise(72, 5, 2), (1, 72, 14, 14)),
    (depthwise(40, (3, 5)), (1, 40, 6, 13)),
    (depthwise(16, 3, padding=0), (2, 16, 9, 10)),
    (depthwise(184, 5, padding=1), (1, 184, 8, 8)),
    (depthwise(8, 3, 2, padding=0), (3, 8, 12, 12)),  # the image's last row and column are in no window
    (depthwise(20, 3, padding=3), (1, 20, 5, 6)),
]


@pytest.mark.parametrize("dtype", [BF16, torch.float16])
@pytest.mark.parametrize(("model", "shape"), CASES)
def test_convolution(model: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    mine, eager, program = errors(model.to(dtype).to(memory_format=LAST), images(*shape, dtype=dtype))
    assert mine <= 1.05 * eager
    assert not [s for s in program.program.steps if isinstance(s, Call)]
    assert len([s for s in program.program.steps if isinstance(s, Launch)]) == 2  # the weight, in order, and the sums
