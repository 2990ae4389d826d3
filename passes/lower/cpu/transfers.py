"""Lowers vector transfers that upstream would lower to scalar code: strided ones, and those of rank 2 with their transposes."""

from torch_mlir import ir

from ...ir.emit import Emit, Num
from ...ir.rewriting import replace_op
from ...ir.sizes import i64
from ..buffers import flat, roots
from .memory import strided_load, strides

Rows = dict[ir.Value, list[ir.Value]]


class Transfers:
    """Lowers the transfers of one function. Remembers the rows of each block read, so that writing these needs no block."""

    def __init__(self) -> None:
        self.rows: Rows = {}
        self.blocks: list[ir.Operation] = []

    def lower(self, op: ir.Operation) -> None:
        """Lowers one transfer, if upstream would not do it as well."""
        t = Transfer(op)
        if t.vector.rank == 1 and t.regular:
            return
        if t.vector.rank == 1 and t.dims is not None and (t.mask is None or t.memory_type.rank == 1):
            self._strided(t)
        elif t.vector.rank == 2 and t.dims is not None and t.mask is None and 1 in (t.steps[d] for d in t.dims):
            self._block(t)

    def finish(self) -> None:
        """Erases the blocks that nothing reads any more."""
        for op in reversed(self.blocks):
            if not list(op.results[0].uses):
                op.erase()

    def _strided(self, t: "Transfer") -> None:
        """Lowers a transfer of one dimension whose lanes lie a fixed number of elements apart."""
        assert t.dims is not None
        e, dim = t.emit, t.dims[0]
        lanes = t.vector.shape[0]
        step = t.steps[dim]
        mask = t.mask if t.mask is not None else t.lane_mask(dim, lanes)
        with e.ip, e.loc:
            view = flat(t.memory)
        start = t.linear_index()
        if t.reads:
            pad = e.op("vector.broadcast", [t.vector], [t.value]).result
            t.replace(strided_load(e, view, start.value, step, mask, pad, t.vector))
        else:
            offsets = e.make("vector.step", e.type(ir.IndexType.get())) * step
            narrow = offsets.cast("arith.index_cast", ir.IntegerType.get_signless(32))
            e.op("vector.scatter", [], [view, start.value, narrow.value, mask, t.value])
            t.op.erase()

    def _block(self, t: "Transfer") -> None:
        """Lowers a block of rank 2 row by row along the memory's contiguous dimension, with a transpose between if need be."""
        assert t.dims is not None
        inner = next(i for i, d in reversed(list(enumerate(t.dims))) if t.steps[d] == 1)
        outer = 1 - inner
        count, lanes = t.vector.shape[outer], t.vector.shape[inner]
        type_ = ir.VectorType.get([lanes], t.vector.element_type)
        e = Emit(t.emit.ip, t.emit.loc, [lanes])
        if t.reads:
            rows = [self._read(t, e, type_, t.dims[outer], t.dims[inner], k) for k in range(count)]
            rows = rows if inner == 1 else transpose(e, rows)
            self._assemble(t, rows)
            return
        block = self.rows.get(t.value) or [_row(t.emit, t.value, k) for k in range(t.vector.shape[0])]
        for k, row in enumerate(block if inner == 1 else transpose(e, block)):
            self._write(t, e, row, t.dims[outer], t.dims[inner], k)
        t.op.erase()

    def _read(self, t: "Transfer", e: Emit, type_: ir.Type, outer: int, inner: int, k: int) -> ir.Value:
        indices = t.indices_of(outer, k)
        mask = t.row_mask(outer, inner, k, e.shape[0])
        if mask is None:
            return e.op("vector.load", [type_], [t.memory, *indices]).result
        pad = e.op("vector.broadcast", [type_], [t.value]).result
        return e.op("vector.maskedload", [type_], [t.memory, *indices, mask, pad]).result

    def _write(self, t: "Transfer", e: Emit, row: ir.Value, outer: int, inner: int, k: int) -> None:
        indices = t.indices_of(outer, k)
        mask = t.row_mask(outer, inner, k, e.shape[0])
        if mask is None:
            e.op("vector.store", [], [row, t.memory, *indices])
        else:
            e.op("vector.maskedstore", [], [t.memory, *indices, mask, row])

    def _assemble(self, t: "Transfer", rows: list[ir.Value]) -> None:
        stacked = _stack(t.emit, rows)
        self.blocks += stacked
        self.rows[stacked[-1].result] = rows
        t.replace(stacked[-1].result)


