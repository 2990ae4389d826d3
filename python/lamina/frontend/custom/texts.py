"""Writes a Triton kernel's arguments as text: `x_ptr=x0, out_ptr=y0, n=tl.full((), 1024, tl.int32), BLOCK=256`.

Tensors are pointers. A number is a constant of the type that Triton's own launcher would give it, so the code is the same and the
compiler knows the number.
"""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from lamina.core.custom_kernel import CustomKernel
from lamina.core.dtypes import ELEMENT_TYPES
from lamina.core.errors import CompileError, suggestion

from .rules import location_of

_TYPES = {
    "u1": "tl.int1", "i1": "tl.int1", "i8": "tl.int8", "i16": "tl.int16", "i32": "tl.int32", "i64": "tl.int64", "u8": "tl.uint8",
    "u16": "tl.uint16", "u32": "tl.uint32", "u64": "tl.uint64", "fp16": "tl.float16", "bf16": "tl.bfloat16", "fp32": "tl.float32",
    "fp64": "tl.float64",
}  # fmt: skip
"""The types of numbers, by the annotation of a parameter."""
_DTYPES = {getattr(torch, type_.torch): f"tl.{type_.language}" for type_ in ELEMENT_TYPES if type_.language}


def parameters(kernel: CustomKernel, values: Any) -> dict[str, Any]:
    """Returns the value of each parameter that gets one, from the result of the rule `arguments`. Raises CompileError."""
    names = list(kernel.kernel.arg_names)
    refused = {
        **dict.fromkeys(kernel.constants, "which constants gives already"),
        **dict.fromkeys(kernel.epilogue, "which Lamina gives"),
    }
    free = [n for n in names if n not in refused]
    needed = [p.name for p in kernel.kernel.params if p.name in free and not p.has_default]
    value_of = {**by_parameter(kernel, values, free, needed, refused, "besides constants it takes"), **kernel.constants}
    return {name: value_of[name] for name in names if name in value_of}


def by_parameter(
    kernel: CustomKernel, values: Any, names: Sequence[str], needed: Sequence[str], refused: Mapping[str, str], takes: str
) -> dict[str, Any]:
    """Returns the values that the rule `arguments` gives, by parameter. Raises CompileError if it gives others, or not all.

    names    parameters that it may give values, in order
    needed   those that have no value else
    refused  why it may not give other parameters values
    takes    the words before the names of what the kernel takes, for the error
    """
    where = location_of(kernel.arguments)
    if not isinstance(values, Mapping | tuple | list):
        raise CompileError(
            f"kernel {kernel.name}: arguments must give a tuple or a dict, {type(values).__name__} given", where=where
        )
    if isinstance(values, Mapping):
        for name in values:
            if name not in names:
                why, remedy = refused.get(name, "which it does not have"), "" if name in refused else suggestion(str(name), names)
                raise CompileError(f"kernel {kernel.name}: arguments gives parameter {name!r}, {why}", where=where, remedy=remedy)
    elif len(values) > len(names):
        raise CompileError(
            f"kernel {kernel.name}: arguments gives {len(values)} values for {len(names)} parameters",
            where=where,
            remedy=f"{takes} {', '.join(names)}",
        )
    value_of = dict(values) if isinstance(values, Mapping) else dict(zip(names, values, strict=False))
    for name in needed:
        if name not in value_of:
            raise CompileError(
                f"kernel {kernel.name}: parameter {name!r} gets no value", where=where, remedy="give it in arguments or constants"
            )
    return value_of


def operand_name(kernel: CustomKernel, name: str, value: Tensor, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """Returns the name by which a launch gives a parameter its tensor: x0 for the first input, y0 for the first output."""
    for letter, tensors in (("x", inputs), ("y", outputs)):
        for i, tensor in enumerate(tensors):
            if tensor is value:
                return f"{letter}{i}"
    raise misfit_error(kernel, name, "gets a tensor that is neither an argument nor a result of the op")


def call(kernel: CustomKernel, values: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """Returns the text for parameters with these values. Tensors among them are inputs or outputs."""
    described = {parameter.name: parameter for parameter in kernel.kernel.params}
    parts = []
    for name, value in values.items():
        if isinstance(value, Tensor):
            text = _pointer(kernel, described[name], value, inputs, outputs)
        elif described[name].is_constexpr or value is None:
            text = _constant(kernel, name, value)
        else:
            text = _number(kernel, described[name], value)
        parts.append(f"{name}={text}")
    return ", ".join(parts)


def _pointer(kernel: CustomKernel, parameter: Any, value: Tensor, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    if parameter.is_constexpr:
        raise misfit_error(kernel, parameter.name, "is a tl.constexpr, but gets a tensor")
    if value.dtype not in _DTYPES:
        raise misfit_error(kernel, parameter.name, f"gets a tensor of {value.dtype}, which Triton has no type for")
    return operand_name(kernel, parameter.name, value, inputs, outputs)


def _constant(kernel: CustomKernel, name: str, value: Any) -> str:
    """Returns a compile-time constant as text."""
    import triton.language as tl

    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, tuple):
        return f"({''.join(f'{_constant(kernel, name, v)}, ' for v in value)})"
    if isinstance(value, torch.dtype) and value in _DTYPES:
        return _DTYPES[value]
    if isinstance(value, tl.dtype):
        known = [text for text in _DTYPES.values() if getattr(tl, text.removeprefix("tl.")) == value]
        if known:
            return known[0]
    if value is None or isinstance(value, bool | str):
        return repr(value)
    if isinstance(value, Integral):
        return repr(int(value))
    if isinstance(value, Real):
        return _float(float(value))
    raise misfit_error(
        kernel, name, f"gets {value!r}, which is not a constant", "numbers, strings, dtypes, None and tuples of them are"
    )


def _number(kernel: CustomKernel, parameter: Any, value: Any) -> str:
    """Returns a run-time number as text, in the type that Triton's launcher would give it."""
    given = _TYPES.get(parameter.annotation_type)
    if isinstance(value, bool):
        return f"tl.full((), {value}, {given or 'tl.int1'})"
    if isinstance(value, Integral):
        number = int(value)
        if number == 1 and given is None and not parameter.do_not_specialize:
            return "1"  # Triton's launcher makes it a constexpr, too
        fits = -(2**31) <= number < 2**31
        if not -(2**63) <= number < 2**64:
            raise misfit_error(kernel, parameter.name, f"gets {number}, which 64 bits do not hold")
        return f"tl.full((), {number}, {given or ('tl.int32' if fits else 'tl.int64' if number < 2**63 else 'tl.uint64')})"
    if isinstance(value, Real):
        return f"tl.full((), {_float(float(value))}, {given or 'tl.float32'})"
    if isinstance(value, torch.dtype | str):
        raise misfit_error(kernel, parameter.name, f"gets {value!r}, but is not a tl.constexpr", "annotate it: tl.constexpr")
    raise misfit_error(kernel, parameter.name, f"gets {value!r}", "a kernel takes tensors, numbers and None, and constants")


def _float(number: float) -> str:
    return repr(number) if math.isfinite(number) else f'float("{number}")'


def misfit_error(kernel: CustomKernel, name: str, why: str, remedy: str = "") -> CompileError:
    """Returns the CompileError for a parameter with a value that does not fit."""
    return CompileError(f"kernel {kernel.name}: parameter {name!r} {why}", where=location_of(kernel.arguments), remedy=remedy)
