"""Tests that compilation is deterministic across processes, as caches and tuning compare texts of kernels."""

import os
import subprocess
import sys
from pathlib import Path

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 24)

    def forward(self, tokens, image):
        words = self.table(tokens)
        scales = [1.3, 1.7, 2.2, 2.9]
        larger = [nn.functional.interpolate(image, scale_factor=s, mode="bilinear", align_corners=False) for s in scales]
        return words * 2 + words.roll(1, 1), *larger, image[:, :, tokens[0] % 6]

def model():
    return Net(), (torch.randint(0, 50, (3, 7)), torch.randn(2, 3, 6, 10))
"""


def test_indices_that_are_gathered_are_added_in_one_order(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    call = ["-m", "lamina.tools.opt_driver", "model.py:model", "--target=nvvm:sm_90a", "--emit=tile"]

    def text(seed: int) -> str:
        """Returns the text in a process with another hash seed and environment, where Python places objects elsewhere."""
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PADDING": "x" * 999 * seed}
        done = subprocess.run([sys.executable, *call], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    first = text(1)
    assert "tile.gather" in first and text(2) == first
