"""Emits loads and stores of a block by its memory layout: contiguous (vector.transfer_read), in runs of a flattened axis
(space/flatten.py; tile.read_runs), or lane by lane (tile.gather)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from lamina.core.errors import CompileError
from lamina.core.size import is_symbolic

from ...ir.affine import Affine, Axis
from ...space.schedule import Shift

if TYPE_CHECKING:
    from .elements import Blocks

Runs = dict[int, int]  # length of a run -> elements that the index jumps by at its end


@dataclass(frozen=True)
class ShiftedBlocks:
    """Blocks along an axis whose rows start in the middle of an access.

    shift  where rows start, and the width of accesses
    by     the lane at which the row starts
    """

    shift: Shift
    by: ir.Value


def read(b: "Blocks", flat: ir.Value, at: Affine, mask: ir.Value | None) -> ir.Value:
    """Loads the block of `flat`, a memref of rank 1, whose lanes are at the index `at` over merged axes. Where `mask` is false,
    contiguous and gathered lanes are 0."""
    stored = ir.MemRefType(flat.type).element_type
    type_ = ir.VectorType.get([b.lanes], stored)
    if contiguous(b, at):
        return vector.transfer_read(
            type_, flat, [_start(b, flat, at)], ir.AffineMap.get_identity(1), b.constant(0, stored), mask=mask,
            in_bounds=ir.ArrayAttr.get([ir.BoolAttr.get(True)]),
        )  # fmt: skip
    if runs := _runs(b, at):
        attributes = {"along": _number(at.coefficient(b.vector)), **_attributes(runs)}
        operands = [flat, *_places(b, at, mask)]
        return ir.Operation.create("tile.read_runs", results=[type_], operands=operands, attributes=attributes).results[0]
    operands = [flat, b.lane_index(at), _mask(b, mask), b.splat(0, stored)]
    return ir.Operation.create("tile.gather", results=[type_], operands=operands).results[0]


def write(b: "Blocks", value: ir.Value, flat: ir.Value, at: Affine) -> None:
    """Stores a block to `flat` at the index `at` over merged axes, under the mask of the innermost scope. Raises CompileError
    where its lanes are neither contiguous nor in runs."""
    mask = b.stack[-1].mask
    if runs := _runs(b, at):
        ir.Operation.create("tile.write_runs", operands=[value, flat, *_places(b, at, mask)], attributes=_attributes(runs))
        return
    if b.vector is not None and not contiguous(b, at):
        raise CompileError(f"lanes of a result would be {at.coefficient(b.vector)} elements apart", remedy="report this kernel")
    ir.Operation.create(
        "vector.transfer_write",
        operands=[value, flat, _start(b, flat, at)] + ([mask] if mask is not None else []),
        attributes={
            "permutation_map": ir.AffineMapAttr.get(ir.AffineMap.get_identity(1)),
            "in_bounds": ir.ArrayAttr.get([ir.BoolAttr.get(True)]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, 1, int(mask is not None)]),
        },
    )


def contiguous(b: "Blocks", at: Affine) -> bool:
    """Returns whether the lanes of a block at the index `at` over merged axes are neighbors in memory."""
    return at.coefficient(b.vector) == 1 and all(isinstance(t, Axis) or not b.is_block(t) for t, _ in at.terms)


def _start(b: "Blocks", flat: ir.Value, at: Affine) -> ir.Value:
    """Returns the index of the first lane's element. Of rows that start amid an access, blocks start where accesses do; the
    division and multiplication say so, which nothing else would tell (Divisors)."""
    first, window = b.index(at), b.window
    if window is None or b.vector is None:
        return first
    for step in (window.shift.width, window.shift.step(ir.MemRefType(flat.type).element_type.width)):
        if step > 1 and window.shift.meets(at, b.vector, step):
            return arith.muli(arith.divui(first, b.number(step)), b.number(step))
    return first


def _runs(b: "Blocks", at: Affine) -> Runs | None:
    """Returns the jumps of an index over the lanes of a block; None where it has none, or terms of another kind that vary by
    lane."""
    if b.vector is None or at.coefficient(b.vector) not in (0, 1):
        return None
    terms = [(t, c) for t, c in at.terms if not isinstance(t, Axis) and b.is_block(t)]
    if not terms or not all(t in b.merged.quotients for t, _ in terms) or is_symbolic(tuple(c for _, c in terms)):
        return None
    return {b.merged.quotients[t]: c for t, c in terms}


def _places(b: "Blocks", at: Affine, mask: ir.Value | None) -> list[ir.Value]:
    assert b.vector is not None
    return [b.index(at), b.bound[b.vector][1], _mask(b, mask)]


def _mask(b: "Blocks", mask: ir.Value | None) -> ir.Value:
    return b.splat(1, ir.IntegerType.get_signless(1)) if mask is None else mask


def _attributes(runs: Runs) -> dict[str, ir.Attribute]:
    lengths, jumps = ([_number(n) for n in numbers] for numbers in (runs, runs.values()))
    return {"lengths": ir.ArrayAttr.get(lengths), "jumps": ir.ArrayAttr.get(jumps)}


def _number(n: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), n)
