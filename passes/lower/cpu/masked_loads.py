"""Narrows masked loads to the registers in which their mask can select a lane.

LLVM splits a wide masked load into registers. For AVX2, LLVM 22 loads a register without a mask where a conjunction selects none
of its lanes: it simplifies that part of the mask to a constant whose sign bits say "no lane", and then takes every lane of the
constant that is not zero for selected (test/unit/test_masked_loads.py repeats it). So such registers are not left to LLVM.
"""

from torch_mlir import ir

from ...ir.emit import Emit
from ...ir.index_ranges import Ranges
from ...ir.reading import element_bits, number_of, producer
from ...ir.rewriting import replace_op
from ...ir.sizes import i64

REGISTER = 256  # bits of a register of AVX2


def narrow_masked_load(op: ir.Operation, ranges: Ranges) -> None:
    """Replaces a masked load of rank 1 by narrower ones, if its mask is a conjunction that selects no lane of some register.

    op  a vector.maskedload or a vector.transfer_read
    """
    type_, operands = ir.VectorType(op.results[0].type), list(op.operands)
    reads = op.name == "vector.transfer_read"
    mask_at = len(operands) - (1 if reads else 2)
    mask = operands[mask_at]
    defining = producer(mask)
    if type_.rank != 1 or defining is None or defining.name != "arith.andi" or not isinstance(mask.type, ir.VectorType):
        return
    (lanes,), register = type_.shape, REGISTER // element_bits(op.results[0])
    first, end = selected_lanes(mask, ranges)
    first, end = first // register * register, -(-end // register) * register
    if end - first >= lanes:
        return
    e, index_at = Emit.before(op), ir.MemRefType(operands[0].type).rank
    otherwise = e.op("vector.broadcast", [type_], [operands[-2]]).result if reads else operands[-1]

    def part(start: int, count: int) -> ir.Value:
        """Loads `count` lanes from lane `start`, by halves where not all of them need a load."""
        if start >= end or start + count <= first:
            return _slice(e, otherwise, start, count)
        if count > register and not first <= start <= start + count <= end:
            half = 1 << (count - 1).bit_length() - 1
            joined = [part(start, half), part(start + half, count - half)]
            whole = ir.VectorType.get([count], type_.element_type)
            return e.op("vector.shuffle", [whole], joined, mask=ir.DenseI64ArrayAttr.get(range(count))).result
        narrowed = list(operands)
        narrowed[index_at] = (Emit(e.ip, e.loc).wrap(operands[index_at]) + start).value
        narrowed[mask_at] = _slice(e, mask, start, count)
        if not reads:
            narrowed[-1] = _slice(e, otherwise, start, count)
        return e.op(op.name, [ir.VectorType.get([count], type_.element_type)], narrowed, **dict(op.attributes.items())).result

    replace_op(op, part(0, lanes))


def selected_lanes(mask: ir.Value, ranges: Ranges) -> tuple[int, int]:
    """Returns the range of lanes [first, end) outside which a mask of rank 1 selects nothing."""
    (lanes,) = ir.VectorType(mask.type).shape
    if prefix := _prefix(mask, ranges):
        return 0, prefix[1]
    op = producer(mask)
    if op is not None and op.name == "arith.andi":
        (first, end), (other_first, other_end) = (selected_lanes(v, ranges) for v in op.operands)
        return max(first, other_first), min(end, other_end)
    if op is not None and op.name == "arith.xori":
        a, b = (_prefix(v, ranges) for v in op.operands)
        if a and b:
            return min(a[0], b[0]), max(a[1], b[1])
    return 0, lanes


def _prefix(mask: ir.Value, ranges: Ranges) -> tuple[int, int] | None:
    """Returns the least and the largest number of lanes that a mask selects from lane 0 on; None for a mask of another form."""
    (lanes,) = ir.VectorType(mask.type).shape
    op = producer(mask)
    if number_of(mask):
        return lanes, lanes
    if op is None or op.name != "vector.create_mask":
        return None
    low, high = (int(min(max(n, 0), lanes)) for n in ranges.of(op.operands[0]))
    return low, high


def _slice(e: Emit, vector: ir.Value, start: int, count: int) -> ir.Value:
    """Returns `count` lanes of a vector from lane `start`. Masks are created again, which costs less than slicing them."""
    type_, op = ir.VectorType.get([count], ir.VectorType(vector.type).element_type), producer(vector)
    name = "" if op is None else op.name
    if op is not None and name in ("arith.andi", "arith.xori"):
        return e.op(name, [type_], [_slice(e, v, start, count) for v in op.operands]).result
    if op is not None and name == "vector.broadcast" and not isinstance(op.operands[0].type, ir.VectorType):
        return e.op(name, [type_], [op.operands[0]]).result
    if op is not None and name == "vector.create_mask":
        return e.op(name, [type_], [(Emit(e.ip, e.loc).wrap(op.operands[0]) - start).value]).result
    at, size, step = (ir.ArrayAttr.get([i64(n)]) for n in (start, count, 1))
    return e.op("vector.extract_strided_slice", [type_], [vector], offsets=at, sizes=size, strides=step).result
