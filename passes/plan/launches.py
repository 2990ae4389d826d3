"""How kernels are launched: where their operands lie in memory."""

import math

from torch_mlir import ir

from lamina.core.program import ALIGNED

from ..space.schedule import bits


def layouts(module: ir.Module) -> dict[str, list[ir.MemRefType]]:
    """The memref types that each kernel is launched with."""
    found: dict[str, list[ir.MemRefType]] = {}

    def look(op: ir.Operation) -> ir.WalkResult:
        if op.name == "plan.launch":
            name = ir.FlatSymbolRefAttr(op.attributes["kernel"]).value
            found.setdefault(name, [ir.MemRefType(v.type) for v in op.operands])
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def alignments(module: ir.Module) -> dict[str, list[int]]:
    """The bytes that each argument of a kernel starts at a multiple of, in every launch: every buffer starts at a multiple of
    ALIGNED, but for inputs that say less, and views carry their offset."""
    found: dict[str, list[int]] = {}

    def start(v: ir.Value) -> int:
        op = v.owner
        if op.name != "plan.view":
            return ir.IntegerAttr(op.attributes["align"]).value if "align" in op.attributes else ALIGNED
        offset = ir.IntegerAttr(op.attributes["offset"]).value * (bits(str(ir.MemRefType(v.type).element_type)) // 8)
        return math.gcd(start(op.operands[0]), offset)

    def look(op: ir.Operation) -> ir.WalkResult:
        if op.name == "plan.launch":
            name = ir.FlatSymbolRefAttr(op.attributes["kernel"]).value
            here = [start(v) for v in op.operands]
            found[name] = [math.gcd(a, b) for a, b in zip(found.get(name, here), here, strict=True)]
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found
