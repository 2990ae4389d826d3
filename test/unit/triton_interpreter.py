"""Runs printed Triton kernels on the CPU without a GPU: by Triton's own interpreter, and Gluon kernels by our simulator."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from unittest import mock

import gluon_simulator
import numpy as np
import quick_triton
import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from lamina.schedules.contraction import GemmConfig
from lamina.targets.triton.compiler import defined
from lamina.targets.triton.printing.printed import Printed

_TRUNCATED = interpreter._convert_float
_PATCHED = interpreter._patch_lang_tensor
_DOT = interpreter.InterpreterBuilder.create_dot


def interpret(kernel: Printed, ctas: int, arguments: Sequence[Tensor]) -> None:
    """Runs all CTAs of a kernel, one after the other, on memory that starts with the first element of each argument."""
    compiled = _defined(kernel)
    if compiled.is_gluon():
        gluon_simulator.simulate(compiled, ctas, arguments)
        return
    with _interpreting(), _calling():
        _defined(kernel, True)[(ctas,)](*arguments)


@lru_cache(maxsize=256)
def _defined(kernel: Printed, interpreted: bool = False) -> Any:
    """Returns the function that a kernel's text defines, read once, since reading the text takes as long as a CTA."""
    return defined(kernel)


@contextmanager
def interpreted(function: JITFunction) -> Iterator[Any]:
    """Returns the interpreter's version of a @triton.jit function and of those that it calls."""
    with _interpreting(), _calling():
        yield triton.jit(function.fn)


@contextmanager
def _calling() -> Iterator[None]:
    """Allows calls of functions that were compiled by @triton.jit before, such as tl.sum."""

    def compiled(self: JITFunction, *args: Any, **kwargs: Any) -> Any:
        return quick_triton.interpreted(self.fn)(*args, **kwargs)

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.rewrite()(*args, **kwargs)

    one = mock.patch.object(JITFunction, "__call__", compiled)
    other = mock.patch.object(interpreter.InterpretedFunction, "__call__", called)
    with one, other:
        yield


@contextmanager
def _interpreting() -> Iterator[None]:
    rounding = mock.patch.object(interpreter, "_convert_float", _rounded)
    indices = mock.patch.object(interpreter, "_patch_lang_tensor", _with_indices)
    dot = mock.patch.object(interpreter.InterpreterBuilder, "create_dot", _dot_of_numbers)
    with mock.patch.dict(os.environ, TRITON_INTERPRET="1"), rounding, indices, dot, quick_triton.quick():
        yield


def _dot_of_numbers(builder: Any, a: Any, b: Any, acc: Any, *rest: Any) -> Any:
    """Converts bf16 operands of tl.dot to numbers, as the interpreter would multiply their bits."""

    def wide(x: Any) -> Any:
        if x.dtype.scalar.name != "bf16":
            return x
        return interpreter.TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    return _DOT(builder, wide(a), wide(b), acc, *rest)


def _with_indices(tensor: Any, scope: Any) -> None:
    """Scalars are bounds of loops also where triton is 3.6 and NumPy 2.4, which makes no number of an array of one element."""
    _PATCHED(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))


def _rounded(values: np.ndarray, source: Any, target: Any, mode: Any) -> np.ndarray:
    """Rounds to bf16 to nearest, as a GPU does; the interpreter truncates."""
    if (source.name, target.name) != ("fp32", "bf16"):
        return _TRUNCATED(values, source, target, mode)
    return torch.from_numpy(np.array(values, np.float32)).bfloat16().view(torch.int16).numpy().view(np.uint16)


def call_function(name: str, x: Tensor) -> Tensor:
    """Calls a function of targets/triton/printing/math.py on the elements of x (f32)."""
    n = 1 << (x.numel() - 1).bit_length()
    body = (
        f"i = tl.arange(0, {n})\n    tl.store(y + i, {name}(tl.load(x + i, mask=i < {x.numel()}, other=0.0)), mask=i < {x.numel()})"
    )
    kernel = f"@triton.jit\ndef kernel(x, y):\n    {body}"
    out = torch.empty_like(x)
    interpret(Printed("kernel", kernel, (name,), (("f32", 4), ("f32", 4)), GemmConfig()), 1, [x, out])
    return out
