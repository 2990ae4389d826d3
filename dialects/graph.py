"""The `graph` dialect: fused groups, kernels in source and external calls on tensors.

A function on tensors after `lamina-fuse` holds only `graph.group`, `graph.kernel`, `graph.extern`, view ops, constants and the
return:

    %0 = "graph.group"(%x, %w) ({
    ^bb0(%a: tensor<4x8xf32>, %b: tensor<8xf32>):
      ... linalg and tensor ops ...
      "graph.yield"(%r) : (tensor<4x8xf32>) -> ()
    }) {sym_name = "mul_relu"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %1 = "graph.extern"(%0, %w2) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {},
                                  strides = [array<i64: 8, 1>]} : ...
    %2 = "graph.kernel"(%1) {callee = "lamina.kernel.default", kwargs = {name = "scan", ...}, strides = [array<i64: 8, 1>]} : ...
"""

from collections.abc import Iterable, Iterator

from torch_mlir import ir

from lamina.core.sizes import parse

from .combining import ScanTensorOp, ScatterTensorOp, SortTensorOp
from .variadic import Op, ops_below


class YieldOp(Op):
    """Terminates a group's region; its operands are the group's results."""

    OPERATION_NAME = "graph.yield"
    RESULTS = 0


class GroupOp(Op):
    """Groups linalg and tensor ops that become one kernel.

    Block arguments are the operands, in order. The body uses no other values from outside, except constants that canonicalization
    may have hoisted.
    """

    OPERATION_NAME = "graph.group"
    ATTRIBUTES = {"sym_name": ir.StringAttr}
    REGIONS = 1

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Checks the single block, its arguments and its graph.yield."""
        blocks = list(op.regions[0].blocks)
        if len(blocks) != 1 or not len(blocks[0].operations):
            yield "expects one block of ops"
            return
        if [a.type for a in blocks[0].arguments] != [v.type for v in op.operands]:
            yield "expects a block argument of the same type for each operand"
        end = list(blocks[0].operations)[-1].operation
        if end.name != YieldOp.OPERATION_NAME or [v.type for v in end.operands] != [r.type for r in op.results]:
            yield "expects to end in a graph.yield of its results' types"


class CheckElementOp(Op):
    """Returns its operand, an i1; where that is false, the call of the program fails.

    It is used in the bodies of linalg ops, and is checked only for elements that are computed. A select on its result keeps it
    next to the value that it guards.

    message  the error's message: of an IndexError, or of a RuntimeError if it begins with "RuntimeError: "

        %ok = "graph.check"(%nonzero) {message = "RuntimeError: ZeroDivisionError"} : (i1) -> i1
        %divisor = arith.select %ok, %y, %one : i64
    """

    OPERATION_NAME = "graph.check"
    ATTRIBUTES = {"message": ir.StringAttr}
    RESULTS = 1

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Checks the types of operand and result."""
        if [str(v.type) for v in (*op.operands, *op.results)] != ["i1", "i1"]:
            yield "expects one i1, and returns one"


class ExternOp(Op):
    """Calls a routine that is not Lamina's: a library's, or eager's as a fallback.

    callee    the overload's name, e.g. "aten.addmm.default"
    reason    "library" (matrix products, convolution, attention and their gradients; seeds) or "fallback"
    args      the positional arguments in order: `unit` stands for the next tensor operand, the type `none` for None; ints, floats,
              bools, strings and nested arrays stand for themselves; torch dtypes, devices, layouts and memory formats are strings
              such as "torch.float32"
    kwargs    the keyword arguments, encoded likewise
    strides   the strides of every result in elements, as an array of dense i64 arrays
    needs     the strides that every operand must have, if the routine relies on them; `none` for an operand that may have any
    takes     the dtypes in which the routine sees its operands, if the MLIR types are ambiguous (u8, which is i8 here)
    prefers   the strides with which the routine is fastest, for the first operands
    tf32      an f32 product may round its factors to tf32
    in_place  the routine can write its results into memory that it is given, with the declared strides
    complex   for each tensor operand, then each result, whether the routine sees a complex tensor; the value here is real, with a
              last dimension of size 2. `callee` then begins with "complex."
    apart     the routine is slower with a fused bias than without, so the bias is added elsewhere if that is free

    The op is pure unless it has the attribute `graph.effect` (it draws random numbers): then it is never merged or dropped, nor
    reordered with other ops that have an effect.
    """

    OPERATION_NAME = "graph.extern"
    ATTRIBUTES = {
        "callee": ir.StringAttr, "reason": ir.StringAttr, "args": ir.ArrayAttr, "kwargs": ir.DictAttr,
        "strides": ir.ArrayAttr,
    }  # fmt: skip

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Checks that strides match the results, and that the arguments name as many tensors as there are operands."""
        yield from _stride_faults(op)
        if (told := _tensors([*op.attributes["args"], *(named.attr for named in op.attributes["kwargs"])])) != len(op.operands):
            yield f"expects as many operands as its arguments have units, {told}, but has {len(op.operands)}"


class KernelOp(Op):
    """Launches a kernel in source: one of Lamina's, or a user's.

    The kernel writes its results into memory that it is given. Its source is compiled after planning (targets/kernel_calls/).

    callee  the kind of kernel: "lamina.kernel.default" is a user's (frontend/fx/ops/kernel_op.py)
    kwargs  the arguments besides the tensors, by name, encoded as those of graph.extern
    strides, needs, takes  see graph.extern
    dtypes  the dtypes of the results, if the MLIR types are ambiguous
    """

    OPERATION_NAME = "graph.kernel"
    ATTRIBUTES = {"callee": ir.StringAttr, "kwargs": ir.DictAttr, "strides": ir.ArrayAttr}

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Checks that strides match the results."""
        yield from _stride_faults(op)


