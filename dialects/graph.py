"""The `graph` dialect: what upstream lacks at tensor level.

A function on tensors after `lamina-fuse` holds only `graph.group`, `graph.extern`, view ops, constants and the return:

    %0 = "graph.group"(%x, %w) ({
    ^bb0(%a: tensor<4x8xf32>, %b: tensor<8xf32>):
      ... linalg and tensor ops ...
      "graph.yield"(%r) : (tensor<4x8xf32>) -> ()
    }) {sym_name = "mul_relu"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %1 = "graph.extern"(%0, %w2) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {},
                                  strides = [array<i64: 8, 1>]} : ...
"""

from torch_mlir import ir

from .variadic import Op


class Yield(Op):
    """Ends the region of a group; its operands are the group's results."""

    OPERATION_NAME = "graph.yield"
    RESULTS = 0


class Group(Op):
    """linalg and tensor ops that become one kernel. Block arguments are the operands, in order; nothing else from outside
    is used but what canonicalisation may have hoisted (constants)."""

    OPERATION_NAME = "graph.group"
    ATTRIBUTES = {"sym_name": ir.StringAttr}
    REGIONS = 1
    PURE = True


class Extern(Op):
    """A call of a routine that is not ours.

    callee  the overload's name, e.g. "aten.addmm.default"
    reason  "library" (mm, addmm, bmm, baddbmm, convolution, SDPA and their backwards; seeds), "custom" (a user's kernel or
            attention of ours, which write into memory that they are given; see frontend/custom/op.py, targets/attention.py) or
            "fallback"
    args    the positional arguments in order: `unit` stands for the next tensor operand, the `none` type for None; ints,
            floats, bools, strings and nested arrays are themselves; torch dtypes, devices, layouts and memory formats are
            strings such as "torch.float32"
    kwargs  the same, by name
    strides of every result in elements, an array of dense i64 arrays
    needs   strides that every operand must have, where the routine counts on them
    tf32    a product of f32 may round its factors to tf32

    Pure unless it carries `graph.effect` (random numbers): then it is never merged, dropped or reordered among its kind.
    """

    OPERATION_NAME = "graph.extern"
    ATTRIBUTES = {
        "callee": ir.StringAttr, "reason": ir.StringAttr, "args": ir.ArrayAttr, "kwargs": ir.DictAttr,
        "strides": ir.ArrayAttr,
    }  # fmt: skip
    PURE = True


OPS: dict[str, type[Op]] = {op.OPERATION_NAME: op for op in (Yield, Group, Extern)}
