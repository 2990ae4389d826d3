"""Collects the layouts and alignments of the operands that kernels are launched with."""

import math

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.program import ALIGNED
from lamina.core.sizes import divisor

from ..ir.sizes import layout_of, read_size
from ..space.schedule import bits


def layouts(module: ir.Module) -> dict[str, list[tuple[ir.Type, Layout]]]:
    """Returns the element types and layouts of the memory that each kernel is launched with."""
    found: dict[str, list[tuple[ir.Type, Layout]]] = {}

    def look(op: ir.Operation) -> ir.WalkResult:
        if op.name == "plan.launch":
            name = ir.FlatSymbolRefAttr(op.attributes["kernel"]).value
            found.setdefault(name, [(ir.MemRefType(v.type).element_type, layout_of(v)) for v in op.operands])
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def alignments(module: ir.Module) -> dict[str, list[int]]:
    """Returns the bytes that each argument of a kernel is aligned to in every launch. Buffers are aligned to ALIGNED, but for
    inputs that declare less; views add their offset."""
    found: dict[str, list[int]] = {}

    def start(v: ir.Value) -> int:
        op = v.owner
        if op.name != "plan.view":
            return ir.IntegerAttr(op.attributes["align"]).value if "align" in op.attributes else ALIGNED
        offset = divisor(read_size(op.attributes["offset"])) * (bits(str(ir.MemRefType(v.type).element_type)) // 8)
        return math.gcd(start(op.operands[0]), offset)

    def look(op: ir.Operation) -> ir.WalkResult:
        if op.name == "plan.launch":
            name = ir.FlatSymbolRefAttr(op.attributes["kernel"]).value
            here = [start(v) for v in op.operands]
            found[name] = [math.gcd(a, b) for a, b in zip(found.get(name, here), here, strict=True)]
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found
