"""The memref dialect, vector.load and vector.store."""

from collections.abc import Callable

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects.arith import AtomicRMWKind

from lamina.passes.ir.dense_bytes import round_bf16
from lamina.passes.simplify.evaluate.arrays import is_bf16

from .batch import Array, Batch
from .memory import Buffer, View, access, load, store, width_of
from .types import dtype_of

_DYNAMIC = -(2**63)


def poisoned(element: ir.Type, n: int) -> Array:
    """Returns the contents of memory before the first write: NaN, or bytes of 0x5A."""
    dtype = np.dtype(dtype_of(element))
    if dtype.kind == "f":
        return np.full(n, np.nan, dtype)
    return np.full(n * dtype.itemsize, 0x5A, np.uint8).view(dtype)


def layout_of(type_: ir.Type) -> tuple[list[int], list[int], int]:
    """Returns shape, strides and offset of a static memref, in elements."""
    strides, offset = type_.get_strides_and_offset()
    if not type_.has_static_shape or _DYNAMIC in strides or offset == _DYNAMIC:
        raise NotImplementedError(f"a memref of this type: {type_}")
    return list(type_.shape), list(strides), offset


def extent_of(type_: ir.Type) -> int:
    """Returns the number of elements from the start of the memory to the memref's last one."""
    shape, strides, offset = layout_of(type_)
    return 0 if 0 in shape else offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1


def view_of(buffer: Buffer, type_: ir.Type) -> View:
    shape, strides, offset = layout_of(type_)
    return View(buffer, np.array([offset]), shape, strides)


def _alignment(op: ir.Operation) -> int | None:
    return ir.IntegerAttr(op.attributes["alignment"]).value if "alignment" in op.attributes else None


def _load(op: ir.Operation) -> Callable:
    type_, align = op.results[0].type, _alignment(op)
    shape = list(type_.shape) if isinstance(type_, ir.VectorType) else None
    count = int(np.prod(shape)) if shape is not None else 1

    def run(batch: Batch, view: View, *indices: Array) -> Array:
        _contiguous(batch, op, view, count)
        found = load(access(batch, op, view, indices, count, align), align)
        return found[:, 0] if shape is None else found.reshape(len(found), *shape)

    return run


def _store(op: ir.Operation) -> Callable:
    type_, align = op.operands[0].type, _alignment(op)
    element = type_.element_type if isinstance(type_, ir.VectorType) else type_
    count = int(np.prod(list(type_.shape))) if isinstance(type_, ir.VectorType) else 1

    def run(batch: Batch, values: Array, view: View, *indices: Array) -> None:
        _contiguous(batch, op, view, count)
        values = values.reshape(len(values), count)
        store(access(batch, op, view, indices, count, align), round_bf16(values) if is_bf16(element) else values, align)

    return run


def _atomic(op: ir.Operation) -> Callable:
    """Executes one lane after another, which is no race."""

    def run(batch: Batch, values: Array, view: View, *indices: Array) -> Array:
        at = access(batch, op, view, indices, 1, None)
        _COMBINED[AtomicRMWKind(op.attributes["kind"].value)].at(at.buffer.data, at.at[:, 0], batch.active(values))
        return values

    return run


_COMBINED = {
    AtomicRMWKind.addf: np.add, AtomicRMWKind.addi: np.add, AtomicRMWKind.maxs: np.maximum, AtomicRMWKind.mins: np.minimum,
}  # fmt: skip


def _contiguous(batch: Batch, op: ir.Operation, view: View, count: int) -> None:
    if count > 1 and not np.all(np.asarray(view.strides[-1]) == 1):
        batch.fault(op, batch.lanes[0], "a vector along an axis whose stride is not 1")


def _reinterpret(op: ir.Operation) -> Callable:
    fields = [list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides")]

    def run(_batch: Batch, view: View, *dynamic: Array) -> View:
        left = iter(dynamic)
        (offset,), sizes, strides = ([next(left) if n == _DYNAMIC else n for n in field] for field in fields)
        return View(view.buffer, np.atleast_1d(offset), sizes, strides)

    return run


def _alloca(op: ir.Operation) -> Callable:
    type_ = op.results[0].type
    size, element = extent_of(type_), type_.element_type

    def run(batch: Batch) -> View:
        data = poisoned(element, size * batch.size)
        return view_of(Buffer("a memref.alloca", "private", data, size, width_of(element), 16), type_)

    return run


MEMORY_OPS: dict[str, Callable[[ir.Operation], Callable]] = {
    "memref.load": _load, "vector.load": _load, "memref.store": _store, "vector.store": _store,
    "memref.atomic_rmw": _atomic,
    "memref.reinterpret_cast": _reinterpret, "memref.cast": lambda op: lambda _batch, view: view, "memref.alloca": _alloca,
}  # fmt: skip
