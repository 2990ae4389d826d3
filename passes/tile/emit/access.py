"""Emits loads and stores by the rank of a value and its memory layout: scalars, blocks that are contiguous (vector.transfer_read),
in runs of a flattened axis (space/flatten.py; tile.read_runs), or read lane by lane (tile.gather), and tiles (see tiles.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from lamina.core.sizes import is_symbolic, typical
from lamina.dialects.combining import COMBINE

from ...ir.affine import Affine, Axis
from ...ir.expressions import Load, Scatter
from ...ir.sizes import i64
from ...space.schedule import Shift
from . import bounds, interleaved, tiles
from .views import bool_array

if TYPE_CHECKING:
    from .blocks import Blocks

LINE = 64  # bytes of a cache line
Runs = dict[int, int]  # length of a run -> elements that the index jumps by at its end


@dataclass(frozen=True)
class ShiftedBlocks:
    """Blocks along an axis whose rows start in the middle of an access.

    shift        where rows start, and the width of accesses
    shift_lanes  the lane at which the row starts
    count        its elements
    """

    shift: Shift
    shift_lanes: ir.Value
    count: ir.Value


def load(b: "Blocks", e: Load) -> ir.Value:
    """Loads an element, or a block of them, in the type that it is computed in."""
    memory, dtype = b.memory[e.tensor]
    if len(b.sides) > 1:
        return b.from_memory(tiles.read(b, e, tiles.sides_of(b, e)), dtype)
    if b.is_block(e):
        return b.from_memory(_load_block(b, e, memory), dtype)
    index = b.index(e.offset)
    bounds.check(b, e, False)
    if not e.guard:
        return b.from_memory(memref.load(memory, [index]), dtype)
    inside = b.condition(e.guard, False)
    out = b.from_memory(memref.load(memory, [arith.select(inside, index, b.number(0))]), dtype)
    return arith.select(inside, out, b.constant(0, out.type))


def _load_block(b: "Blocks", e: Load, flat: ir.Value) -> ir.Value:
    """Loads a block of rank 1 as memory holds it."""
    index = b.merged.index(e.offset)
    if e in b.transposed:
        tile, row = b.transposed[e]
        stored = ir.MemRefType(flat.type).element_type
        type_, minor = ir.VectorType.get([b.lanes], stored), ir.AffineMap.get(2, 0, [ir.AffineDimExpr.get(1)])
        pad = b.constant(0, stored)
        value = vector.transfer_read(type_, tile, [row, b.number(0)], minor, pad, in_bounds=bool_array([True]))
        outer = bounds.undecided_bounds(b, e.guard)
        return arith.select(b.condition(outer, True), value, b.splat(0, stored)) if outer else value
    mask = b.stack[-1].mask
    bounds.check(b, e, True)
    if guard := bounds.undecided_bounds(b, e.guard):
        inside = b.condition(guard, True)
        mask = inside if mask is None else _intersection(b, mask, inside)
    if e in b.ahead and is_contiguous(b, index):
        _prefetch(b, flat, b.index(e.offset), b.ahead[e])
    return read(b, flat, index, mask)


def _intersection(b: "Blocks", mask: ir.Value, other: ir.Value) -> ir.Value:
    """Returns the lanes of two masks: one mask, where each is of the first lanes."""
    counts = [v.owner.operands[0] for v in (mask, other) if v.owner.name == "vector.create_mask"]
    return bounds.guard_before(b, arith.minsi(*counts)) if len(counts) == 2 else arith.andi(mask, other)


def _prefetch(b: "Blocks", flat: ir.Value, first: ir.Value, distance: int) -> None:
    """Prefetches the cache lines `distance` elements after a block; at the end of memory, the last line again."""
    type_ = ir.MemRefType(flat.type)
    line = LINE * 8 // type_.element_type.width
    for i in range(0, b.lanes, line):
        address = arith.minui(arith.addi(first, b.number(distance + i)), b.number(b.sizes.spans[flat] - 1))
        memref.prefetch(flat, [address], False, 2, True)


def store(b: "Blocks", value: ir.Value, memory: ir.Value, index: Affine) -> None:
    """Stores a value, in the type that memory holds, at `index`."""
    if len(b.sides) > 1:
        tiles.write(b, value, memory, index)
        return
    index = b.merged.index(index)
    if not isinstance(value.type, ir.VectorType):
        memref.store(value, memory, [b.index(index)])
    elif bypasses_caches(b, memory, index):
        vector.store(value, memory, [b.index(index)], nontemporal=True, alignment=LINE)
    else:
        write(b, value, memory, index)


def store_pair(b: "Blocks", values: Sequence[ir.Value], memory: ir.Value, index: Affine) -> None:
    """Stores blocks of two values side by side, in the type that memory holds. index: the index of neighbors, in pairs."""
    pairs = b.merged.index(index)
    order = [i + part for i in range(b.lanes) for part in (0, b.lanes)]
    both = vector.shuffle(*values, order)
    where, mask = b.index(pairs * 2), interleaved.of_pairs(b, b.stack[-1].mask)
    if mask is None and bypasses_caches(b, memory, pairs, 2):
        vector.store(both, memory, [where], nontemporal=True, alignment=LINE)
        return
    vector.transfer_write(None, both, memory, [where], ir.AffineMap.get_identity(1), mask=mask, in_bounds=bool_array([True]))


def scatter(b: "Blocks", value: ir.Value, memory: ir.Value, e: Scatter) -> None:
    """Stores a value where its index is within bounds; lanes that are not neighbors one by one (tile.scatter)."""
    if e.combine:
        _combine(b, value, memory, e)
        return
    wide = isinstance(value.type, ir.VectorType)
    bounds.check(b, e, wide)
    if not wide:
        index = b.index(e.offset)
        if guard := bounds.undecided_bounds(b, e.guard):
            b.branch(b.condition(guard, False), lambda: memref.store(value, memory, [index]), lambda: None)
        else:
            memref.store(value, memory, [index])
        return
    mask = b.stack[-1].mask
    if guard := bounds.undecided_bounds(b, e.guard):
        inside = b.condition(guard, True)
        mask = inside if mask is None else _intersection(b, mask, inside)
    index = b.merged.index(e.offset)
    if is_contiguous(b, index):
        _write_block(value, memory, _start(b, memory, index), mask)
        return
    ir.Operation.create("tile.scatter", operands=[value, memory, b.lane_index(index), _mask(b, mask)])


def _combine(b: "Blocks", value: ir.Value, memory: ir.Value, e: Scatter) -> None:
    """Combines a value with what memory holds, where its index is within bounds: a block lane by lane, a scalar as the only one."""
    wide = isinstance(value.type, ir.VectorType)
    index = b.merged.index(e.offset)
    varying_bounds = [bound for bound in e.guard if wide and b.varies(bound.index)]
    bounds.check(b, e, bool(varying_bounds))

    def combine() -> None:
        """Emits the tile.scatter of the lanes inside."""
        mask = b.stack[-1].mask if wide else b.mask_before(b.number(1))
        if varying_bounds:
            inside = b.condition(e.guard, True)
            mask = inside if mask is None else arith.andi(mask, inside)
        where = b.lane_index(index) if wide else b.widen(b.index(index))
        operands = [b.widen(value), memory, where, _mask(b, mask)]
        ir.Operation.create("tile.scatter", operands=operands, attributes={COMBINE: ir.StringAttr.get(e.combine)})

    if not e.guard or varying_bounds:
        combine()
        return
    mask = b.stack[-1].mask

    def masked() -> None:
        """Combines under the mask around the branch."""
        b.stack[-1].mask = mask
        combine()

    b.branch(b.condition(e.guard, False), masked, lambda: None)


def bypasses_caches(b: "Blocks", flat: ir.Value, index: Affine, elements: int = 1) -> bool:
    """Returns whether a store bypasses the caches: the result is too large to be found there again, and every block is whole
    cache lines (results start on a line), so that no line has to be read before it is written, unless it was read because it is
    overwritten. elements: that an index counts as one."""
    if flat in b.cached:
        return False
    type_ = ir.MemRefType(flat.type)
    item = (type_.element_type.width + 7) // 8 * elements
    steps = [index.constant, b.lanes, *(c for _, c in index.terms)]
    vector_step = index.coefficient(b.vector)
    steps = [c for c in steps if c != vector_step or vector_step != 1]
    whole = all(c * item % LINE == 0 for c in steps) and vector_step == 1
    return whole and b.stack[-1].mask is None and 0 < b.stream_bytes <= typical(b.sizes.spans[flat]) * item // elements


def read(b: "Blocks", flat: ir.Value, index: Affine, mask: ir.Value | None) -> ir.Value:
    """Loads the block of `flat`, a memref of rank 1, whose lanes are at `index` over the merged axes. Where `mask` is false,
    contiguous and gathered lanes are 0."""
    stored = ir.MemRefType(flat.type).element_type
    type_ = ir.VectorType.get([b.lanes], stored)
    if is_contiguous(b, index):
        return vector.transfer_read(
            type_, flat, [_start(b, flat, index)], ir.AffineMap.get_identity(1), b.constant(0, stored), mask=mask,
            in_bounds=bool_array([True]),
        )  # fmt: skip
    if (part := interleaved.read(b, flat, index, mask)) is not None:
        return part
    if runs := _jumps_at(b, index):
        attributes = {"along": i64(index.coefficient(b.vector)), **_run_attributes(runs)}
        operands = [flat, *_run_operands(b, index, mask)]
        return ir.Operation.create("tile.read_runs", results=[type_], operands=operands, attributes=attributes).results[0]
    operands = [flat, b.lane_index(index), _mask(b, mask), b.splat(0, stored)]
    return ir.Operation.create("tile.gather", results=[type_], operands=operands).results[0]


def write(b: "Blocks", value: ir.Value, flat: ir.Value, index: Affine) -> None:
    """Stores a block to `flat` at `index` over the merged axes, under the mask of the innermost scope: lanes that are neither
    contiguous nor in runs one by one."""
    mask = b.stack[-1].mask
    if runs := _jumps_at(b, index):
        ir.Operation.create(
            "tile.write_runs", operands=[value, flat, *_run_operands(b, index, mask)], attributes=_run_attributes(runs)
        )
        return
    if b.vector is not None and not is_contiguous(b, index):
        ir.Operation.create("tile.scatter", operands=[value, flat, b.lane_index(index), _mask(b, mask)])
        return
    _write_block(value, flat, _start(b, flat, index), mask)


def _write_block(value: ir.Value, flat: ir.Value, start: ir.Value, mask: ir.Value | None) -> None:
    """Stores a block to neighbors in memory from `start` on, under a mask."""
    vector.transfer_write(None, value, flat, [start], ir.AffineMap.get_identity(1), mask=mask, in_bounds=bool_array([True]))


def save_block(b: "Blocks", value: ir.Value, flat: ir.Value, index: Affine) -> None:
    """Stores a block in scratch memory: where the vector axis is not part of `index`, at the lanes from there on."""
    if index.coefficient(b.vector):
        write(b, value, flat, index)
    else:
        _write_block(value, flat, b.index(index), b.stack[-1].mask)


def saved_block(b: "Blocks", flat: ir.Value, index: Affine) -> ir.Value:
    """Loads a block that `save_block` has stored."""
    mask = b.stack[-1].mask
    if index.coefficient(b.vector):
        return read(b, flat, index, mask)
    stored = ir.MemRefType(flat.type).element_type
    type_, pad = ir.VectorType.get([b.lanes], stored), b.constant(0, stored)
    identity = ir.AffineMap.get_identity(1)
    return vector.transfer_read(type_, flat, [b.index(index)], identity, pad, mask=mask, in_bounds=bool_array([True]))


def is_contiguous(b: "Blocks", index: Affine) -> bool:
    """Returns whether the lanes of a block at `index` over the merged axes are neighbors in memory."""
    return index.coefficient(b.vector) == 1 and all(isinstance(t, Axis) or not b.is_block(t) for t, _ in index.terms)


def _start(b: "Blocks", flat: ir.Value, index: Affine) -> ir.Value:
    """Returns the index of the first lane's element. In rows that start in the middle of an access, blocks start where accesses do;
    the division and multiplication show this to Divisors."""
    first, window = b.index(index), b.window
    if window is None or b.vector is None:
        return first
    for step in (window.shift.width, window.shift.step(ir.MemRefType(flat.type).element_type.width)):
        if step > 1 and window.shift.meets(index, b.vector, step):
            return arith.muli(arith.divui(first, b.number(step)), b.number(step))
    return first


def _jumps_at(b: "Blocks", index: Affine) -> Runs | None:
    """Returns the jumps of an index over the lanes of a block; None if it has none, or terms of another kind that vary by
    lane, or if the target takes lanes one by one."""
    if not b.runs or b.vector is None or index.coefficient(b.vector) not in (0, 1):
        return None
    terms = [(t, c) for t, c in index.terms if not isinstance(t, Axis) and b.is_block(t)]
    if not terms or not all(t in b.merged.quotients for t, _ in terms):
        return None
    runs = {b.merged.quotients[t]: c for t, c in terms}
    return None if is_symbolic((*runs, *runs.values())) else runs


def _run_operands(b: "Blocks", index: Affine, mask: ir.Value | None) -> list[ir.Value]:
    assert b.vector is not None
    return [b.index(index), b.bound[b.vector][1], _mask(b, mask)]


def _mask(b: "Blocks", mask: ir.Value | None) -> ir.Value:
    return b.true(True) if mask is None else mask


def _run_attributes(runs: Runs) -> dict[str, ir.Attribute]:
    lengths, jumps = ([i64(n) for n in numbers] for numbers in (runs, runs.values()))
    return {"lengths": ir.ArrayAttr.get(lengths), "jumps": ir.ArrayAttr.get(jumps)}