class Transfer:
    """The operands and attributes of a vector.transfer_read or transfer_write."""

    def __init__(self, op: ir.Operation) -> None:
        self.op, self.reads = op, op.name == "vector.transfer_read"
        operands = list(op.operands)
        memory_at = 0 if self.reads else 1
        self.memory = operands[memory_at]
        self.memory_type = ir.MemRefType(self.memory.type)
        self.indices = operands[memory_at + 1 : memory_at + 1 + self.memory_type.rank]
        rest = operands[memory_at + 1 + self.memory_type.rank :]
        self.value = rest.pop(0) if self.reads else operands[0]  # the padding, or what is written
        self.mask = rest[0] if rest else None
        self.vector = ir.VectorType(op.results[0].type if self.reads else self.value.type)
        self.steps = strides(self.memory_type)
        self.dims = self._dims()
        self.emit = Emit(ir.InsertionPoint(op), op.location, list(self.vector.shape))
        bounds = ir.ArrayAttr(op.attributes["in_bounds"]) if "in_bounds" in op.attributes else [False] * self.vector.rank
        self.in_bounds = [bool(ir.BoolAttr(b).value) if isinstance(b, ir.Attribute) else b for b in bounds]

    def _dims(self) -> list[int] | None:
        """Returns the memory dimension that each vector dimension runs along; None if one is broadcast."""
        if "permutation_map" not in self.op.attributes:
            return list(range(self.memory_type.rank - self.vector.rank, self.memory_type.rank))
        results = ir.AffineMapAttr(self.op.attributes["permutation_map"]).value.results
        if not all(isinstance(r, ir.AffineDimExpr) for r in results):
            return None
        return [ir.AffineDimExpr(r).position for r in results]

    @property
    def regular(self) -> bool:
        """Whether it is one vector along the last dimension with unit stride, which upstream loads as such."""
        return self.dims == [self.memory_type.rank - 1] and self.steps[-1] == 1

    def replace(self, value: ir.Value) -> None:
        """Replaces the transfer by `value` and erases it."""
        replace_op(self.op, value)

    def linear_index(self) -> Num:
        """Returns the index of the transfer's first element in the flat view of its memory."""
        scalar = Emit(self.emit.ip, self.emit.loc)
        start = scalar.constant(0, ir.IndexType.get())
        for index, step in zip(self.indices, self.steps, strict=True):
            start = start + scalar.wrap(index) * step
        return start

    def remaining(self, dim: int) -> Num:
        """Returns the elements from the transfer's start to the end of a dimension."""
        scalar, index = Emit(self.emit.ip, self.emit.loc), ir.IndexType.get()
        if self.memory_type.is_dynamic_dim(dim):
            whole = scalar.wrap(scalar.op("memref.dim", [index], [self.memory, scalar.constant(dim, index).value]).result)
        else:
            whole = scalar.constant(self.memory_type.shape[dim], index)
        return whole - scalar.wrap(self.indices[dim])

    def lane_mask(self, dim: int, lanes: int) -> ir.Value:
        """Returns the mask of lanes in bounds of dimension `dim`."""
        type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
        if self.in_bounds[0]:
            return Emit(self.emit.ip, self.emit.loc, [lanes]).constant(1, type_.element_type).value
        return self.emit.op("vector.create_mask", [type_], [self.remaining(dim).value]).result

    def row_mask(self, outer: int, inner: int, k: int, lanes: int) -> ir.Value | None:
        """Returns the mask of row k's lanes in bounds, none if the row itself is not; None if all are."""
        assert self.dims is not None
        row_in, lanes_in = self.in_bounds[self.dims.index(outer)], self.in_bounds[self.dims.index(inner)]
        if row_in and lanes_in:
            return None
        scalar = Emit(self.emit.ip, self.emit.loc)
        count = scalar.constant(lanes, ir.IndexType.get()) if lanes_in else self.remaining(inner)
        if not row_in:
            count = count.where(self.remaining(outer) > k, 0)
        type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
        return self.emit.op("vector.create_mask", [type_], [count.value]).result

    def indices_of(self, outer: int, k: int) -> list[ir.Value]:
        """Returns the indices of row k's first element."""
        indices = list(self.indices)
        if k:
            indices[outer] = (Emit(self.emit.ip, self.emit.loc).wrap(indices[outer]) + k).value
        return indices