class SizeOp(Op):
    """Returns a symbolic size as an index, for ops that take sizes as operands.

    size  the text of the size (core/sizes), such as "s0~8*16"
    """

    OPERATION_NAME = "graph.size"
    ATTRIBUTES = {"size": ir.StringAttr}
    OPERANDS, RESULTS = 0, 1

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Checks the text and the result's type."""
        if (fault := _size_fault(op.attributes["size"].value)) is not None:
            yield f"expects a size: {fault}"
        if not isinstance(op.results[0].type, ir.IndexType):
            yield f"yields an index, not {op.results[0].type}"


class FunctionOp(Op):
    """A func.func whose arguments and results may have attributes of this dialect (passes/plan/plan.py).

    graph.strides  the strides in elements, one for each dimension
    graph.align    the alignment in bytes
    graph.dtype    the dtype, if the MLIR type is ambiguous
    graph.complex  the last dimension holds the real and the imaginary parts of complex numbers
    """

    OPERATION_NAME = "func.func"
    REGIONS = 1

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Checks the attributes that are present."""
        type_ = ir.FunctionType(op.attributes["function_type"].value)
        for what, types in (("arg", type_.inputs), ("res", type_.results)):
            if (key := f"{what}_attrs") in op.attributes:
                for number, (given, value) in enumerate(zip(op.attributes[key], types, strict=True)):
                    yield from (f"has {fault} on {what} {number}" for fault in _memory_faults(given, value))


ON_COMPLEX = "complex."
"""The prefix of the callee of a graph.extern that takes or returns complex tensors."""

TF32 = "tf32"
"""The attribute of an f32 graph.extern that may round its factors to tf32."""

COMPLEX = "graph.complex"
"""The attribute of an argument or result of a function whose last dimension holds real and imaginary parts."""

IN_PLACE = "in_place"
"""The attribute of a graph.extern that can write its results into memory that it is given."""

CALLS = (ExternOp.OPERATION_NAME, KernelOp.OPERATION_NAME)
"""Ops that compute outside of groups; they declare the strides of their results."""


def _size_fault(text: str) -> str | None:
    """Returns what is wrong with the text of a size, or None."""
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return None


def _stride_faults(op: ir.Operation) -> Iterator[str]:
    declared = [s for s in op.attributes["strides"] if not isinstance(s, ir.TypeAttr)]
    if not all(map(_is_sizes, declared)):
        yield "expects the strides of a result as an array of i64 or of sizes"
    elif [len(s) for s in declared] != [r.type.rank if isinstance(r.type, ir.RankedTensorType) else -1 for r in op.results]:
        yield "expects strides for every dimension of every result, which are tensors"


def _memory_faults(attributes: ir.DictAttr, type_: ir.Type) -> Iterator[str]:
    """Yields what is wrong with the attributes of an argument or result of a type."""
    if "graph.strides" in attributes and not (
        _is_sizes(strides := attributes["graph.strides"]) and isinstance(type_, ir.RankedTensorType) and len(strides) == type_.rank
    ):
        yield f"graph.strides {strides}, which are not sizes for {type_},"
    for name, kind in (("graph.align", ir.IntegerAttr), ("graph.dtype", ir.StringAttr)):
        if name in attributes and not isinstance(attributes[name], kind):
            yield f"{name} {attributes[name]}, which is not an {kind.__name__},"


def _is_sizes(attribute: ir.Attribute) -> bool:
    """Returns whether an attribute is a list of sizes that passes/ir/sizes can read: integers and texts of sizes."""
    return isinstance(attribute, ir.DenseI64ArrayAttr) or (
        isinstance(attribute, ir.ArrayAttr) and all(isinstance(n, ir.IntegerAttr) or _is_size(n) for n in attribute)
    )


def _is_size(attribute: ir.Attribute) -> bool:
    return isinstance(attribute, ir.StringAttr) and _size_fault(attribute.value) is None


def _tensors(arguments: Iterable[ir.Attribute]) -> int:
    """Counts the tensors among the arguments of a call, nested lists included."""
    waiting, count = list(arguments), 0
    while waiting:
        last = waiting.pop()
        count += isinstance(last, ir.UnitAttr)
        waiting += last if isinstance(last, ir.ArrayAttr) else ()
    return count


def captured(op: ir.Operation) -> ir.Value | None:
    """Returns a value from outside that a group uses and that is not a constant (an op without operands); None if there is none."""
    ops = ops_below(op)
    inside = {result for inner in ops for result in inner.results}
    inside.update(a for parent in (op, *ops) for region in parent.regions for block in region.blocks for a in block.arguments)
    used = (v for inner in ops for v in inner.operands if v not in inside)
    return next((v for v in used if isinstance(v, ir.BlockArgument) or len(v.owner.operation.operands)), None)


OPS: dict[str, type[Op]] = {
    op.OPERATION_NAME: op
    for op in (
        YieldOp,
        GroupOp,
        CheckElementOp,
        ExternOp,
        KernelOp,
        ScatterTensorOp,
        ScanTensorOp,
        SortTensorOp,
        SizeOp,
        FunctionOp,
    )
}
