"""Tests IR printed for people: at every level of real graphs, each value is named before it is used."""

import re

import pytest
import torch
from torch import Tensor, nn
from torch_mlir import ir

from lamina.core.options import Options
from lamina.dialects import context, load_torch
from lamina.frontend.entry.levels import emit
from lamina.report.readable import readable


class Net(nn.Module):
    """Convolution, pooling, norm, products, softmax, an embedding and a sum over everything."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.words, self.out = nn.Embedding(11, 8), nn.Linear(8, 5)

    def forward(self, image: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.max_pool2d(torch.relu(self.norm(self.conv(image))), 2).mean((2, 3))
        y = torch.softmax(self.out(x + self.words(words).sum(1)), -1)
        return y, torch.cumsum(y, 1).square().sum()


@pytest.mark.parametrize("target", ["cpu", "nvvm:sm_90a"])
@pytest.mark.parametrize("level", ["torch", "linalg", "graph", "plan", "tile"])
def test_every_level(level: str, target: str) -> None:
    inputs = torch.randn(2, 3, 9, 9), torch.randint(11, (2, 4))
    text = emit(Net().eval(), inputs, level=level, target=target, options=Options())
    known = context()
    load_torch(known)
    written = readable(ir.Module.parse(text, known))
    assert len(written) < 0.7 * len(text) and __file__.rpartition("/")[2] in written
    for function in written.split("\n\n"):
        named: set[str] = set()
        for line in function.splitlines():
            left, _, right = line.partition(" = ") if line.strip().startswith("%") else ("", "", line)
            header = line if re.match(r"\s*(\^\d+)?\(.*\):$", line) else ""
            named |= set(re.findall(r"%\d+", left + header)) | set(re.findall(r"(%\d+) = ", right))
            assert set(re.findall(r"%\d+", right)) <= named, line
