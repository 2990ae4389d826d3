"""The `plan` dialect: the host program. Every value is a buffer; steps run in order.

    "plan.program"() ({
      %x = "plan.input"() {index = 0 : i64} : () -> memref<4x8xf32>
      %t = "plan.alloc"() {offset = 0 : i64, bytes = 128 : i64} : () -> memref<4x8xf32>
      %o = "plan.output"() {index = 0 : i64} : () -> memref<4x8xf32>
      "plan.launch"(%x, %t) {kernel = @mul_relu, n_out = 1 : i64} : (...) -> ()
      "plan.call"(%t, %w, %o) {callee = "aten.mm.default", n_out = 1 : i64, ...} : (...) -> ()
      "plan.kernel"(%x, %o) {callee = "lamina.kernel.default", n_out = 1 : i64, ...} : (...) -> ()
      "plan.return"(%o) : (...) -> ()
    }) {sym_name = "main", arena_bytes = 128 : i64} : () -> ()

Types are memrefs: strided where a buffer is not contiguous, never with an offset (a plan.view carries it). `i1` tensors are `i8`
memrefs, since torch stores a bool in a byte (the attribute `dtype` of the defining op says "bool", "i8" or "u8"). A 0-d tensor is a
0-d memref. Where sizes are symbolic, the attribute `layout` of the defining op is its shape and strides (passes/ir/sizes.py).
"""

from collections.abc import Iterator
from typing import Any

from torch_mlir import ir

from .variadic import Op

STEPS = ("plan.launch", "plan.call", "plan.kernel")


class ProgramOp(Op):
    """One compiled FX graph; its single block ends in `plan.return`. Besides `arena_bytes` it has `sum_bytes`, the size of its
    values without reuse, and `lower_bound`, the most bytes alive at one step.
    """

    OPERATION_NAME = "plan.program"
    ATTRIBUTES = {"sym_name": ir.StringAttr, "arena_bytes": ir.IntegerAttr}
    OPERANDS, RESULTS, REGIONS = 0, 0, 1

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Yields the launches that are apart from others of their computation, of which a call makes one."""
        apart: set[tuple[Any, ...]] = set()
        last = None
        for o in op.regions[0].blocks[0].operations:
            if (step := o.operation).name not in STEPS:
                continue
            computation = _computation(step)
            if computation != last and computation in apart:
                yield f"expects the launch of {step.attributes['kernel']} right after those of its computation for other sizes"
            last = computation
            if computation:
                apart.add(computation)


def _computation(step: ir.Operation) -> tuple[Any, ...]:
    """Returns what tells the computation of a launch under conditions from others; () for other steps."""
    if "when" not in step.attributes:
        return ()
    operands, written = list(step.operands), ir.IntegerAttr(step.attributes["n_out"]).value
    return step.attributes.get("label"), *operands[len(operands) - written :]


class InputOp(Op):
    """The memory of argument `index` of the call, aligned to `align` bytes (default 16). `complex`: the caller's tensor is complex,
    and the last dimension here holds its parts."""

    OPERATION_NAME = "plan.input"
    ATTRIBUTES = {"index": ir.IntegerAttr}
    OPERANDS, RESULTS = 0, 1


class AllocOp(Op):
    """`bytes` of the arena at `offset` (64-byte aligned). Symbolic `bytes` are a text; `offset` is then that at typical sizes."""

    OPERATION_NAME = "plan.alloc"
    ATTRIBUTES = {"offset": ir.IntegerAttr, "bytes": ir.Attribute}
    OPERANDS, RESULTS = 0, 1


class OutputOp(Op):
    """Newly allocated memory for result `index` of the call."""

    OPERATION_NAME = "plan.output"
    ATTRIBUTES = {"index": ir.IntegerAttr}
    OPERANDS, RESULTS = 0, 1


class ConstantOp(Op):
    """Read-only data of the program; `value` is a dense elements attribute."""

    OPERATION_NAME = "plan.constant"
    ATTRIBUTES = {"value": ir.Attribute}
    OPERANDS, RESULTS = 0, 1


class ViewOp(Op):
    """Returns a view of memory with another shape and strides, those of the result type, `offset` elements past the source's
    start."""

    OPERATION_NAME = "plan.view"
    ATTRIBUTES = {"offset": ir.Attribute}
    OPERANDS, RESULTS = 1, 1


class LaunchOp(Op):
    """Runs a kernel over its grid. Operands: inputs, then `n_out` outputs. `label` names the computation (kernels are shared);
    `inplace = [[i, o], ...]`: operand o aliases operand i. `when = [[size, most], ...]`: it runs where size <= most for each, and
    else the launch after it, which computes the same; the last of these has no conditions, `when = []`.
    """

    OPERATION_NAME = "plan.launch"
    ATTRIBUTES = {"kernel": ir.FlatSymbolRefAttr, "n_out": ir.IntegerAttr}
    RESULTS = 0


class CallOp(Op):
    """Calls an external routine (see graph.extern). The last `n_out` operands are written in place. A call with n_out = 0 returns
    memory of its own instead, freed after its last use; `tensors` then says which results are tensors, when not all are.
    """

    OPERATION_NAME = "plan.call"
    ATTRIBUTES = {
        "callee": ir.StringAttr, "reason": ir.StringAttr, "args": ir.ArrayAttr, "kwargs": ir.DictAttr,
        "n_out": ir.IntegerAttr,
    }  # fmt: skip


class KernelCallOp(Op):
    """Launches a kernel that is written in source (see graph.kernel). Operands: inputs, then `n_out` outputs."""

    OPERATION_NAME = "plan.kernel"
    ATTRIBUTES = {"callee": ir.StringAttr, "kwargs": ir.DictAttr, "n_out": ir.IntegerAttr}
    RESULTS = 0


class ReturnOp(Op):
    """Returns the call's results, in order: outputs, views of outputs, inputs, or memory owned by a plan.call. `complex` tells
    which of them are complex for the caller."""

    OPERATION_NAME = "plan.return"
    RESULTS = 0


OPS: dict[str, type[Op]] = {
    op.OPERATION_NAME: op
    for op in (ProgramOp, InputOp, AllocOp, OutputOp, ConstantOp, ViewOp, LaunchOp, CallOp, KernelCallOp, ReturnOp)
}
