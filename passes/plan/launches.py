"""Collects the layouts and alignments of the operands that kernels are launched with."""

import math
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.program import ALIGNED
from lamina.core.sizes import divisor, is_symbolic

from ..ir.reading import attributes_of, integer, nested
from ..ir.sizes import i64, layout_attributes, layout_of, read_size
from ..space.schedule import bits


@dataclass(frozen=True)
class Argument:
    """The memory of one operand of a launch: its element type and layout."""

    element: ir.Type
    layout: Layout

    @property
    def symbolic(self) -> bool:
        """Whether its shape or strides depend on the call."""
        return is_symbolic(self.layout.shape) or is_symbolic(self.layout.strides)

    @property
    def type(self) -> ir.MemRefType:
        """The type of the function's argument."""
        if self.symbolic:
            return ir.MemRefType.get([], self.element)
        shape, strides = self.layout.shape, self.layout.strides
        # MLIR does not know the strides of a type whose inner sizes are 0.
        plain = Layout.row_major(shape).strides == strides and 0 not in shape[1:]
        return ir.MemRefType.get(list(shape), self.element, layout=None if plain else ir.StridedLayoutAttr.get(0, list(strides)))


def layouts(module: ir.Module) -> dict[str, list[Argument]]:
    """Returns the memory that each kernel is launched with."""
    arguments: dict[str, list[Argument]] = {}
    for op in nested(module.operation, "plan.launch"):
        name = ir.FlatSymbolRefAttr(op.attributes["kernel"]).value
        arguments.setdefault(name, [Argument(ir.MemRefType(v.type).element_type, layout_of(v)) for v in op.operands])
    return arguments


def alignments(module: ir.Module) -> dict[str, list[int]]:
    """Returns the bytes that each argument of a kernel is aligned to in every launch. Buffers are aligned to ALIGNED, except for
    inputs that declare less; views add their offset."""
    divisors: dict[str, list[int]] = {}

    def start(v: ir.Value) -> int:
        """Returns the bytes that a buffer's start is a multiple of."""
        op = v.owner
        if op.name != "plan.view":
            return integer(op, "align") if "align" in op.attributes else ALIGNED
        offset = divisor(read_size(op.attributes["offset"])) * (bits(str(ir.MemRefType(v.type).element_type)) // 8)
        return math.gcd(start(op.operands[0]), offset)

    for op in nested(module.operation, "plan.launch"):
        name = ir.FlatSymbolRefAttr(op.attributes["kernel"]).value
        here = [start(v) for v in op.operands]
        divisors[name] = [math.gcd(a, b) for a, b in zip(divisors.get(name, here), here, strict=True)]
    return divisors


def launched_alone(launch: ir.Operation, function: ir.Operation, aligned: list[int]) -> ir.Module:
    """Moves a kernel function to a module of its own, with a program that launches it on arguments of the same layouts.

    aligned  the alignment of each argument
    """
    with function.context, launch.location:
        module = ir.Module.create()
        numbers = dict.fromkeys(("arena_bytes", "sum_bytes", "lower_bound"), i64(0))
        with ir.InsertionPoint(module.body):
            program = ir.Operation.create("plan.program", attributes={"sym_name": ir.StringAttr.get("main"), **numbers}, regions=1)
        with ir.InsertionPoint(program.regions[0].blocks.append()):
            operands = []
            for i, (value, align) in enumerate(zip(launch.operands, aligned, strict=True)):
                attributes = {"index": i64(i), "align": i64(align), **layout_attributes(layout_of(value))}
                operands.append(ir.Operation.create("plan.input", results=[value.type], attributes=attributes).result)
            ir.Operation.create("plan.launch", operands=operands, attributes=attributes_of(launch))
            ir.Operation.create("plan.return")
        module.body.append(function)
    return module
