"""Creates copies where no view will do: ordinary groups, or calls for complex values, which kernels do not support."""

from collections.abc import Sequence

from torch_mlir import ir

from lamina.core.sizes import SizeLike

from ..ir.extern_calls import extern_call, group
from ..ir.generics import copied


def copy_group(source: ir.Value, before: ir.Operation) -> ir.Operation:
    """Creates a group with one linalg.generic that yields its input, in front of `before`. It takes the location of `before`,
    or, if that is the return, of the value's producer."""
    with _location(source, before), ir.InsertionPoint(before):
        return group("copy", [source], [source.type], lambda x: [copied(x)])


def copy_call(source: ir.Value, before: ir.Operation, strides: Sequence[SizeLike]) -> ir.Operation:
    """Creates a call of aten.clone on `source` in front of `before`, located as in `copy_group`, with a result of these strides."""
    with _location(source, before), ir.InsertionPoint(before):
        return extern_call("aten.clone.default", [source], {}, [(source.type, strides)], "fallback")


def _location(source: ir.Value, before: ir.Operation) -> ir.Location:
    owner = source.owner
    return owner.location if before.name == "func.return" and not isinstance(owner, ir.Block) else before.location
