"""Evaluates whole-tensor ops on numpy arrays."""

from collections.abc import Callable, Sequence

import numpy as np
from torch_mlir import ir

from ...ir.reading import producer, terminator
from .arrays import Array, NotEvaluable, array_of
from .generics import evaluate_generic
from .scalars import evaluate_scalar

Arrays = Sequence[Array | None]
_DYNAMIC = -(2**63)


def _shape(value: ir.Value) -> tuple[int, ...]:
    return tuple(ir.ShapedType(value.type).shape)


def _defined_arrays(xs: Arrays) -> list[Array]:
    if any(x is None for x in xs):
        raise NotEvaluable("an operand is undefined")
    return [x for x in xs if x is not None]


def _static(op: ir.Operation, name: str) -> list[int]:
    numbers = list(op.attributes[name])
    if _DYNAMIC in numbers:
        raise NotEvaluable(f"{op.name} with a dynamic {name}")
    return numbers


def _window(op: ir.Operation) -> tuple[slice, ...]:
    parts = zip(*(_static(op, f"static_{part}") for part in ("offsets", "sizes", "strides")), strict=True)
    return tuple(slice(offset, offset + (size - 1) * stride + 1 if size else offset, stride) for offset, size, stride in parts)


def _fill(op: ir.Operation, xs: Arrays) -> Array:
    return np.broadcast_to(_defined_arrays(xs[:1])[0], _shape(op.results[0]))


def _transpose(op: ir.Operation, xs: Arrays) -> Array:
    return np.transpose(_defined_arrays(xs[:1])[0], list(op.attributes["permutation"]))


def _broadcast(op: ir.Operation, xs: Arrays) -> Array:
    x = np.expand_dims(_defined_arrays(xs[:1])[0], tuple(op.attributes["dimensions"]))
    return np.broadcast_to(x, _shape(op.results[0]))


def _reshape(op: ir.Operation, xs: Arrays) -> Array:
    return np.reshape(_defined_arrays(xs[:1])[0], _shape(op.results[0]))


def _extract_slice(op: ir.Operation, xs: Arrays) -> Array:
    return np.reshape(_defined_arrays(xs[:1])[0][_window(op)], _shape(op.results[0]))


def _insert_slice(op: ir.Operation, xs: Arrays) -> Array:
    source, into = _defined_arrays(xs[:2])
    out = into.copy()
    window = _window(op)
    out[window] = np.reshape(source, out[window].shape)
    return out


def _concat(op: ir.Operation, xs: Arrays) -> Array:
    return np.concatenate(_defined_arrays(xs), op.attributes["dim"].value)


def _pad(op: ir.Operation, xs: Arrays) -> Array:
    low, high = _static(op, "static_low"), _static(op, "static_high")
    if min([*low, *high], default=0) < 0:
        raise NotEvaluable("tensor.pad that cuts")
    maker = producer(terminator(op.regions[0].blocks[0]).operands[0])
    if maker is None or maker.name != "arith.constant":
        raise NotEvaluable("tensor.pad whose value is not a constant")
    value = array_of(maker.attributes["value"])
    if value is None:
        raise NotEvaluable("tensor.pad with a constant that numpy cannot hold")
    return np.pad(_defined_arrays(xs[:1])[0], list(zip(low, high, strict=True)), constant_values=value)


def _extract(op: ir.Operation, xs: Arrays) -> Array:
    tensor, *index = _defined_arrays(xs)
    if any(i < 0 or i >= n for i, n in zip(index, tensor.shape, strict=True)):
        raise NotEvaluable("tensor.extract outside the tensor")
    return tensor[tuple(int(i) for i in index)]


def _from_elements(op: ir.Operation, xs: Arrays) -> Array:
    return np.array(_defined_arrays(xs)).reshape(_shape(op.results[0]))


def _matmul(op: ir.Operation, xs: Arrays) -> Array:
    a, b, c = _defined_arrays(xs)
    return (np.matmul(a, b, dtype=np.float64) + c).astype(c.dtype)


_OPS: dict[str, Callable[[ir.Operation, Arrays], Array]] = {
    "linalg.fill": _fill, "linalg.transpose": _transpose, "linalg.broadcast": _broadcast, "tensor.splat": _fill,
    "tensor.expand_shape": _reshape, "tensor.collapse_shape": _reshape, "tensor.cast": _reshape,
    "tensor.extract_slice": _extract_slice, "tensor.insert_slice": _insert_slice, "tensor.concat": _concat,
    "tensor.pad": _pad, "tensor.extract": _extract, "tensor.from_elements": _from_elements,
    "linalg.matmul": _matmul, "linalg.batch_matmul": _matmul,
}  # fmt: skip


def evaluate_op(op: ir.Operation, xs: Arrays, captured: Callable[[ir.Value], Array | None]) -> list[Array | None]:
    """Returns the results of one op. `xs` are its operands, None if undefined (tensor.empty); `captured` gives the values
    that a region uses from outside. Raises NotEvaluable.
    """
    name = op.name
    if name == "arith.constant":
        value = array_of(op.attributes["value"])
        if value is None:
            raise NotEvaluable("a constant that numpy cannot hold")
        return [value]
    if name == "tensor.empty":
        return [None]
    if name == "linalg.generic":
        return list(evaluate_generic(op, xs, captured))
    if name in _OPS:
        return [_OPS[name](op, xs)]
    if len(op.results) == 1 and name.startswith(("arith.", "math.")):
        computed = evaluate_scalar(op, _defined_arrays(xs))
        if computed is not None:
            return [computed]
    raise NotEvaluable(f"{name} is not known to the evaluator")
