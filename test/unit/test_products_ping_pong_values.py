"""Tests ping-pong products in the simulator of Gluon against float64: programs of several blocks, in several orders of events."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch.nn.functional as F
from gluon_simulator import simulate
from gpu_programs import Simulated, as_stored, tiled
from test_products import random
from torch import Tensor

from lamina.core.program import Launch
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import defined

PROGRAM = 5


class OneProgram(Simulated):
    """Blocks of the other programs of a kernel stay what they were: not a number."""

    def launch(self, step: Launch, arrays: list[np.ndarray]) -> None:
        kernel = self.printed[step.kernel]
        for seed in range(3):
            arrays[-1].fill(np.nan)
            with as_stored(kernel.arguments, arrays) as stored:
                simulate(defined(kernel), step.grid, stored, programs=[PROGRAM], seed=seed)


def gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w, b))


def swiglu(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


@pytest.mark.parametrize(
    ("fn", "columns", "schedule"),
    [
        (gelu, 128, "triton{m=128 n=128 k=64 warps=4 stages=3 resident=1 ping_pong=1}"),
        (swiglu, 64, "triton{m=128 n=64 k=64 warps=4 stages=4 resident=1 ping_pong=1}"),
    ],
)
def test_blocks_of_a_program(fn: Callable[..., Any], columns: int, schedule: str) -> None:
    """Three blocks in each of 132 programs, with a number of steps that is no multiple of the stages, and partial blocks of
    rows."""
    rows, inner, width = 2500, 328, 20 * columns - 8
    inputs = [random(rows, inner), random(width, inner), random(width) if fn is gelu else random(width, inner)]
    module, program = tiled(fn, inputs, products=schedule)
    (found,) = OneProgram(module, program, triton_text.take(module, True))(*inputs)
    want = fn(*(x.double() for x in inputs))
    there = found.isfinite()
    assert 2.5 < int(there.sum()) / (128 * columns) <= 3
    assert float((found.double() - want)[there].norm() / want[there].norm()) <= 4e-3
