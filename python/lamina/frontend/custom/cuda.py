"""Reads users' kernels in CUDA C++, and evaluates the rules of their launches: arguments, macros, block size, shared memory."""

import json
import linecache
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lamina.core.cuda_source import ELEMENTS, CudaSource, Parameter, global_functions
from lamina.core.custom_kernel import CustomKernel
from lamina.core.dtypes import ELEMENT_TYPES
from lamina.core.errors import CompileError, suggestion

from ..fx.dtypes import CODES
from .rules import location_of
from .texts import by_parameter, misfit_error, operand_name

_TYPES = {getattr(torch, type_.torch): type_.cuda[0] for type_ in ELEMENT_TYPES if type_.cuda}
_BYTES = ("bool", "u8", "i8")
_MOST_THREADS = 1024


def source_of(source: Any, function: Any, flags: Sequence[str]) -> CudaSource:
    """Returns the kernel `function` of a source: C++ text, or the path of a file. Raises CompileError if that cannot be read or has
    no such kernel.

    function  the kernel's name; None if the source has only one
    flags     options for NVRTC
    """
    if isinstance(source, Path):
        try:
            text, file, line = source.read_text(), str(source), 1
        except OSError as error:
            raise CompileError(f"source {source} cannot be read: {error.strerror}") from error
    elif isinstance(source, str):
        text, (file, line) = source, _origin(source)
    else:
        raise CompileError(f"source must be CUDA C++ as a text, or the pathlib.Path of a file, {source!r} given")
    if isinstance(flags, str) or not all(isinstance(flag, str) for flag in flags):
        raise CompileError(f"flags must be a sequence of options for NVRTC, {flags!r} given")
    names = list(dict.fromkeys(name for name, _ in global_functions(text)))
    if function is None and len(names) == 1:
        function = names[0]
    if not isinstance(function, str):
        listed = f"it has {', '.join(names)}" if names else "it has no function with __global__"
        raise CompileError("kernel must name a function of source", where=f"{file}:{line}", remedy=listed)
    kernel = CudaSource(text, function, file, line, tuple(flags))
    if kernel.name not in names:
        remedy = suggestion(kernel.name, names) if names else "it has no function with __global__"
        raise CompileError(f"source has no kernel {kernel.name!r}", where=f"{file}:{line}", remedy=remedy)
    return kernel


def _origin(text: str) -> tuple[str, int]:
    """Returns file and line at which the text of a kernel begins, if it is a literal in the file that called lamina."""
    frame = sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "lamina":
        frame = frame.f_back
    file = frame.f_code.co_filename
    whole = "".join(linecache.getlines(file))
    at = whole.find(text) if text.strip() else -1
    return (file, whole.count("\n", 0, at) + 1) if at >= 0 else ("<source>", 1)


def parameters(kernel: CustomKernel, values: Any) -> dict[str, Any]:
    """Returns the value of each parameter, by name or number, from `values`, the result of the rule `arguments`. Raises
    CompileError if they do not fit the kernel's parameters."""
    written = kernel.kernel.parameters
    if written is None:
        if isinstance(values, Mapping):
            why = f"kernel {kernel.name}: its parameters have no names, so arguments must give a tuple"
            raise CompileError(why, where=location_of(kernel.arguments))
        known = [f"number {number}" for number in range(len(values) if isinstance(values, tuple | list) else 0)]
    else:
        known = [p.name or f"number {number}" for number, p in enumerate(written)]
    found = by_parameter(kernel, values, known, known, {}, "it takes")
    return {name: found[name] for name in known}


def call(kernel: CustomKernel, values: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """Returns the arguments and macros of a launch as JSON. Tensors are "x0", "x1", ... for inputs and "y0", ... for outputs."""
    macros = {name: _macro(kernel, name, value) for name, value in kernel.constants.items()}
    written = kernel.kernel.parameters or [Parameter("", "")] * len(values)
    arguments: list[str | int | float | None] = []
    for parameter, (name, value) in zip(written, values.items(), strict=True):
        if isinstance(value, Tensor):
            arguments.append(_pointer(kernel, name, parameter, value, macros, inputs, outputs))
        elif value is None or isinstance(value, bool | int | float):
            arguments.append(value)
        elif isinstance(value, Integral | Real):
            arguments.append(int(value) if isinstance(value, Integral) else float(value))
        else:
            raise misfit_error(kernel, name, f"gets {value!r}", "a kernel takes tensors, numbers and None")
    return json.dumps({"arguments": arguments, "macros": macros})


def _pointer(
    kernel: CustomKernel,
    name: str,
    parameter: Parameter,
    value: Tensor,
    macros: dict[str, str],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
) -> str:
    """Returns the name of a tensor argument. Raises CompileError if its dtype is not that of the parameter."""
    known = ELEMENTS.get(parameter.element(macros)) if parameter.is_pointer else None
    code = CODES[value.dtype]
    if known is not None and known != code and not (known in _BYTES and code in _BYTES):
        raise misfit_error(kernel, name, f"is {parameter.type}, but gets a tensor of {value.dtype}")
    return operand_name(kernel, name, value, inputs, outputs)


def _macro(kernel: CustomKernel, name: str, value: Any) -> str:
    """Returns the value of a macro as C++ text; floats become literals of type float."""
    if isinstance(value, str):
        return value
    if isinstance(value, torch.dtype) and value in _TYPES:
        return _TYPES[value]
    if isinstance(value, Integral):  # bool, too
        return repr(int(value))
    if isinstance(value, Real):
        number = float(value)
        if math.isfinite(number):
            return f"({number!r}f)"
        return f"(__int_as_float(0x{'7fc00000' if number != number else '7f800000' if number > 0 else 'ff800000'}))"
    raise misfit_error(kernel, name, f"gets {value!r}, which is not a constant", "numbers, dtypes and texts of C++ are")


def block(kernel: CustomKernel) -> list[int]:
    """Returns the threads of a block along x, y and z. Raises CompileError unless the rule `threads` gave one to three positive
    numbers with a product of at most 1024."""
    threads = kernel.threads
    sizes = [threads] if isinstance(threads, int) else threads
    fits = isinstance(sizes, tuple | list) and 1 <= len(sizes) <= 3 and all(type(n) is int and n > 0 for n in sizes)
    if not fits or math.prod(sizes) > _MOST_THREADS:
        raise CompileError(
            f"kernel {kernel.name}: threads gives {threads!r}, not one to three numbers",
            remedy=f"a block has at most {_MOST_THREADS} threads",
        )
    return [*sizes, 1, 1][:3]


def shared(kernel: CustomKernel, size: Any) -> int:
    """Returns the bytes of shared memory that the rule `shared` gave. Raises CompileError unless that is a number, 0 or more."""
    if type(size) is not int or size < 0:
        raise CompileError(f"kernel {kernel.name}: shared gives {size!r}, not a number of bytes", where=location_of(kernel.shared))
    return size


def rules(kernel: CustomKernel, named: Sequence[str], results: Sequence[str]) -> Iterator[tuple[str, Any, Sequence[str]]]:
    """Yields the rules for constants, threads and shared: the name, the function, and the names that its parameters may have."""
    constants = [*named, *kernel.constants]
    yield from ((f"constants[{name!r}]", rule, named) for name, rule in kernel.constants.items() if callable(rule))
    if callable(kernel.threads):
        yield "threads", kernel.threads, constants
    if callable(kernel.shared):
        yield "shared", kernel.shared, [*constants, *results, "threads"]
