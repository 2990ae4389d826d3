"""Lowers tile.gather, and loads whose lanes lie a fixed number of elements apart."""

import numpy as np
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.layout import Layout

from ...ir.emit import Emit, Num
from ...ir.locations import where
from ...ir.reading import number_of
from ...ir.rewriting import replace_op
from ..buffers import flat
from ..lane_indices import lane_stride

FEW = 4  # up to this stride, loading everything and shuffling lanes beats a gather


def strides(type_: ir.MemRefType) -> list[int]:
    """Returns the strides of a memref type."""
    return list(type_.get_strides_and_offset()[0])


def lower_gather(op: ir.Operation) -> None:
    """Lowers tile.gather by the form of its index.

    s + lane          a (masked) load
    s + c * lane      for small c a load of everything between, from which every c-th lane is taken, backwards where c is negative;
                      else a gather with constant offsets from s
    anything else     a gather, with 32-bit offsets where the memory is small enough: twice the lanes per instruction
    """
    memory, index, mask, otherwise = op.operands
    e = Emit.before(op)
    scalar = Emit(e.ip, e.loc)
    memory, step = flat_of(e, memory)
    result = op.results[0].type
    linear = lane_stride(index)
    if linear is None:
        positions = e.wrap(index) * step if step != 1 else e.wrap(index)
        if 0 <= ir.MemRefType(memory.type).shape[0] < 1 << 31:
            positions = positions.cast("arith.index_cast", ir.IntegerType.get_signless(32))
        start, offsets = scalar.constant(0, ir.IndexType.get()).value, positions.value
        value = _gather(e, result, [memory, start, offsets, mask, otherwise])
    else:
        terms, lane = linear
        start = scalar.constant(0, ir.IndexType.get())
        for term, factor in terms:
            start = start + scalar.wrap(term) * (factor * step)
        value = strided_load(e, memory, start.value, lane * step, mask, otherwise, result)
    replace_op(op, value)


def strided_load(
    e: Emit, memory: ir.Value, start: ir.Value, step: int, mask: ir.Value, otherwise: ir.Value, result: ir.VectorType
) -> ir.Value:
    """Loads memory[start + step * lane] of a flat memref where `mask` holds, else the lanes of `otherwise`."""
    lanes = result.shape[0]
    if step == 1:
        return e.op("vector.maskedload", [result], [memory, start, mask, otherwise]).result
    distance, upwards = abs(step), mask if step > 0 else _reversed(e, mask)
    if 0 < distance <= FEW and upwards is not None and (between := _widened_mask(e, upwards, distance)) is not None:
        first = start if step > 0 else (Emit(e.ip, e.loc).wrap(start) - distance * (lanes - 1)).value
        wide = ir.VectorType.get([lanes * distance], result.element_type)
        zeros = Emit(e.ip, e.loc, [lanes * distance]).constant(0, result.element_type)
        everything = e.op("vector.maskedload", [wide], [memory, first, between, zeros.value]).result
        picked = ir.DenseI64ArrayAttr.get([i * distance for i in range(lanes)][:: 1 if step > 0 else -1])
        lanes_read = e.op("vector.shuffle", [result], [everything, everything], mask=picked).result
        return e.op("arith.select", [result], [mask, lanes_read, otherwise]).result
    i32 = ir.IntegerType.get_signless(32)
    offsets = ir.DenseIntElementsAttr.get(
        np.arange(lanes, dtype=np.int32) * step, type=ir.VectorType.get([lanes], i32), context=result.context
    )
    constant = e.op("arith.constant", [ir.VectorType.get([lanes], i32)], [], value=offsets).result
    return _gather(e, result, [memory, start, constant, mask, otherwise])


