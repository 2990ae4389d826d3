"""Repairs torch-mlir's linalg where it deviates from torch's semantics, or would read outside a tensor."""

from collections.abc import Callable, Iterable

from torch_mlir import ir
from torch_mlir.dialects import arith, cf

from lamina.core.walks import reachable
from lamina.passes.ir.locations import op_names
from lamina.passes.ir.reading import nested

_EXTREMA: dict[tuple[str, int], Callable[..., ir.Value]] = {
    ("aten.maximum.default", arith.CmpFPredicate.OGT): arith.maximumf,
    ("aten.minimum.default", arith.CmpFPredicate.OLT): arith.minimumf,
}


def repair(module: ir.Module) -> None:
    """Rewrites, in place, maximum and minimum to keep NaN, and shifts to take any number of places. Adds bounds checks to reads at
    data-dependent indices, as embedding and gather have them already."""
    repairs = {"arith.select": _keep_nan, "arith.shli": _shift_out, "arith.shrsi": _shift_out, "tensor.extract": _check_bounds}
    with module.context:
        for op in nested(module.operation, *repairs):
            repairs[op.name](op)


def _keep_nan(select: ir.Operation) -> None:
    """Replaces select(a > b, a, b) of aten.maximum by maximumf: the comparison drops a NaN in `a`."""
    condition, a, b = select.operands
    compare = condition.owner
    if not isinstance(compare, ir.Operation | ir.OpView) or compare.name != "arith.cmpf":
        return
    if list(compare.operands) != [a, b]:
        return
    predicate = ir.IntegerAttr(compare.attributes["predicate"]).value
    for name in op_names(select.location):
        make = _EXTREMA.get((name, predicate))
        if make is not None:
            with select.location, ir.InsertionPoint(select):
                select.results[0].replace_all_uses_with(make(a, b))
            select.erase()
            return


def _shift_out(shift: ir.Operation) -> None:
    """Gives eager's result of a shift by a negative number of places, or by as many as there are bits: 0 to the left, copies of the
    sign to the right. Processors take the number modulo the bits."""
    x, places = shift.operands
    type_ = x.type
    with shift.location, ir.InsertionPoint(shift):
        bits = arith.constant(type_, ir.IntegerType(type_).width)
        inside = arith.cmpi(arith.CmpIPredicate.ult, places, bits)
        last = arith.constant(type_, ir.IntegerType(type_).width - 1)
        kept = arith.select(inside, places, last)
    shift.operands[1] = kept
    if shift.name == "arith.shli":
        with shift.location, ir.InsertionPoint.after(shift):
            out = arith.select(inside, shift.results[0], arith.constant(type_, 0))
        shift.results[0].replace_all_uses_except(out, out.owner.operation)


def _check_bounds(extract: ir.Operation) -> None:
    """Inserts a cf.assert for every index that comes from a tensor."""
    block = extract.block
    if any(op.operation.name == "cf.assert" for op in block.operations):
        return
    tensor, *indices = extract.operands
    for index, size in zip(indices, ir.RankedTensorType(tensor.type).shape, strict=True):
        if not _is_data(index):
            continue
        with extract.location, ir.InsertionPoint(extract):
            limit = arith.constant(ir.IndexType.get(), size)
            inside = arith.cmpi(arith.CmpIPredicate.ult, index, limit)
            cf.assert_(inside, f"index out of range for a dimension of size {size}")


def _is_data(value: ir.Value) -> bool:
    """Returns whether a value inside a generic depends on the elements of its inputs, other than those of a ramp."""

    def operands(v: ir.Value) -> Iterable[ir.Value]:
        """Returns the values that a value of the body is computed from."""
        return () if isinstance(v, ir.BlockArgument) or v.owner.name == "linalg.index" else v.owner.operands

    return any(isinstance(v, ir.BlockArgument) and not _is_of_ramp(v) for v in reachable([value], operands))


def _is_of_ramp(element: ir.BlockArgument) -> bool:
    given = element.owner.owner.operands
    return element.arg_number < len(given) and _is_ramp(given[element.arg_number])


def _is_ramp(tensor: ir.Value) -> bool:
    """Returns whether a tensor is torch-mlir's arange: a generic without inputs, under views."""
    while not isinstance(tensor, ir.BlockArgument) and tensor.owner.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        tensor = tensor.owner.operands[0]
    if isinstance(tensor, ir.BlockArgument) or tensor.owner.name != "linalg.generic":
        return False
    inputs: int = next(iter(ir.DenseI32ArrayAttr(tensor.owner.attributes["operandSegmentSizes"])))
    return inputs == 0
