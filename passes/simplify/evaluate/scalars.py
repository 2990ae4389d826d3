"""Evaluates scalar ops of arith and math on numpy arrays, element by element, with MLIR's semantics.

numpy rounds add, sub, mul, div and sqrt correctly in f64, f32 and f16. Transcendental functions are computed in f64 and rounded
once. bf16 values are kept in f32 arrays; `evaluate_scalar` rounds each result. Integers wrap; i1 values are bools.
"""

import math
from collections.abc import Callable

import numpy as np
from torch_mlir import ir

from ...ir.dense_bytes import round_bf16
from .arrays import Array, dtype_of, is_bf16

_UNSIGNED = {
    np.dtype(np.int8): np.uint8,
    np.dtype(np.int16): np.uint16,
    np.dtype(np.int32): np.uint32,
    np.dtype(np.int64): np.uint64,
}


OF_BOOLS: dict[str, np.ufunc] = {
    "arith.addi": np.logical_xor, "arith.subi": np.logical_xor, "arith.maxsi": np.logical_and, "arith.minsi": np.logical_or,
}  # fmt: skip
"""Ops of i1 that differ from numpy's of bools: addition is modulo 2, and true, as a signed number, is -1."""


def _unsigned(x: Array) -> Array:
    """Reinterprets signed integers, and bools, as unsigned ones."""
    return x.view(_UNSIGNED[x.dtype]) if x.dtype in _UNSIGNED else x.astype(np.uint8)


def _in_f64(f: Callable[..., Array]) -> Callable[..., Array]:
    """Makes `f` compute in f64 and round to the dtype of its first argument."""
    return lambda *xs: np.asarray(f(*(np.asarray(x, np.float64) for x in xs))).astype(xs[0].dtype)


def _elementwise(f: Callable[[float], float]) -> Callable[[Array], Array]:
    """Applies a function of Python floats to every element."""
    return _in_f64(np.vectorize(f, otypes=[np.float64]))


def _with_signed_zeros(pick: Callable[..., Array], negative_first: bool) -> Callable[[Array, Array], Array]:
    """Returns maximumf or minimumf: like numpy's `pick`, which propagates NaN, but with -0.0 less than 0.0."""

    def run(a: Array, b: Array) -> Array:
        """Picks one of two numbers; of two zeros, by sign."""
        zeros = (a == 0) & (b == 0)
        sign = np.signbit(a) | np.signbit(b) if negative_first else np.signbit(a) & np.signbit(b)
        return np.where(zeros, np.where(sign, a.dtype.type(-0.0), a.dtype.type(0.0)), pick(a, b)).astype(a.dtype)

    return run


def _floordiv(a: Array, b: Array) -> Array:
    """Divides integers, rounding down; 0 if the divisor is 0."""
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b))).astype(a.dtype)


def _divsi(a: Array, b: Array) -> Array:
    """Divides integers, rounding toward zero; 0 if the divisor is 0."""
    q, safe = _floordiv(a, b), np.where(b == 0, 1, b)
    return np.where((q * safe != a) & ((a < 0) != (safe < 0)), q + 1, q).astype(a.dtype)


def _remsi(a: Array, b: Array) -> Array:
    return (a - _divsi(a, b) * b).astype(a.dtype)


def _fpowi(a: Array, b: Array) -> Array:
    return np.power(np.asarray(a, np.float64), np.asarray(b, np.float64)).astype(a.dtype)


def _integer(name: str, f: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    """Returns the op `name`: `f` on integers, the function in OF_BOOLS on bools."""
    return lambda a, b: OF_BOOLS[name](a, b) if a.dtype == np.bool_ else f(a, b)


def _round(x: Array) -> Array:
    """Rounds to the nearest integer, halves away from zero. floor(|x| + 0.5) would round the number below 0.5 up."""
    whole = np.trunc(x)
    return np.copysign(whole + np.sign(x) * (np.abs(x - whole) >= 0.5), x).astype(x.dtype)


_SIGNED: dict[str, Callable[..., Array]] = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
}  # fmt: skip
maximum, minimum = _with_signed_zeros(np.maximum, False), _with_signed_zeros(np.minimum, True)

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.remf": np.fmod, "arith.maximumf": maximum, "arith.minimumf": minimum, "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin,
    **{name: _integer(name, f) for name, f in _SIGNED.items()},
    "arith.muli": np.multiply, "arith.divsi": _divsi, "arith.floordivsi": _floordiv, "arith.remsi": _remsi,
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.maxui": lambda a, b: np.where(_unsigned(a) > _unsigned(b), a, b),
    "arith.minui": lambda a, b: np.where(_unsigned(a) < _unsigned(b), a, b),
    "arith.shli": np.left_shift, "arith.shrsi": np.right_shift,
    "arith.shrui": lambda a, b: (_unsigned(a) >> _unsigned(b)).view(a.dtype),
    "math.powf": _in_f64(np.power), "math.fpowi": _fpowi, "math.atan2": _in_f64(np.arctan2), "math.copysign": np.copysign,
}  # fmt: skip
UNARY: dict[str, Callable[[Array], Array]] = {
    "arith.negf": np.negative, "math.absf": np.abs, "math.absi": np.abs, "math.sqrt": np.sqrt, "math.floor": np.floor,
    "math.ceil": np.ceil, "math.trunc": np.trunc, "math.roundeven": np.rint, "math.round": _round,
    "math.rsqrt": _in_f64(lambda x: 1 / np.sqrt(x)), "math.exp": _in_f64(np.exp), "math.exp2": _in_f64(np.exp2),
    "math.expm1": _in_f64(np.expm1), "math.log": _in_f64(np.log), "math.log2": _in_f64(np.log2), "math.log10": _in_f64(np.log10),
    "math.log1p": _in_f64(np.log1p), "math.sin": _in_f64(np.sin), "math.cos": _in_f64(np.cos), "math.tan": _in_f64(np.tan),
    "math.tanh": _in_f64(np.tanh), "math.sinh": _in_f64(np.sinh), "math.cosh": _in_f64(np.cosh), "math.asin": _in_f64(np.arcsin),
    "math.acos": _in_f64(np.arccos), "math.atan": _in_f64(np.arctan), "math.cbrt": _in_f64(np.cbrt),
    "math.erf": _elementwise(math.erf), "math.erfc": _elementwise(math.erfc), "math.isnan": np.isnan, "math.isinf": np.isinf,
    "math.isfinite": np.isfinite,
}  # fmt: skip
_ORDERED = {1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal, 6: np.not_equal}
_CMPI = {
    0: np.equal, 1: np.not_equal, 2: np.less, 3: np.less_equal, 4: np.greater, 5: np.greater_equal,
    6: np.less, 7: np.less_equal, 8: np.greater, 9: np.greater_equal,
}  # fmt: skip


