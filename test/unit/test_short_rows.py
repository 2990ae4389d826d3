"""Tests pointwise kernels for rows of any length in the simulator: threads have several accesses, of which those past the end of a short
row are left out. Values are compared with float64."""

import pytest
import torch
from sized_programs import compiled, kernels, launches
from torch import Tensor

from lamina.frontend.compiling.worker import finish

__all__ = ["kernels", "launches"]
F = torch.nn.functional

LENGTHS = (3, 9, 31, 32, 33, 50, 64, 97, 128, 130, 259)
"""As many as one access of each thread of a warp has, one less, one more, and so on up to several programs a row."""

KERNELS = {
    "max pooling": lambda x: F.max_pool2d(x, 3, 2, 1),
    "every other": lambda x: x[..., ::2] * 2,
    "bilinear upsampling": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
    "reversed": lambda x: x.flip(-1) + x,
    "padded": lambda x: F.pad(x, (1, 3)).cos(),
    "rolled and cast": lambda x: x.roll(1, -1).double(),
    "reflected": lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect") * 2,
    "shuffled": lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2) + 1,
    "gradient of max pooling": lambda x: torch.func.grad(lambda y: (F.max_pool2d(y, 3, 2, 1) * 3).sum())(x),
}


@pytest.mark.parametrize("name", KERNELS)
def test_any_length(name: str, kernels: list[str]) -> None:
    """Every length is computed by the kernel for any length and by the one for its own."""
    run = compiled(KERNELS[name])
    for length in LENGTHS:
        x: Tensor = torch.randn(2, 3, 5, length)
        want = KERNELS[name](x.double())
        for _ in range(2):
            torch.testing.assert_close(run(x).double(), want, rtol=1e-6, atol=1e-6)
            finish()