def _row(e: Emit, block: ir.Value, k: int) -> ir.Value:
    type_ = ir.VectorType(block.type)
    row = ir.VectorType.get(type_.shape[1:], type_.element_type)
    return e.op("vector.extract", [row], [block], static_position=ir.DenseI64ArrayAttr.get([k])).result


def transpose(e: Emit, rows: list[ir.Value]) -> list[ir.Value]:
    """Transposes `rows`: returns as many columns as there are lanes.

    A square block whose side is a power of two takes a perfect shuffle network: row i is interleaved with row i + n/2, into a
    lower and an upper half, log2(n) times. That is n*log2(n) two-operand permutes with two index vectors in all.
    """
    count, type_ = len(rows), ir.VectorType(rows[0].type)
    lanes = type_.shape[0]
    if count != lanes or count & (count - 1):
        return _transpose_block(e, rows)
    low = ir.DenseI64ArrayAttr.get([i // 2 + (lanes if i % 2 else 0) for i in range(lanes)])
    high = ir.DenseI64ArrayAttr.get([(lanes + i) // 2 + (lanes if i % 2 else 0) for i in range(lanes)])
    for _ in range(count.bit_length() - 1):
        pairs = [(rows[i], rows[i + count // 2]) for i in range(count // 2)]
        rows = [e.op("vector.shuffle", [type_], list(pair), mask=mask).result for pair in pairs for mask in (low, high)]
    return rows


def _stack(e: Emit, rows: list[ir.Value]) -> list[ir.Operation]:
    """Puts rows together to a block of rank 2; returns the ops, of which the last one makes the block."""
    type_ = ir.VectorType(rows[0].type)
    whole = ir.VectorType.get([len(rows), type_.shape[0]], type_.element_type)
    ops: list[ir.Operation] = [Emit(e.ip, e.loc, list(whole.shape)).constant(0, type_.element_type).value.owner]
    for k, row in enumerate(rows):
        position = ir.DenseI64ArrayAttr.get([k])
        ops.append(e.op("vector.insert", [whole], [row, ops[-1].result], static_position=position))
    return ops


def _transpose_block(e: Emit, rows: list[ir.Value]) -> list[ir.Value]:
    type_ = ir.VectorType(rows[0].type)
    turned = ir.VectorType.get([type_.shape[0], len(rows)], type_.element_type)
    permutation = ir.DenseI64ArrayAttr.get([1, 0])
    block = e.op("vector.transpose", [turned], [_stack(e, rows)[-1].result], permutation=permutation).result
    return [_row(e, block, k) for k in range(type_.shape[0])]


def guard_streaming(function: ir.Operation, stores: list[ir.Operation]) -> None:
    """Guards nontemporal stores, which end the process where an address is not aligned: each becomes a branch on the alignment of
    its memory, computed at the function's start. A fence at the end orders the stores before what other threads are told."""
    block = function.regions[0].blocks[0]
    first = block.operations[0].operation
    aligned: dict[ir.Value, Num] = {}
    for op in stores:
        if "nontemporal" not in op.attributes or not ir.BoolAttr(op.attributes["nontemporal"]).value:
            continue
        if "alignment" not in op.attributes:
            del op.attributes["nontemporal"]  # without a promised alignment LLVM would store element by element
            continue
        (memory,) = roots(op.operands[1])
        if not isinstance(memory.owner, ir.Block):
            continue
        if memory not in aligned:
            start = Emit(ir.InsertionPoint(first), function.location)
            address = start.op("memref.extract_aligned_pointer_as_index", [ir.IndexType.get()], [memory]).result
            promised = ir.IntegerAttr(op.attributes["alignment"]).value
            aligned[memory] = (start.wrap(address) & (promised - 1)).compare("eq", 0)
        e = Emit(ir.InsertionPoint(op), op.location)
        branch = ir.Operation.create("scf.if", [], [aligned[memory].value], regions=2, loc=op.location, ip=e.ip)
        for region, streams in zip(branch.regions, (True, False), strict=True):
            inner = Emit(ir.InsertionPoint(region.blocks.append()), op.location)
            copy = op.clone(ip=inner.ip)
            if not streams:
                del copy.attributes["nontemporal"]
                del copy.attributes["alignment"]
            inner.op("scf.yield", [], [])
        op.erase()
    if aligned:
        end = Emit(ir.InsertionPoint(list(block.operations)[-1]), function.location)
        end.op("llvm.fence", [], [], ordering=i64(7))  # sequentially consistent
