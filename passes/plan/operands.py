"""Tensors of calls as the routines take and return them: complex ones are real in the IR, with a last dimension that holds the
parts of each number, and some dtypes are those of others."""

from collections.abc import Sequence
from dataclasses import replace

from torch_mlir import ir

from lamina.core.program import Ref

_COMPLEX = {"f32": "c64", "f64": "c128"}


def told_complex(op: ir.Operation, refs: Sequence[Ref], first: int = 0) -> tuple[Ref, ...]:
    """Returns tensors that an op takes or returns, with those as complex ones that its attribute `complex` names. first: the number
    of the first of them there."""
    flags = list(op.attributes["complex"]) if "complex" in op.attributes else []
    return tuple(as_complex(ref) if flags and flags[first + i] else ref for i, ref in enumerate(refs))


def as_complex(ref: Ref) -> Ref:
    """Returns a tensor whose last dimension holds the parts of complex numbers as a complex one."""
    return Ref(ref.buffer, ref.offset, _COMPLEX[ref.dtype], ref.shape[:-1], tuple(n // 2 for n in ref.strides[:-1]))


def as_taken(call: ir.Operation, refs: Sequence[Ref]) -> Sequence[Ref]:
    """Returns a call's operands with the dtypes that it takes them for."""
    if "takes" not in call.attributes:
        return refs
    return [replace(ref, dtype=dtype.value) for ref, dtype in zip(refs, call.attributes["takes"], strict=True)]
