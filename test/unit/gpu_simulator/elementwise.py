"""arith and math on arrays: the compiler's own evaluator, which has tests of its own, and what it leaves out.

Approximations of the hardware are computed exactly, then rounded: tests of their error need a GPU.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from lamina.passes.ir.dense_bytes import round_bf16
from lamina.passes.simplify.evaluate.arrays import is_bf16
from lamina.passes.simplify.evaluate.scalars import BINARY, CASTS, UNARY, evaluate_scalar

from .batch import Array
from .types import array_of, dtype_of

Function = Callable[..., Any]


def element_of(type_: ir.Type) -> ir.Type:
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


def constant(op: ir.Operation) -> Array:
    """Returns the value of a constant, with a leading axis of 1 for the lanes."""
    value = array_of(op.attributes["value"])
    if value is None:
        raise NotImplementedError(f"a constant {op.attributes['value']}")
    return np.asarray(value)[None]


def elementwise(op: ir.Operation) -> Function | None:
    """Returns the op as a function of arrays [lanes or 1, ...]; None if it is not known."""
    run = _function(op)
    if run is None:
        return None
    rounds = len(op.results) == 1 and is_bf16(element_of(op.results[0].type))
    return (lambda *xs: round_bf16(run(*xs))) if rounds else run


def _function(op: ir.Operation) -> Function | None:
    name = op.name
    if name == "llvm.call_intrinsic":
        name = _INTRINSICS.get(ir.StringAttr(op.attributes["intrin"]).value, name)
    if name == "arith.select":
        return _select
    if name in ("arith.fptosi", "arith.fptoui"):
        return _float_to_int(element_of(op.results[0].type), name == "arith.fptosi")
    if name in CASTS or name in ("arith.cmpi", "arith.cmpf"):
        scalar = _Scalar(op)
        return lambda *xs: evaluate_scalar(scalar, list(xs))
    if name == "arith.bitcast":
        return lambda x: bitcast(x, element_of(op.operands[0].type), element_of(op.results[0].type))
    if found := _approximation(op):
        return found
    if name == "math.exp2" and "afn" in str(op.attributes.get("fastmath", "")):
        return lambda x: _flush(UNARY[name](_flush(x)))  # lamina-expand-math's word for ex2.approx.ftz
    for table in (_MORE, BINARY, UNARY):
        if name in table:
            return table[name]
    return None


class _Scalar:
    """The scalar op that a vector op applies to every element."""

    def __init__(self, op: ir.Operation) -> None:
        self.name, self.attributes = op.name, op.attributes
        self.results = [_Value(element_of(r.type)) for r in op.results]


class _Value:
    def __init__(self, type_: ir.Type) -> None:
        self.type = type_


def _select(condition: Array, a: Array, b: Array) -> Array:
    return np.where(spread(condition, max(a.ndim, b.ndim)), a, b)


def spread(x: Array, rank: int) -> Array:
    """Reshapes one value per lane to the rank of other arrays."""
    return x if x.ndim == rank else x.reshape(len(x), *[1] * (rank - 1))


def bitcast(x: Array, source: ir.Type, to: ir.Type) -> Array:
    """The same bits as other elements; the last axis grows or shrinks where the widths differ. bf16 is stored as f32."""
    if is_bf16(source):
        x = (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if is_bf16(to):
        return (np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(x).view(dtype_of(to))


def _float_to_int(to: ir.Type, signed: bool) -> Function:
    """Converts as the GPU's cvt: towards zero, saturating, NaN to 0. (In arith, values that do not fit are undefined.)"""
    dtype = np.dtype(dtype_of(to))
    if dtype == np.bool_:
        return lambda x: np.trunc(x) != 0
    limits = np.iinfo(dtype if signed else _unsigned(dtype))

    def run(x: Array) -> Array:
        wide = np.trunc(np.nan_to_num(x.astype(np.longdouble), nan=0.0))
        whole = np.clip(wide, limits.min, limits.max)
        return whole.astype(limits.dtype).view(dtype)

    return run


