"""Defines `lamina.kernel`: a launch of a user's kernel, as an op of FX graphs.

    kernel([x, y], name="scaled_add", of="mylib.scaled_add.default", key="5f0c...", call="x_ptr=x0, out_ptr=y0, n=tl.full(...)",
           grid=[64, 1, 1], warps=4, stages=3, threads=[], shared=0, hook="", outputs="bf16 4x8 8,1",
           alternatives="") -> [out]

Its arguments say all that it does, so whatever depends on a graph, such as the cache key, depends on the launch.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..dtypes import CODES, DTYPES


@torch.library.custom_op("lamina::kernel", mutates_args=())
def kernel(
    inputs: Sequence[Tensor],
    *,
    name: str,
    of: str,
    key: str,
    call: str,
    grid: Sequence[int],
    warps: int,
    stages: int,
    threads: Sequence[int],
    shared: int,
    hook: str,
    outputs: str,
    alternatives: str,
) -> list[Tensor]:
    """Launches a user's kernel. Raises RuntimeError when called in eager mode: it exists for compiled graphs.

    name     for people
    of       the op that it computes
    key      digest of the kernel's source, by which the kernel is found again
    call     what the kernel is called with: inputs are x0, x1, ..., outputs y0, y1, ..., all else is written out;
             for one in CUDA C++ as JSON (see cuda.py)
    grid     blocks along x, y and z
    warps, stages   of a kernel in Triton
    threads, shared  of one in CUDA C++: threads of a block along x, y and z, bytes of shared memory that it asks for
    hook     the kernel's parameters for its epilogue and the epilogue's operands, "epilogue operands"; "" for none.
             lamina-select-kernels adds the epilogue
    outputs  dtype, sizes and strides of each, as `described` writes them
    alternatives  what tuning chooses from, as JSON: call, grid and the launch parameters by the config's text; "" for nothing
    """
    raise RuntimeError(f"kernel {name} runs in compiled graphs alone")


@kernel.register_fake
def _(inputs: Sequence[Tensor], *, outputs: str, **_: Any) -> list[Tensor]:
    return [_empty_tensor(text, inputs[0].device) for text in outputs.split("; ")]


KERNEL: Any = torch.ops.lamina.kernel.default


def described(tensors: Sequence[Tensor]) -> str:
    """Returns "bf16 4x8 8,1; f32  ": dtype, sizes and strides of each tensor; a 0-d tensor has no sizes and strides."""
    each = [f"{CODES[t.dtype]} {'x'.join(map(str, t.shape))} {','.join(map(str, t.stride()))}" for t in tensors]
    return "; ".join(each)


def _empty_tensor(text: str, device: torch.device) -> Tensor:
    dtype, sizes, strides = text.split(" ")
    shape = [int(n) for n in sizes.split("x") if n]
    return torch.empty_strided(shape, [int(n) for n in strides.split(",") if n], dtype=DTYPES[dtype], device=device)