def _cmpf(predicate: int, a: Array, b: Array) -> Array:
    """Compares floats by the number of an arith.cmpf predicate: 1 to 6 are ordered comparisons, 8 to 13 the unordered ones."""
    nan = np.isnan(a) | np.isnan(b)
    if predicate in (0, 15):
        return np.full(nan.shape, predicate == 15)
    if predicate in (7, 14):
        return ~nan if predicate == 7 else nan
    if predicate < 7:
        return _ORDERED[predicate](a, b) & ~nan
    return _ORDERED[predicate - 7](a, b) | nan


def _cast(name: str, x: Array, to: ir.Type) -> Array | None:
    """Converts values to another element type; None if numpy has no such type, or a value is out of its range."""
    dtype = dtype_of(to)
    if dtype is None:
        return None
    if name in ("arith.extui", "arith.uitofp", "arith.index_castui"):
        x = _unsigned(x)
    elif (name == "arith.extsi" and x.dtype == np.bool_) or (name == "arith.sitofp" and x.dtype == np.bool_):
        x = -x.astype(np.int8)
    elif name == "arith.trunci" and dtype is np.bool_:
        x = x & 1
    elif name in ("arith.fptosi", "arith.fptoui"):
        x = np.trunc(x)
        limits = np.iinfo(dtype) if dtype is not np.bool_ else None
        if limits is None or not np.all((x >= limits.min) & (x <= limits.max)):
            return None  # the result is poison: the op stays
    if is_bf16(to) and x.dtype == np.float64:
        x = x.astype(np.float32)  # as torch does: f64 to bf16 goes through f32
    return x.astype(dtype)


CASTS = {
    "arith.extf", "arith.truncf", "arith.extsi", "arith.extui", "arith.trunci", "arith.sitofp", "arith.uitofp",
    "arith.fptosi", "arith.fptoui", "arith.index_cast", "arith.index_castui",
}  # fmt: skip


def evaluate_scalar(op: ir.Operation, xs: list[Array]) -> Array | None:
    """Returns the result of an arith or math op on arrays that broadcast; None if it is unknown, or undefined for these values."""
    name, to = op.name, op.results[0].type
    with np.errstate(all="ignore"):
        if name in BINARY:
            if name in ("arith.divsi", "arith.floordivsi", "arith.remsi") and not np.all(xs[1]):
                return None
            out: Array | None = BINARY[name](*xs)
        elif name in UNARY:
            out = UNARY[name](xs[0])
        elif name == "arith.select":
            out = np.where(*xs)
        elif name == "arith.cmpf":
            out = _cmpf(op.attributes["predicate"].value, *xs)
        elif name == "arith.cmpi":
            predicate = op.attributes["predicate"].value
            out = _CMPI[predicate](*(map(_unsigned, xs) if predicate > 5 else _signed(xs)))
        elif name in CASTS:
            out = _cast(name, xs[0], to)
        elif name == "math.fma":
            if xs[0].dtype == np.float64:
                return None  # numpy would round the product, too
            out = (np.asarray(xs[0], np.float64) * xs[1] + xs[2]).astype(xs[0].dtype)
        else:
            return None
        if out is not None and is_bf16(to):
            out = round_bf16(out)
    return out


def _signed(xs: list[Array]) -> list[Array]:
    """Converts bools, as signed i1, to numbers: true is -1."""
    return [-x.astype(np.int8) if x.dtype == np.bool_ else x for x in xs]
