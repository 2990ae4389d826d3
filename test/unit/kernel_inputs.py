"""Inputs of GPU kernels, and the comparison of the simulator's results with float64."""

import math
from collections.abc import Callable
from typing import Any

import torch
from gpu_programs import Simulated, distributed
from oracle import compare
from torch import Tensor

BF16 = torch.bfloat16


def x(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def no_numbers_in(a: Tensor) -> Tensor:
    """Scatters -inf over all rows, inf over the last three quarters, and NaN over the last half, in place."""
    quarter = len(a) // 4
    for first, share, value in ((0, 0.2, -math.inf), (quarter, 0.1, math.inf), (2 * quarter, 0.05, math.nan)):
        a[first:][torch.rand_like(a[first:]) < share] = value
    return a


def labels(n: int, classes: int) -> Tensor:
    return torch.randint(0, classes, (n,))


def run(fn: Callable[..., Any], *inputs: Tensor, lanes: int = 32) -> Simulated:
    """Results in half types are rounded once, by 1 ulp at most; in f32, rows of thousands lose some ulps, as they do in eager.

    lanes  threads that run in step
    """
    program = Simulated(*distributed(fn, inputs, lanes=lanes), lanes=lanes)
    results = program(*inputs)
    half = any(x.dtype in (BF16, torch.float16) for x in results)
    compare(fn, inputs, results, slack=1 if half else 4, ulps=1 if half else 8)
    return program
