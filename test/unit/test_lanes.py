"""Kernels for machines of which 32 or 64 lanes run in step: the simulator runs what lamina-distribute makes for each."""

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
