"""The ops of the `graph` dialect that combine or order elements of a tensor: scatters, scans and sorts."""

from collections.abc import Iterator

from torch_mlir import ir

from .variadic import Op

COMBINE = "combine"
"""The attribute that names the combining op of a scan, or of a scatter that does not simply overwrite elements."""

COMBINERS = {
    "arith.addf", "arith.addi", "arith.mulf", "arith.muli", "arith.maximumf", "arith.maxsi", "arith.minimumf", "arith.minsi",
}  # fmt: skip
"""The ops with which a scatter or a scan may combine values."""

LOG_SUM = "log_sum_exp"
"""A further combiner, for scans of f32 only: log(exp(a) + exp(b)). Lowerings carry a maximum and the sum of exponentials relative
to it, so that nothing overflows."""


class ScatterTensorOp(Op):
    """Overwrites elements of a tensor, or combines values with them.

    For every position p of `values`, the element of the result at [indices[0][p], indices[1][p], ...] becomes values[p], or
    `combine` of that element and values[p]. All other elements are those of `into`. Positions are processed in no particular
    order. An out-of-bounds index is an error in the model, not in the IR.

    operands  into, values, and for each dimension of `into` a tensor of i64 indices in the shape of `values`
    combine   the name of one of COMBINERS; without it, values overwrite elements
    in_place  the memory of `into` changes: a function argument, or the result of another in-place scatter
    """

    OPERATION_NAME = "graph.scatter"
    RESULTS = 1

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Checks the types of operands and result."""
        if len(op.operands) < 2 or not all(isinstance(v.type, ir.RankedTensorType) for v in op.operands):
            yield "expects two tensors and indices"
            return
        into, values, *indices = (v.type for v in op.operands)
        if op.results[0].type != into or into.element_type != values.element_type:
            yield "expects a result like the tensor that it changes, and values of its element type"
        if COMBINE in op.attributes:
            name, element = op.attributes[COMBINE], str(into.element_type)
            if not isinstance(name, ir.StringAttr) or name.value not in COMBINERS:
                yield f"expects one of {', '.join(sorted(COMBINERS))} as combine, not {name}"
            elif element in ("i1", "f16", "bf16") or name.value.endswith("f") != element.startswith("f"):
                yield f"cannot combine elements of {element} by {name.value}"
        if len(indices) != into.rank or any(i.shape != values.shape or str(i.element_type) != "i64" for i in indices):
            yield f"expects {into.rank} indices of i64 in the shape of the values"


class ScanTensorOp(Op):
    """Computes an inclusive scan along a dimension: result[i] = combine(result[i - 1], x[i]).

    With a second operand it is a linear recurrence: result[i] = decay[i] * result[i - 1] + x[i].

    operands  x; with "arith.addf" optionally also `decay`, of the same type
    combine   the name of one of COMBINERS, or LOG_SUM
    dim       the dimension
    """

    OPERATION_NAME = "graph.scan"
    ATTRIBUTES = {"combine": ir.StringAttr, "dim": ir.IntegerAttr}
    RESULTS = 1

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Checks the types of operands and result, the name and the dimension."""
        types = [v.type for v in (*op.operands, *op.results)]
        if len(op.operands) not in (1, 2) or not isinstance(types[0], ir.RankedTensorType) or len(set(types)) != 1:
            yield "expects a tensor, factors of its type if any, and a result of its type"
            return
        name = ir.StringAttr(op.attributes[COMBINE]).value
        element = str(ir.RankedTensorType(types[0]).element_type)
        suits = element == "f32" if name == LOG_SUM else name in COMBINERS and name.endswith("f") == ("f" in element)
        if not suits:
            yield f"cannot combine elements of {element} by {name}"
        elif len(op.operands) == 2 and name != "arith.addf":
            yield f"expects factors only where it adds floats, not for {name}"
        if not 0 <= ir.IntegerAttr(op.attributes["dim"]).value < types[0].rank:
            yield f"expects a dimension of its tensor, not {op.attributes['dim']}"


class SortTensorOp(Op):
    """Sorts a tensor of integers in ascending order along a dimension.

    dim  the dimension
    """

    OPERATION_NAME = "graph.sort"
    ATTRIBUTES = {"dim": ir.IntegerAttr}
    OPERANDS = 1
    RESULTS = 1

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Checks the types of operand and result, and the dimension."""
        type_ = op.operands[0].type
        if (
            not isinstance(type_, ir.RankedTensorType)
            or not isinstance(type_.element_type, ir.IntegerType)
            or op.results[0].type != type_
        ):
            yield "expects a tensor of integers and a result of its type"
        elif not 0 <= ir.IntegerAttr(op.attributes["dim"]).value < type_.rank:
            yield f"expects a dimension of its tensor, not {op.attributes['dim']}"
