"""Runs printed Triton kernels on the CPU by Triton's own interpreter, where there is no GPU."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
import triton
from torch import Tensor
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from lamina.schedules.contraction import Config
from lamina.targets.triton import defined
from lamina.targets.triton_text import Printed

_TRUNCATED = interpreter._convert_float


def interpret(kernel: Printed, ctas: int, arguments: Sequence[Tensor]) -> None:
    """Runs all CTAs of a kernel, one after the other, on memory that starts with the first element of each argument."""
    with _interpreting():
        defined(kernel)[(ctas,)](*arguments)


@contextmanager
def interpreted(function: JITFunction) -> Iterator[Any]:
    """A function of @triton.jit for the interpreter, and in its module those that it calls."""
    with _interpreting():
        names = function.fn.__globals__  # the interpreter leaves names of its own there
        compiled = {name: f for name, f in names.items() if isinstance(f, JITFunction)}
        names.update({name: triton.jit(f.fn) for name, f in compiled.items()})
        try:
            yield triton.jit(function.fn)
        finally:
            names.update(compiled)


@contextmanager
def _interpreting() -> Iterator[None]:
    with mock.patch.dict(os.environ, TRITON_INTERPRET="1"), mock.patch.object(interpreter, "_convert_float", _rounded):
        yield


def _rounded(values: np.ndarray, source: Any, target: Any, mode: Any) -> np.ndarray:
    """The interpreter drops the digits that bf16 has no place for; a GPU rounds to the nearest."""
    if (source.name, target.name) != ("fp32", "bf16"):
        return _TRUNCATED(values, source, target, mode)
    return torch.from_numpy(np.array(values, np.float32)).bfloat16().view(torch.int16).numpy().view(np.uint16)


def call_function(name: str, x: Tensor) -> Tensor:
    """A function of triton_math on the elements of x (f32)."""
    n = 1 << (x.numel() - 1).bit_length()
    body = (
        f"i = tl.arange(0, {n})\n    tl.store(y + i, {name}(tl.load(x + i, mask=i < {x.numel()}, other=0.0)), mask=i < {x.numel()})"
    )
    kernel = f"@triton.jit\ndef kernel(x, y):\n    {body}"
    out = torch.empty_like(x)
    interpret(Printed("kernel", kernel, (name,), (("f32", 4), ("f32", 4)), Config()), 1, [x, out])
    return out
