"""Kernels for machines of which 32 or 64 lanes run in step: the simulator runs what lamina-distribute makes for each."""

import pytest
import torch
from gpu_programs import Simulated, distributed
from test_gpu_kernels import CASES
from torch import Tensor
from torch.utils import _pytree as pytree

NAMES = [
    "odd rows", "short rows", "doubles", "argmax", "var", "any", "column sums", "column max and sum", "normalised columns",
    "means of images, channels last", "full sum in two kernels", "transposed", "cumsum", "cross entropy", "group norm", "max pooling",
]  # fmt: skip


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("name", NAMES)
def test_values(name: str, lanes: int) -> None:
    fn, inputs = CASES[name]
    found = Simulated(*distributed(fn, inputs, lanes=lanes), lanes=lanes)(*inputs)
    right = pytree.tree_leaves(fn(*(x.double() if x.is_floating_point() else x for x in inputs)))
    for mine, exact in zip(found, right, strict=True):
        if mine.is_floating_point():
            bound = {torch.float64: 1e-12, torch.float32: 1e-5}.get(mine.dtype, 1e-2)
            assert _error(mine, exact) <= bound
        else:
            assert torch.equal(mine, exact)


def _error(mine: Tensor, exact: Tensor) -> float:
    return float((mine.double() - exact).abs().max() / exact.abs().max().clamp(min=1e-30))
