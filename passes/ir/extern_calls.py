"""Calls in @main: the strides that they declare, and those of kernels of ours."""

from collections.abc import Sequence

from torch_mlir import ir

from .affine import row_major


def declared_strides(result: ir.Value) -> tuple[int, ...]:
    """Of a result of a graph.extern, which declares those of what is no tensor, such as None, too: that is no result."""
    declared = [s for s in result.owner.attributes["strides"] if isinstance(s, ir.DenseI64ArrayAttr)]
    return tuple(declared[ir.OpResult(result).result_number])


def kernel_call(
    callee: str, taken: list[ir.Value], made: list[ir.Type], said: dict[str, ir.Attribute], strides: Sequence[Sequence[int]] = ()
) -> ir.Operation:
    """A call of a kernel of ours, here. said: what it is launched with, beside the tensors; strides: of results, else row-major."""
    each = strides or [row_major(tuple(ir.RankedTensorType(t).shape)) for t in made]
    attributes = {
        "callee": ir.StringAttr.get(callee),
        "reason": ir.StringAttr.get("custom"),
        "args": ir.ArrayAttr.get([ir.ArrayAttr.get([ir.UnitAttr.get()] * len(taken))]),
        "kwargs": ir.DictAttr.get(said),
        "strides": ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(s)) for s in each]),
    }
    return ir.Operation.create("graph.extern", results=made, operands=taken, attributes=attributes)
