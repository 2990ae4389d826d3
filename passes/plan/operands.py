"""Encodes the arguments and results of calls in the form that routines expect. Complex tensors are real in the IR, with a last
dimension that holds the parts of each number; some dtypes are those of others; strides tell torch which convolution to compute."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.layout import Layout
from lamina.core.program import Arg, Ref
from lamina.kernels.library import CONVOLUTIONS

from ..families.conv.calls import channels_last
from ..ir.sizes import layout_of, read_size

_COMPLEX = {"f32": "c64", "f64": "c128"}


def marked_complex(op: ir.Operation, refs: Sequence[Ref], first: int = 0) -> tuple[Ref, ...]:
    """Returns tensors that an op takes or returns, with those as complex ones that its attribute `complex` names. first: the number
    of the first of them there."""
    flags = list(op.attributes["complex"]) if "complex" in op.attributes else []
    return tuple(as_complex(ref) if flags and flags[first + i] else ref for i, ref in enumerate(refs))


def as_complex(ref: Ref) -> Ref:
    """Returns a tensor whose last dimension holds the parts of complex numbers as a complex one."""
    return Ref(ref.buffer, ref.offset, _COMPLEX[ref.dtype], ref.shape[:-1], tuple(n // 2 for n in ref.strides[:-1]))


def with_call_dtypes(call: ir.Operation, refs: Sequence[Ref]) -> Sequence[Ref]:
    """Returns a call's operands with the dtypes that it takes them for."""
    if "takes" not in call.attributes:
        return refs
    return [replace(ref, dtype=dtype.value) for ref, dtype in zip(refs, call.attributes["takes"], strict=True)]


def as_recognized(call: ir.Operation, refs: Sequence[Ref]) -> Sequence[Ref]:
    """Returns a call's operands; for a channels-last convolution, its image and weight with the strides by which torch
    recognizes that. A single image, or a weight of 1x1 pixels, may have other strides as well, and torch would compute with
    channels first, and copy."""
    taken = list(call.operands)[:2]
    if call.attributes["callee"].value not in CONVOLUTIONS or not all(_is_last(v) for v in (*call.results, *taken)):
        return refs
    return [*(replace(r, strides=channels_last(layout_of(v).shape)) for r, v in zip(refs, taken, strict=False)), *refs[2:]]


def _is_last(value: ir.Value) -> bool:
    """Returns whether a tensor of four dimensions may be read as a channels-last one."""
    layout = layout_of(value)
    if len(layout.shape) != 4:
        return False
    return Layout.of(layout.shape, layout.strides) == Layout.of(layout.shape, channels_last(layout.shape))


def argument(attribute: ir.Attribute, tensors: Iterator[Ref]) -> Arg:
    """Converts one argument of a call (see graph.ExternOp), taking tensors in order."""
    match attribute:
        case ir.UnitAttr():
            return next(tensors)
        case ir.TypeAttr():
            return None
        case ir.DictAttr():
            return read_size(attribute["size"])
        case ir.ArrayAttr():
            return tuple(argument(a, tensors) for a in attribute)
        case ir.BoolAttr():
            return bool(attribute.value)
        case ir.IntegerAttr():
            return bool(attribute.value) if attribute.type == ir.IntegerType.get_signless(1) else int(attribute.value)
        case ir.FloatAttr():
            return float(attribute.value)
        case ir.StringAttr():
            return str(attribute.value)
    raise CompileError(f"an external call's argument {attribute} has no form in a program")
