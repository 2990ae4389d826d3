"""Tests kernels for GPUs with warps of 32 and of 64 lanes: the simulator runs lamina-distribute's code for each."""

import pytest
from kernel_inputs import run
from test_gpu_kernels import CASES

NAMES = [
    "odd rows", "short rows", "doubles", "argmax", "var", "any", "column sums", "column max and sum", "normalized columns",
    "means of images, channels last", "full sum in two kernels", "transposed", "cumsum", "cross entropy", "group norm", "max pooling",
]  # fmt: skip


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("name", NAMES)
def test_values(name: str, lanes: int) -> None:
    fn, inputs = CASES[name]
    run(fn, *inputs, lanes=lanes)
