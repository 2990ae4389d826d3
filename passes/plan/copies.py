"""Creates copies where no view will do: ordinary groups, or calls for complex values, which kernels do not support."""

from collections.abc import Sequence

from torch_mlir import ir

from lamina.core.sizes import SizeLike
from lamina.dialects.graph import GroupOp, YieldOp

from ..ir.extern_calls import extern_call
from ..ir.generics import copied


def copy_group(source: ir.Value, before: ir.Operation) -> ir.Operation:
    """Creates a group with one linalg.generic that yields its input, in front of `before`. It takes the location of `before`,
    or, if that is the return, of the value's producer."""
    loc = _location(source, before)
    tensor = ir.RankedTensorType(source.type)
    group = ir.Operation.create(
        GroupOp.OPERATION_NAME,
        results=[tensor],
        operands=[source],
        attributes={"sym_name": ir.StringAttr.get("copy")},
        regions=1,
        loc=loc,
        ip=ir.InsertionPoint(before),
    )
    block = ir.Block.create_at_start(group.regions[0], [tensor], [loc])
    with loc, ir.InsertionPoint(block):
        ir.Operation.create(YieldOp.OPERATION_NAME, operands=[copied(block.arguments[0])])
    return group


def copy_call(source: ir.Value, before: ir.Operation, strides: Sequence[SizeLike]) -> ir.Operation:
    """Creates a call of aten.clone on `source` in front of `before`, located as in `copy_group`, with a result of these strides."""
    with _location(source, before), ir.InsertionPoint(before):
        return extern_call("aten.clone.default", [source], {}, [(source.type, strides)], "fallback")


def _location(source: ir.Value, before: ir.Operation) -> ir.Location:
    owner = source.owner
    return owner.location if before.name == "func.return" and not isinstance(owner, ir.Block) else before.location