def _unsigned(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")


def _on_unsigned(f: Callable[[Array, Array], Array]) -> Function:
    def run(a: Array, b: Array) -> Array:
        if a.dtype == np.bool_:
            return f(a.astype(np.uint8), b.astype(np.uint8)).astype(np.bool_)
        unsigned = _unsigned(a.dtype)
        return np.asarray(f(a.view(unsigned), b.view(unsigned))).view(a.dtype)

    return run


def _divsi(a: Array, b: Array) -> Array:
    """Divides towards zero; a zero divisor, which only inactive lanes may have, gives 0."""
    return ((a - np.fmod(a, b)) // b).astype(a.dtype)


def _extended(signed: bool) -> Function:
    """Returns the function for both halves of a product."""

    def run(a: Array, b: Array) -> tuple[Array, Array]:
        if a.dtype.itemsize > 4:
            raise NotImplementedError("extended products of i64")
        view = a.dtype if signed else _unsigned(a.dtype)
        bits = 8 * a.dtype.itemsize
        product = a.view(view).astype(np.int64 if signed else np.uint64) * b.view(view).astype(np.int64 if signed else np.uint64)
        return product.astype(view).view(a.dtype), (product >> bits).astype(view).view(a.dtype)

    return run


def _fma(a: Array, b: Array, c: Array) -> Array:
    """Computes a * b + c, rounded once: through f64, and for f64 with the errors of product and sum (Dekker, Knuth)."""
    if a.dtype != np.float64:
        return (a.astype(np.float64) * b + c).astype(a.dtype)
    high = [x * 134217729.0 - (x * 134217729.0 - x) for x in (a, b)]
    low = [x - h for x, h in zip((a, b), high, strict=True)]
    p = a * b
    below = ((high[0] * high[1] - p) + high[0] * low[1] + low[0] * high[1]) + low[0] * low[1]
    total = p + c
    part = total - p
    exact = total + (((p - (total - part)) + (c - part)) + below)
    return np.where(np.isfinite(exact) & (exact != 0), exact, total)  # -0 stays


def _bits(count: Callable[[str], int]) -> Function:
    """Returns the function that applies `count` to the binary digits of each element."""

    def run(x: Array) -> Array:
        digits = 8 * x.dtype.itemsize
        values, inverse = np.unique(x.view(_unsigned(x.dtype)), return_inverse=True)
        return np.array([count(f"{int(v):0{digits}b}") for v in values], x.dtype)[inverse].reshape(x.shape)

    return run


def _clamp(x: Array, low: Array, high: Array) -> Array:
    return BINARY["arith.minimumf"](BINARY["arith.maximumf"](x, low), high)


# what lamina-gpu-to-nvvm makes of ops, as these ops
_INTRINSICS = {
    "llvm.nvvm.div.full": "arith.divf", "llvm.maxnum": "arith.maxnumf", "llvm.minnum": "arith.minnumf", "llvm.fabs": "math.absf",
    **{f"llvm.{name}": f"math.{name}" for name in ("ceil", "copysign", "floor", "round", "roundeven", "sqrt", "trunc")},
}  # fmt: skip
_MORE: dict[str, Function] = {
    "arith.divsi": _divsi, "arith.remsi": np.fmod, "arith.floordivsi": np.floor_divide,
    "arith.ceildivsi": lambda a, b: (np.floor_divide(a, b) + (np.remainder(a, b) != 0)).astype(a.dtype),
    "arith.divui": _on_unsigned(np.floor_divide), "arith.remui": _on_unsigned(np.remainder),
    "arith.ceildivui": _on_unsigned(lambda a, b: np.where(a == 0, a, (a - (a != 0)) // b + 1).astype(a.dtype)),
    "arith.mulsi_extended": _extended(True), "arith.mului_extended": _extended(False),
    "math.fma": _fma, "vector.fma": _fma, "math.clampf": _clamp,
    "math.asinh": lambda x: np.arcsinh(x.astype(np.float64)).astype(x.dtype),
    "math.acosh": lambda x: np.arccosh(x.astype(np.float64)).astype(x.dtype),
    "math.atanh": lambda x: np.arctanh(x.astype(np.float64)).astype(x.dtype),
    "math.isnormal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny),
    "math.ctpop": _bits(lambda d: d.count("1")), "math.ctlz": _bits(lambda d: len(d) - len(d.lstrip("0"))),
    "math.cttz": _bits(lambda d: len(d) - len(d.rstrip("0"))),
}  # fmt: skip

_APPROXIMATE: dict[str, Function] = {
    "ex2": UNARY["math.exp2"], "lg2": UNARY["math.log2"], "rcp": lambda x: (1 / x).astype(x.dtype), "rsqrt": UNARY["math.rsqrt"],
    "sqrt": np.sqrt, "tanh": UNARY["math.tanh"], "sin": UNARY["math.sin"], "cos": UNARY["math.cos"],
}  # fmt: skip
_APPROXIMATION = re.compile(rf"\b({'|'.join(_APPROXIMATE)})\.approx(\.ftz)?")


def _approximation(op: ir.Operation) -> Function | None:
    """Returns the function for nvvm ops, LLVM intrinsics and PTX lines that are a single approximate instruction; None for
    others."""
    if op.name == "nvvm.ex2":
        found, ftz = "ex2", "true" in str(op.attributes["ftz"])
    else:
        attribute = {"llvm.call_intrinsic": "intrin", "llvm.inline_asm": "asm_string", "nvvm.inline_ptx": "ptxCode"}.get(op.name)
        text = ir.StringAttr(op.attributes[attribute]).value if attribute else op.name if op.name.startswith("nvvm.") else ""
        if text.count(";") > 1 or (match := _APPROXIMATION.search(text)) is None:
            return None
        found, ftz = match[1], match[2] is not None
    run = _APPROXIMATE[found]
    return (lambda x: _flush(run(_flush(x)))) if ftz else run


def _flush(x: Array) -> Array:
    """Replaces denormals by zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(np.zeros_like(x), x), x)


def combine(kind: str) -> Function:
    """Returns the operator of a vector.reduction."""
    floats = {
        "add": "addf",
        "mul": "mulf",
        "maximumf": "maximumf",
        "minimumf": "minimumf",
        "maxnumf": "maxnumf",
        "minnumf": "minnumf",
    }
    ints = {"maxsi": "maxsi", "minsi": "minsi", "maxui": "maxui", "minui": "minui", "and": "andi", "or": "ori", "xor": "xori"}
    return BINARY["arith." + (floats | ints)[kind]]


def reduce(x: Array, op: ir.Operation, start: Sequence[Array]) -> Array:
    """Computes vector.reduction of [lanes, n] to [lanes], in order."""
    kind, element = str(op.attributes["kind"]).split("<")[1][:-1], op.results[0].type
    f, parts = combine(kind), [*start, *np.moveaxis(x, 1, 0)]
    total = parts[0]
    for part in parts[1:]:
        total = f(total, part)
        total = round_bf16(total) if is_bf16(element) else total
    return total
