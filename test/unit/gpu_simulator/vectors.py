"""The vector dialect on arrays [lanes or 1, ...shape of the vector]."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch_mlir import ir

from .batch import Array
from .elementwise import bitcast, reduce

_DYNAMIC = -(2**63)


def _ints(attribute: ir.Attribute) -> list[int]:
    if isinstance(attribute, ir.ArrayAttr):
        return [ir.IntegerAttr(a).value for a in attribute]
    return list(ir.DenseI64ArrayAttr(attribute))


def _common(xs: tuple[Array, ...]) -> list[Array]:
    """Broadcasts all to the lanes of the widest."""
    n = max(len(x) for x in xs)
    return [np.broadcast_to(x, (n, *x.shape[1:])) for x in xs]


def vector(op: ir.Operation) -> Callable[..., Any] | None:
    """Returns the op as a function of arrays; None if it is not known."""
    build = _OPS.get(op.name)
    return build(op) if build else None


def _broadcast(op: ir.Operation) -> Callable[..., Any]:
    shape = list(op.results[0].type.shape)
    return lambda x: np.broadcast_to(x.reshape(len(x), *[1] * (len(shape) - x.ndim + 1), *x.shape[1:]), (len(x), *shape))


def _position(op: ir.Operation, dynamic: list[Array]) -> list[int | Array]:
    left = iter(dynamic)
    return [next(left) if i == _DYNAMIC else i for i in _ints(op.attributes["static_position"])]


def _extract(op: ir.Operation) -> Callable[..., Any]:
    def run(x: Array, *dynamic: Array) -> Array:
        if not dynamic:
            return x[(slice(None), *_position(op, []))]
        x, *indices = _common((x, *dynamic))
        return x[(np.arange(len(x)), *_position(op, indices))]

    return run


def _insert(op: ir.Operation) -> Callable[..., Any]:
    def run(value: Array, into: Array, *dynamic: Array) -> Array:
        value, into, *indices = _common((value, into, *dynamic))
        out = into.copy()
        out[(np.arange(len(out)) if dynamic else slice(None), *_position(op, indices))] = value
        return out

    return run


def _shuffle(op: ir.Operation) -> Callable[..., Any]:
    mask = _ints(op.attributes["mask"])
    return lambda a, b: np.concatenate([np.atleast_2d(x) for x in _common((a, b))], axis=1)[:, mask]


def _slices(op: ir.Operation, sizes: list[int]) -> tuple[slice, ...]:
    offsets, strides = _ints(op.attributes["offsets"]), _ints(op.attributes["strides"])
    return tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offsets, sizes, strides, strict=True))


def _extract_slice(op: ir.Operation) -> Callable[..., Any]:
    where = (slice(None), *_slices(op, _ints(op.attributes["sizes"])))
    return lambda x: x[where]


def _insert_slice(op: ir.Operation) -> Callable[..., Any]:
    source, into_rank = list(op.operands[0].type.shape), len(op.operands[1].type.shape)
    offsets = _ints(op.attributes["offsets"])
    strides = [1] * (into_rank - len(source)) + _ints(op.attributes["strides"])
    sizes = [1] * (into_rank - len(source)) + source
    slices = tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offsets, sizes, strides, strict=True))

    def run(value: Array, into: Array) -> Array:
        value, into = _common((value, into))
        out = into.copy()
        out[(slice(None), *slices)] = value.reshape(len(value), *sizes)
        return out

    return run


def _from_elements(op: ir.Operation) -> Callable[..., Any]:
    shape = list(op.results[0].type.shape)
    return lambda *xs: np.stack(_common(xs), axis=1).reshape(-1, *shape)


def _to_elements(op: ir.Operation) -> Callable[..., Any]:
    def run(x: Array) -> Array | tuple[Array, ...]:
        parts = tuple(x.reshape(len(x), -1).T)
        return parts if len(parts) > 1 else parts[0]

    return run


def _bitcast(op: ir.Operation) -> Callable[..., Any]:
    source, to = op.operands[0].type.element_type, op.results[0].type.element_type
    return lambda x: bitcast(x, source, to)


def _reshape(op: ir.Operation) -> Callable[..., Any]:
    to = op.results[0].type
    shape = list(to.shape) if isinstance(to, ir.VectorType) else []
    return lambda x: x.reshape(len(x), *shape)


def _interleave(op: ir.Operation) -> Callable[..., Any]:
    return lambda a, b: np.stack(_common((a, b)), axis=-1).reshape(max(len(a), len(b)), *op.results[0].type.shape)


_OPS: dict[str, Callable[[ir.Operation], Callable[..., Any]]] = {
    "vector.broadcast": _broadcast, "vector.extract": _extract, "vector.insert": _insert, "vector.shuffle": _shuffle,
    "vector.extract_strided_slice": _extract_slice, "vector.insert_strided_slice": _insert_slice,
    "vector.from_elements": _from_elements, "vector.to_elements": _to_elements, "vector.bitcast": _bitcast,
    "vector.shape_cast": _reshape, "vector.interleave": _interleave,
    "vector.deinterleave": lambda op: lambda x: (x[..., ::2], x[..., 1::2]),
    "vector.step": lambda op: lambda: np.arange(op.results[0].type.shape[0])[None],
    "vector.reduction": lambda op: lambda x, *start: reduce(x, op, start),
}  # fmt: skip