def _gather(e: Emit, result: ir.VectorType, operands: list[ir.Value]) -> ir.Value:
    """Gathers floats behind a fence, if some lanes may be masked off.

    LLVM drops lanes of a gather that later selects do not take, as in a concatenation along the lanes, and computes with the
    previous contents of a register in their place. These may be offsets, which are denormal floats: a product takes 150 cycles.
    """
    value = e.op("vector.gather", [result], operands).result
    if number_of(operands[3]) or not isinstance(result.element_type, ir.F32Type | ir.F64Type):
        return value
    sizes = {"op_bundle_sizes": ir.DenseI32ArrayAttr.get([]), "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0])}
    name = ir.StringAttr.get("llvm.arithmetic.fence")
    return e.op("llvm.call_intrinsic", [result], [value], intrin=name, **sizes).result


def _reversed(e: Emit, mask: ir.Value) -> ir.Value | None:
    """Returns a mask with its lanes in reverse order; None for masks of other forms than those made of ranges of lanes."""
    owner, (lanes,) = mask.owner, ir.VectorType(mask.type).shape
    if number_of(mask) is not None:
        return mask
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "vector.broadcast":
        return mask if not isinstance(owner.operands[0].type, ir.VectorType) else None
    if owner.name == "arith.andi":
        parts = [_reversed(e, v) for v in owner.operands]
        return None if any(p is None for p in parts) else e.op("arith.andi", [mask.type], parts).result
    behind = owner.name == "arith.xori" and bool(number_of(owner.operands[1]))
    first = owner.operands[0].owner if behind else owner
    if isinstance(first, ir.Block) or first.name != "vector.create_mask":
        return None
    others = lanes - Emit(e.ip, e.loc).wrap(first.operands[0])
    before = Emit(e.ip, e.loc, [lanes]).make("vector.create_mask", mask.type, others)
    return before.value if behind else (before ^ 1).value


def _widened_mask(e: Emit, mask: ir.Value, step: int) -> ir.Value | None:
    """Returns, for a mask of lanes in a row, the mask of all elements from `step * first` to `step * last`: nothing past the last
    lane is touched. None for masks of another form."""
    lanes = mask.type.shape[0]
    scalar = Emit(e.ip, e.loc)
    wide = ir.VectorType.get([lanes * step], ir.IntegerType.get_signless(1))

    def before(count: Num) -> ir.Value:
        """Returns the mask of the first `count` lanes."""
        return e.op("vector.create_mask", [wide], [count.value]).result

    owner = mask.owner
    everything = scalar.constant(step * (lanes - 1) + 1, ir.IndexType.get())
    if number_of(mask):
        return before(everything)
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "vector.create_mask":
        return before((scalar.wrap(owner.operands[0]) - 1) * step + 1)
    if owner.name == "vector.broadcast":
        all_or_none = e.op("vector.broadcast", [wide], [owner.operands[0]]).result
        return e.op("arith.andi", [wide], [all_or_none, before(everything)]).result
    if owner.name == "arith.andi":
        parts = [_widened_mask(e, v, step) for v in owner.operands]
        return None if any(p is None for p in parts) else e.op("arith.andi", [wide], parts).result
    if owner.name == "arith.xori" and number_of(owner.operands[1]):
        first = owner.operands[0].owner
        if isinstance(first, ir.Block) or first.name != "vector.create_mask":
            return None
        skipped, to_last = before(scalar.wrap(first.operands[0]) * step), before(everything)
        behind = e.op("arith.xori", [wide], [skipped, to_last]).result
        return e.op("arith.andi", [wide], [behind, to_last]).result
    return None


def flat_of(e: Emit, memory: ir.Value) -> tuple[ir.Value, int]:
    """Emits memory as a flat memref of elements in order; returns it with the stride between neighbors. Raises CompileError for
    memory of several dimensions that is not contiguous."""
    type_ = ir.MemRefType(memory.type)
    if type_.rank != 1 and not Layout.of(type_.shape, strides(type_)).is_row_major:
        raise CompileError(
            f"tile.gather from {type_}, which is not contiguous",
            where=where(e.loc),
            remedy="gather from a one-dimensional memref, strided if need be",
        )
    with e.ip, e.loc:
        return flat(memory), strides(type_)[-1] if type_.rank == 1 else 1
