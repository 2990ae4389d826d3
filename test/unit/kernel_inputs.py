"""Inputs of kernels for GPUs, and the comparison of what they compute in the simulator with float64."""

from collections.abc import Callable
from typing import Any

import torch
from gpu_programs import Simulated, distributed
from oracle import compare
from torch import Tensor

BF16 = torch.bfloat16


def x(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


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
