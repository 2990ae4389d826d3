"""Annotates a kernel's function for LLVM: aliasing and alignment of its pointers, and alignment of its shared memory."""

from torch_mlir import ir

from ..cpu.abi import WRITES, aliased
from ..cpu.memory import roots

ATOMICS = {"memref.atomic_rmw": 1, "memref.generic_atomic_rmw": 0}
ALIGNMENT = 16  # bytes: what one thread loads at once


def annotate(function: ir.Operation, ops: dict[str, list[ir.Operation]]) -> None:
    """Sets noalias for all but the arguments that `tile.alias` lists (a unit attribute: all), readonly where nothing writes,
    alignment as in `tile.align` (16 bytes without it), and workgroup memory at 16 bytes. Removes the `tile.` attributes.

    Without noalias and readonly, loads repeat after every store. A kernel that starts before its inputs are written
    (`tile.dependent`) gets no readonly: LLVM would use ld.global.nc, which requires memory to be read-only while the kernel runs.
    """
    block = function.regions[0].blocks[0]
    count = len(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs)
    arguments = list(block.arguments)
    shared = aliased(function, count)
    aligned = list(function.attributes["tile.align"]) if "tile.align" in function.attributes else [ALIGNMENT] * count
    stores = {o.operands[at] for name, at in (WRITES | ATOMICS).items() for o in ops.get(name, ())}
    written = {root for target in stores for root in roots(target)}
    unit, none = ir.UnitAttr.get(), ir.DictAttr.get({})
    attributes = []
    for i, argument in enumerate(arguments[:count]):
        if not isinstance(argument.type, ir.MemRefType):
            attributes.append(none)
            continue
        names: dict[str, ir.Attribute] = {"llvm.nonnull": unit, "llvm.align": _i64(max(aligned[i], 1))}
        if i not in shared:
            names["llvm.noalias"] = unit
        if argument not in written and "tile.dependent" not in function.attributes:
            names["llvm.readonly"] = unit
        attributes.append(ir.DictAttr.get(names))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
    if len(arguments) > count:
        at = ir.DictAttr.get({"llvm.align": _i64(ALIGNMENT)})
        function.attributes["workgroup_attrib_attrs"] = ir.ArrayAttr.get([at] * (len(arguments) - count))
    for key in [key for key in function.attributes if key.startswith(("tile.", "gpu.grid"))]:
        del function.attributes[key]


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
