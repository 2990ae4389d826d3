"""The `graph` dialect: fused groups, source kernels and external calls on tensors.

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
from .variadic import Op


class YieldOp(Op):
    """Terminates a group's region; its operands are the group's results."""

    OPERATION_NAME = "graph.yield"
    RESULTS = 0


class GroupOp(Op):
    """linalg and tensor ops that become one kernel. Block arguments are the operands, in order; the body uses nothing else from
    outside, except constants that canonicalization may have hoisted.
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
    """Returns a truth value; where it is false, the call fails. Stands in the bodies of linalg ops, and is checked for the elements
    that are computed: what it guards is selected by its result.

    message  of the error: an IndexError, or a RuntimeError where it begins with "RuntimeError: "

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
    """A call of a routine that is not Lamina's: a library's, or a fallback to eager's.

    callee  the overload's name, e.g. "aten.addmm.default"
    reason  "library" (mm, addmm, bmm, baddbmm, convolution, SDPA and their backwards; seeds) or "fallback"
    args    the positional arguments in order: `unit` stands for the next tensor operand, the `none` type for None; ints,
            floats, bools, strings and nested arrays are themselves; torch dtypes, devices, layouts and memory formats are
            strings such as "torch.float32"
    kwargs  the same, by name
    strides of every result in elements, an array of dense i64 arrays
    needs   strides that every operand must have, where the routine relies on them; `none` for one that may have any
    takes   the dtypes that the routine sees in its operands, where types do not tell them (u8 from i8)
    prefers strides that the first operands had best have
    tf32    an f32 product may round its factors to tf32
    in_place  the routine can write into given memory, in the strides that are declared
    complex for each tensor that it takes and then each that it returns, whether that is complex for the routine: here it is real,
            with a last dimension of two. `callee` then begins with "complex."
    apart   the routine is slower with a fused bias than without: where the addition is free elsewhere, it is done there

    Pure unless it carries `graph.effect` (random numbers): then it is never merged or dropped, nor reordered with others like it.
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
    """A launch of a kernel that is written in source: one of Lamina's or a user's.

    It writes its results into memory that it is given. Its source is compiled after planning (targets/kernel_calls/).

    callee  names the kind of kernel: "lamina.kernel.default" is a user's (frontend/fx/ops/kernel_op.py)
    kwargs  the arguments besides the tensors, by name, in the form of graph.extern's
    strides, needs, takes, dtypes  as of graph.extern
    """

    OPERATION_NAME = "graph.kernel"
    ATTRIBUTES = {"callee": ir.StringAttr, "kwargs": ir.DictAttr, "strides": ir.ArrayAttr}

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Checks that strides match the results."""
        yield from _stride_faults(op)


class SizeOp(Op):
    """Yields a size that each call decides, as an index, where an op takes one as an operand.

    size  its text (core/sizes): "s0~8*16"
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
    """A func.func whose arguments and results may carry attributes of this dialect: see passes/plan/plan.py.

    graph.strides  in elements, one for each dimension
    graph.align    bytes
    graph.dtype    where the type does not tell it
    graph.complex  the last dimension holds the parts of complex numbers
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
"""Begins the callee of a graph.extern that takes or returns complex tensors, which other callees cannot be mistaken for."""

TF32 = "tf32"
"""The attribute of an f32 graph.extern that may round its factors to tf32."""

COMPLEX = "graph.complex"
"""The attribute of an argument or result of a function whose last dimension holds the parts of complex numbers."""

IN_PLACE = "in_place"
"""The attribute of a graph.extern that can write into given memory."""

CALLS = (ExternOp.OPERATION_NAME, KernelOp.OPERATION_NAME)
"""Ops that compute outside of groups, and whose results have declared strides."""


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


def _memory_faults(given: ir.DictAttr, type_: ir.Type) -> Iterator[str]:
    """Yields what is wrong with the attributes of an argument or result of a type."""
    if "graph.strides" in given and not (
        _is_sizes(strides := given["graph.strides"]) and isinstance(type_, ir.RankedTensorType) and len(strides) == type_.rank
    ):
        yield f"graph.strides {strides}, which are not sizes for {type_},"
    for name, kind in (("graph.align", ir.IntegerAttr), ("graph.dtype", ir.StringAttr)):
        if name in given and not isinstance(given[name], kind):
            yield f"{name} {given[name]}, which is not an {kind.__name__},"


def _is_sizes(attribute: ir.Attribute) -> bool:
    """Returns whether an attribute is what passes/ir/sizes reads: whole numbers, or texts of sizes among them."""
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
    """Returns a value that a group uses from outside and that is not a constant (an op without operands); None without one."""
    own: set[ir.Value] = set()
    used: list[ir.Value] = []
    waiting = [op]
    while waiting:
        for region in waiting.pop().regions:
            for block in region.blocks:
                own.update(block.arguments)
                for inner in block.operations:
                    own.update(inner.operation.results)
                    used += inner.operation.operands
                    waiting.append(inner.operation)
    return next((v for v in used if v not in own and (isinstance(v, ir.BlockArgument) or len(v.owner.operation.operands))), None)


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
