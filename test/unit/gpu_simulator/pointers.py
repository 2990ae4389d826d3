"""Pointers into shared memory, of this CTA and of others of its cluster (nvvm.mapa).

A pointer is an i64: the buffer's number + 1 in bits 40 to 55, the bytes from its start plus a bias below, and above, for another
CTA's memory, its rank in the cluster + 1.
"""

from collections.abc import Callable

import numpy as np
from torch_mlir import ir

from .batch import Array, Batch
from .memory import Access, View, load, place, store, width_of

_BUFFER, _RANK = 40, 56
_BIAS = 1 << (_BUFFER - 1)  # so that a little below a buffer's start is not the buffer before
_DYNAMIC = -(2**31)


def _aligned_pointer(op: ir.Operation) -> Callable:
    def run(batch: Batch, view: View) -> Array:
        if view.buffer.space != "shared":
            raise NotImplementedError(f"a pointer to {view.buffer.space} memory at {op.location}")
        if not any(b is view.buffer for b in batch.pointed):
            batch.pointed.append(view.buffer)
        number = next(i for i, b in enumerate(batch.pointed) if b is view.buffer)
        return np.array([((number + 1) << _BUFFER) + _BIAS])

    return run


def _same(op: ir.Operation) -> Callable:
    return lambda _batch, pointer: pointer.astype(np.int64)


def _element(op: ir.Operation) -> Callable:
    constants = list(ir.DenseI32ArrayAttr(op.attributes["rawConstantIndices"]))
    if len(constants) != 1:
        raise NotImplementedError(f"llvm.getelementptr with several indices at {op.location}")
    width = width_of(ir.TypeAttr(op.attributes["elem_type"]).value)
    if constants[0] != _DYNAMIC:
        return lambda _batch, pointer: pointer + constants[0] * width
    return lambda _batch, pointer, index: pointer + index.astype(np.int64) * width


def _mapa(op: ir.Operation) -> Callable:
    def run(batch: Batch, pointer: Array, rank: Array) -> Array:
        outside = batch.mask & (batch.wide(rank) >= batch.cluster)
        if outside.any():
            batch.fault(op, int(np.argmax(outside)), f"no CTA of this rank in a cluster of {batch.cluster}")
        return pointer + ((rank.astype(np.int64) + 1) << _RANK)

    return run


def _reach(batch: Batch, op: ir.Operation, pointer: Array, type_: ir.Type) -> Access:
    vector = isinstance(type_, ir.VectorType)
    count, width = (type_.shape[0], width_of(type_.element_type)) if vector else (1, width_of(type_))
    align = ir.IntegerAttr(op.attributes["alignment"]).value if "alignment" in op.attributes else width * count
    pointer = batch.active(pointer)
    numbers = np.unique((pointer >> _BUFFER) & 0xFFFF) - 1
    if len(numbers) != 1 or not 0 <= numbers[0] < len(batch.pointed):
        batch.fault(op, batch.lanes[0], "a pointer to no buffer, or to several at once")
    buffer = batch.pointed[int(numbers[0])]
    rank, own = (pointer >> _RANK) - 1, batch.local[batch.lanes]
    target = np.where(rank < 0, own, own // batch.cluster * batch.cluster + rank)
    remote = np.zeros(batch.size, bool)
    remote[batch.lanes] = target != own
    batch.clusters.reach(op, remote)
    element, rest = np.divmod((pointer & ((1 << _BUFFER) - 1)) - _BIAS, buffer.width)
    if width != buffer.width or rest.any():
        batch.fault(
            op, batch.lanes[int(np.argmax(rest != 0))], f"elements of {width} bytes in {buffer.name}, or between its elements"
        )
    return place(batch, op, buffer, element, target * buffer.size, count, align)


def _load(op: ir.Operation) -> Callable:
    type_ = op.results[0].type

    def run(batch: Batch, pointer: Array) -> Array:
        found = load(_reach(batch, op, pointer, type_), None)
        return found if isinstance(type_, ir.VectorType) else found[:, 0]

    return run


def _store(op: ir.Operation) -> Callable:
    type_ = op.operands[0].type

    def run(batch: Batch, value: Array, pointer: Array) -> None:
        store(_reach(batch, op, pointer, type_), value.reshape(len(value), -1), None)

    return run


POINTER_OPS: dict[str, Callable[[ir.Operation], Callable]] = {
    "memref.extract_aligned_pointer_as_index": _aligned_pointer, "llvm.inttoptr": _same, "llvm.ptrtoint": _same,
    "llvm.addrspacecast": _same, "llvm.getelementptr": _element, "nvvm.mapa": _mapa, "llvm.load": _load, "llvm.store": _store,
}  # fmt: skip
