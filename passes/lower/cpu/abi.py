"""Emits the native kernel ABI: `void name(void *const *bufs, int64_t lo, int64_t hi)`.

A tile program becomes two functions. `name.body` is the loop over programs lo..hi-1 on bare pointers; as a function of its own it
can declare each pointer `llvm.noalias`, which lets LLVM keep loaded rows in registers across stores. `name` loads the pointers
out of `bufs` and calls it.
"""

from torch_mlir import ir
from torch_mlir.dialects import func, scf

from lamina.core.errors import CompileError

from ...ir.emit import Emit
from ...ir.locations import where
from ...ir.reading import name_of, ops_in
from ...ir.rewriting import replace_op
from ..buffers import argument_attributes

BODY_SUFFIX = ".body"


def outline(function: ir.Operation, ops: dict[str, list[ir.Operation]], has_checks: bool) -> ir.Value | None:
    """Turns the tile program `function` into the body of a kernel and adds the kernel's entry point.

    Returns the body's error slot (memref<1xi64>), which the entry after the last operand in `bufs` points to, if it has checks.
    Raises CompileError for arguments other than memrefs of static shape.
    """
    name = name_of(function)
    block = function.regions[0].blocks[0]
    types = [_checked(a.type, function, name) for a in block.arguments]
    attributes = [
        ir.DictAttr.get(dict.fromkeys(names, ir.UnitAttr.get()))
        for names in argument_attributes(function, list(block.arguments), ops)
    ]
    index, i64 = ir.IndexType.get(), ir.IntegerType.get_signless(64)
    if has_checks:
        types.append(ir.MemRefType.get([1], i64))
        attributes.append(ir.DictAttr.get({}))
    extra = [block.add_argument(t, function.location) for t in [*types[len(block.arguments) :], index, index]]
    _loop(function, block, ops, extra[-2], extra[-1])
    function.attributes["sym_name"] = ir.StringAttr.get(name + BODY_SUFFIX)
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*types, index, index], []))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes, ir.DictAttr.get({}), ir.DictAttr.get({})])
    function.attributes["llvm.linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
    for key in [key for key in function.attributes if key.startswith("tile.")]:
        del function.attributes[key]
    _entry(function, name, types)
    return extra[0] if has_checks else None


def _checked(type_: ir.Type, function: ir.Operation, name: str) -> ir.Type:
    if not isinstance(type_, ir.MemRefType) or not type_.has_static_shape:
        raise CompileError(
            f"tile program @{name} takes {type_}: only memrefs of static shape can be launched",
            where=where(function.location),
            remedy="give the kernel's operands static shapes",
        )
    return type_


def _loop(function: ir.Operation, block: ir.Block, ops: dict[str, list[ir.Operation]], lo: ir.Value, hi: ir.Value) -> None:
    """Moves the program into `for p = lo to hi`, and its scratch memory in front of the loop."""
    inside = ops_in(block)
    terminator = inside.pop()
    with ir.InsertionPoint(terminator), function.location:
        one = ir.Operation.create("arith.constant", [lo.type], [], {"value": ir.IntegerAttr.get(lo.type, 1)})
        loop = scf.ForOp(lo, hi, one.result)
        with ir.InsertionPoint(loop.body):
            end = scf.YieldOp([])
    for op in inside:
        op.move_before(end.operation)
    for op in ops.get("memref.alloca", ()):
        if not list(op.operands):
            op.move_before(loop.operation)
    for op in ops.get("tile.program_id", ()):
        replace_op(op, loop.induction_variable)


def _entry(body: ir.Operation, name: str, types: list[ir.Type]) -> None:
    """Emits the function `name`, which loads the pointers and calls the body."""
    pointer, i64, index = ir.Type.parse("!llvm.ptr"), ir.IntegerType.get_signless(64), ir.IndexType.get()
    with ir.InsertionPoint(body), body.location:
        entry = func.FuncOp(name, ir.FunctionType.get([pointer, i64, i64], []))
        block = entry.add_entry_block()
    e = Emit(ir.InsertionPoint(block), body.location)
    bufs, lo, hi = block.arguments
    operands = []
    for i, type_ in enumerate(types):
        place, element = ir.DenseI32ArrayAttr.get([i]), ir.TypeAttr.get(pointer)
        slot = e.op("llvm.getelementptr", [pointer], [bufs], rawConstantIndices=place, elem_type=element).result
        address = e.op("llvm.load", [pointer], [slot]).result
        n = f"array<{type_.rank} x i64>"
        fields = f", {n}, {n}" if type_.rank else ""
        struct = ir.Type.parse(f"!llvm.struct<(ptr, ptr, i64{fields})>")
        empty = e.op("llvm.mlir.poison", [struct], []).result
        # the bare-pointer convention of the call reads the aligned pointer (field 1) only
        descriptor = e.op("llvm.insertvalue", [struct], [empty, address], position=ir.DenseI64ArrayAttr.get([1])).result
        operands.append(e.op("builtin.unrealized_conversion_cast", [type_], [descriptor]).result)
    bounds = [e.op("arith.index_cast", [index], [v]).result for v in (lo, hi)]
    e.op("func.call", [], [*operands, *bounds], callee=ir.FlatSymbolRefAttr.get(name + BODY_SUFFIX))
    e.op("func.return", [], [])
