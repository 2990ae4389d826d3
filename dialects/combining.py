"""The ops of the `graph` dialect that combine or order elements of a tensor: scatters, scans and sorts."""

from collections.abc import Iterator

from torch_mlir import ir

from .variadic import Op

COMBINE = "combine"
"""The attribute that names the op of a scan, or of a scatter that combines its values with the elements at their indices."""

COMBINERS = {
    "arith.addf", "arith.addi", "arith.mulf", "arith.muli", "arith.maximumf", "arith.maxsi", "arith.minimumf", "arith.minsi",
}  # fmt: skip
"""Ops by which a scatter or a scan may combine."""

LOG_SUM = "log_sum_exp"
"""What a scan of f32 may combine by, too: log(exp(a) + exp(b)). It keeps maxima, and sums of exponentials relative to them."""


class ScatterTensorOp(Op):
    """Overwrites elements of a tensor, or combines values with them: result[indices[0][p], indices[1][p], ...] = values[p], or
    `combine` of the element and values[p], for every position p of `values`.

    The order is undefined. All other elements are those of `into`. An index outside of it is the user's error.

    operands  into, values, and for each dimension of `into` a tensor of i64 in the shape of `values`
    combine   one of COMBINERS, by name; values overwrite elements without it
    in_place  `into` is an argument, whose memory changes, or the result of another such op
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

    operands  x, and factors in its shape, which floats that are added may have
    combine   one of COMBINERS, by name, or LOG_SUM
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
        if element != "f32" if name == LOG_SUM else name not in COMBINERS or name.endswith("f") != ("f" in element):
            yield f"cannot combine elements of {element} by {name}"
        elif len(op.operands) == 2 and name != "arith.addf":
            yield f"expects factors only where it adds floats, not for {name}"
        if not 0 <= ir.IntegerAttr(op.attributes["dim"]).value < types[0].rank:
            yield f"expects a dimension of its tensor, not {op.attributes['dim']}"


class SortTensorOp(Op):
    """Puts the elements of a tensor, which are integers, in ascending order along a dimension.

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
