"""Joins atomic sums of neighbors in memory into red.add of vectors, which GPUs have from sm_90 on (PTX ISA 8.1, "red").

A warp that adds four elements of f32 from each thread, one instruction after another, has 64 sectors of 32 bytes updated; by one
instruction 16.
"""

from torch_mlir import ir
from torch_mlir.dialects.arith import AtomicRMWKind

from ...ir.emit import Emit
from ..simt.memory import ATOMIC, NEIGHBORS
from ..simt.values import vector_of
from .addresses import address

LEAST_CAPABILITY, LEAST_PTX = 90, 81


def join_neighbors(ops: list[ir.Operation], index_bits: int) -> None:
    """Joins the sums among memref.atomic_rmw ops that are marked as of neighbors and have a form of several elements: f32, and
    f16 and bf16 in pairs."""
    marked = [op for op in ops if NEIGHBORS in op.attributes and AtomicRMWKind(op.attributes["kind"].value) == ATOMIC["arith.addf"]]
    while marked:
        count = ir.IntegerAttr(marked[0].attributes[NEIGHBORS]).value
        group, marked = marked[:count], marked[count:]
        if _form(group[0].operands[0].type, count):
            _join(group, index_bits)


def _form(element: ir.Type, count: int) -> tuple[str, str, int] | None:
    """Returns the suffix of the instruction, the constraint of its registers and their number; None if there is none."""
    if isinstance(element, ir.F32Type) and count > 1:
        return f"add.v{count}.f32", "f", count
    if isinstance(element, ir.F16Type | ir.BF16Type) and count > 1:
        name = "f16x2" if isinstance(element, ir.F16Type) else "bf16x2"
        return f"add.noftz{f'.v{count // 2}' if count > 2 else ''}.{name}", "r", count // 2
    return None


def _join(group: list[ir.Operation], index_bits: int) -> None:
    """Replaces the sums of a group by one instruction, at the place of the last."""
    first, last = group[0], group[-1]
    memory, place = first.operands[1:]
    element, e = first.operands[0].type, Emit(ir.InsertionPoint(last), last.location)
    form = _form(element, len(group))
    assert form is not None
    name, constraint, count = form
    with last.location, ir.InsertionPoint(last):
        value = vector_of([op.operands[0] for op in group])
    if constraint == "r":
        words = ir.VectorType.get([count], ir.IntegerType.get_signless(32))
        value = e.op("vector.bitcast", [words], [value]).result
    registers = [e.op("vector.extract", [value.type.element_type], [value], static_position=_at(i)).result for i in range(count)]
    held = ", ".join(f"${i + 1}" for i in range(count))
    text = f"red.relaxed.gpu.global.{name} [$0], {f'{{{held}}}' if count > 1 else held};"
    e.op(
        "llvm.inline_asm", [], [address(e, memory, place, element, index_bits), *registers],
        asm_string=ir.StringAttr.get(text), constraints=ir.StringAttr.get(",".join(["l", *[constraint] * count, "~{memory}"])),
        has_side_effects=ir.UnitAttr.get(),
    )  # fmt: skip
    for op in group:
        op.erase()


def _at(i: int) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get([i])
