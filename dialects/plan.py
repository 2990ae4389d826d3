"""The `plan` dialect: the host program. Every value is a buffer; steps run in order.

    "plan.program"() ({
      %x = "plan.input"() {index = 0 : i64} : () -> memref<4x8xf32>
      %t = "plan.alloc"() {offset = 0 : i64, bytes = 128 : i64} : () -> memref<4x8xf32>
      %o = "plan.output"() {index = 0 : i64} : () -> memref<4x8xf32>
      "plan.launch"(%x, %t) {kernel = @mul_relu, n_out = 1 : i64} : (...) -> ()
      "plan.call"(%t, %w, %o) {callee = "aten.mm.default", n_out = 1 : i64, ...} : (...) -> ()
      "plan.return"(%o) : (...) -> ()
    }) {sym_name = "main", arena_bytes = 128 : i64} : () -> ()

Types: memrefs with a strided layout where a buffer is not contiguous and never an offset (a view carries it); `i1`
tensors are `i8` memrefs, as torch stores bool in bytes (`dtype` on what makes one says "bool", "i8" or "u8"); a 0-d tensor is a
0-d memref.
"""

from torch_mlir import ir

from .variadic import Op


class Program(Op):
    """One compiled FX graph. Its single block ends in `plan.return`. Beside `arena_bytes` stand `sum_bytes`, what its values would
    take without reuse, and `lower_bound`, the most bytes alive at one step."""

    OPERATION_NAME = "plan.program"
    ATTRIBUTES = {"sym_name": ir.StringAttr, "arena_bytes": ir.IntegerAttr}
    OPERANDS, RESULTS, REGIONS = 0, 0, 1


class Input(Op):
    """The memory of argument `index` of the call, which starts at a multiple of `align` bytes (16 without it)."""

    OPERATION_NAME = "plan.input"
    ATTRIBUTES = {"index": ir.IntegerAttr}
    OPERANDS, RESULTS = 0, 1


class Alloc(Op):
    """`bytes` of the arena at `offset` (64-byte aligned)."""

    OPERATION_NAME = "plan.alloc"
    ATTRIBUTES = {"offset": ir.IntegerAttr, "bytes": ir.IntegerAttr}
    OPERANDS, RESULTS = 0, 1


class Output(Op):
    """Fresh memory that leaves the call as a result."""

    OPERATION_NAME = "plan.output"
    ATTRIBUTES = {"index": ir.IntegerAttr}
    OPERANDS, RESULTS = 0, 1


class Constant(Op):
    """Read-only data of the program; `value` is a dense elements attribute."""

    OPERATION_NAME = "plan.constant"
    ATTRIBUTES = {"value": ir.Attribute}
    OPERANDS, RESULTS = 0, 1


class View(Op):
    """The same memory with another shape, strides (in the result type) and start: `offset` elements past the source's start."""

    OPERATION_NAME = "plan.view"
    ATTRIBUTES = {"offset": ir.IntegerAttr}
    OPERANDS, RESULTS = 1, 1


class Launch(Op):
    """Runs a kernel over its grid. Operands: inputs, then `n_out` outputs. `label` names what it computes (kernels are shared);
    `inplace = [[i, o], ...]`: operand o is the memory of operand i."""

    OPERATION_NAME = "plan.launch"
    ATTRIBUTES = {"kernel": ir.FlatSymbolRefAttr, "n_out": ir.IntegerAttr}
    RESULTS = 0


class Call(Op):
    """An external routine (see graph.extern). The last `n_out` operands are written in place; a call with n_out = 0 returns
    memory of its own instead, freed after its last use; `tensors` says which of the routine's results are tensors, when not all."""

    OPERATION_NAME = "plan.call"
    ATTRIBUTES = {
        "callee": ir.StringAttr, "reason": ir.StringAttr, "args": ir.ArrayAttr, "kwargs": ir.DictAttr,
        "n_out": ir.IntegerAttr,
    }  # fmt: skip


class Return(Op):
    """The results of the call, in order: outputs, views of outputs, inputs or memory owned by a call."""

    OPERATION_NAME = "plan.return"
    RESULTS = 0


OPS: dict[str, type[Op]] = {op.OPERATION_NAME: op for op in (Program, Input, Alloc, Output, Constant, View, Launch, Call, Return)}
