"""Elementwise arith and math ops on numpy arrays, with the GPU's approximate instructions at their worst documented error."""

from collections.abc import Callable

import numpy as np
from torch_mlir import ir

Array = np.ndarray
# worst documented error of each marked op, in ulp of its f32 result (PTX ISA 8.x; see lamina.passes.lower.gpu_math.hardware)
ULPS = {"math.exp2": 2.0, "arith.divf": 2.0, "math.rsqrt": 2.0, "math.sqrt": 1.0}
_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_COMPARE: dict[int, Callable[[Array, Array], Array]] = {
    0: np.equal,
    1: np.not_equal,
    2: np.less,
    3: np.less_equal,
    4: np.greater,
    5: np.greater_equal,
}
_FCMP = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 6: "!="}


class Emulator:
    """Runs a function of one block. `rng` chooses the errors: each is the largest allowed, up or down, or none."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, function: ir.Operation, *inputs: Array) -> Array:
        block = function.regions[0].blocks[0]
        values = dict(zip(block.arguments, inputs, strict=True))
        with np.errstate(all="ignore"):
            for op in block.operations:
                operation = op.operation
                operands = [values[v] for v in operation.operands]
                if operation.name == "func.return":
                    return operands[0]
                values[operation.results[0]] = self.run(operation, operands, inputs[0].shape)
        raise AssertionError("no return")

    def run(self, op: ir.Operation, x: list[Array], shape: tuple[int, ...]) -> Array:
        name, kind = op.name.partition(".")[2], _dtype(op.results[0].type)
        if op.name == "arith.constant":
            value = op.attributes["value"]
            return np.full(shape, (value.get_splat_value() if isinstance(value, ir.DenseElementsAttr) else value).value).astype(
                kind
            )
        if op.name in ULPS and "fastmath" in op.attributes and "afn" in str(op.attributes["fastmath"]):
            return self.approximate(op, x)
        if op.name in ("arith.cmpf", "arith.cmpi"):
            return _compare(op.name, ir.IntegerAttr(op.attributes["predicate"]).value, *x)
        if op.name == "arith.bitcast":
            return x[0].view(kind)
        if op.name == "arith.select":
            return np.where(x[0], x[1], x[2])
        if name in _CASTS:
            return x[0].astype(kind)
        return _OPS[op.name](*x).astype(kind)

    def approximate(self, op: ir.Operation, x: list[Array]) -> Array:
        wide = [v.astype(np.float64) for v in x]
        if op.name == "math.exp2":
            exact = np.exp2(np.where(np.abs(wide[0]) < 2.0**-126, 0, wide[0]))
        elif op.name == "arith.divf" and "arcp" in str(op.attributes["fastmath"]):
            y = np.where(np.abs(wide[1]) < 2.0**-126, np.copysign(0.0, wide[1]), wide[1])
            reciprocal = self._perturbed(1.0 / y, 1.0)
            reciprocal = np.where(np.abs(reciprocal) < 2.0**-126, np.copysign(np.float32(0), reciprocal), reciprocal)
            return x[0] * reciprocal
        else:
            exact = {"arith.divf": np.divide, "math.rsqrt": lambda v: 1.0 / np.sqrt(v), "math.sqrt": np.sqrt}[op.name](*wide)
        result = self._perturbed(exact, ULPS[op.name])
        return np.where(np.abs(result) < 2.0**-126, np.float32(0), result) if op.name == "math.exp2" else result

    def _perturbed(self, exact: Array, ulps: float) -> Array:
        """Returns the nearest f32 of the exact result, moved by as many ulp as keep it within `ulps` of it."""
        rounded = exact.astype(np.float32)
        finite = np.isfinite(rounded) & (rounded != 0)
        last = np.spacing(np.where(finite, np.abs(rounded), np.float32(1))).astype(np.float64)
        moved = (exact + self.rng.integers(-1, 2, exact.shape) * (ulps - 0.5) * last).astype(np.float32)
        exact_power = finite & (exact == rounded) & (np.frexp(rounded)[0] == 0.5)  # powers of two come out exactly
        return np.where(finite & ~exact_power, moved, rounded)


def _dtype(of: ir.Type) -> np.dtype:
    element = of.element_type if isinstance(of, ir.VectorType) else of
    if str(element) in _FLOATS:
        return np.dtype(_FLOATS[str(element)])
    return np.dtype(bool) if element.width == 1 else np.dtype(f"int{element.width}")


def _compare(name: str, predicate: int, a: Array, b: Array) -> Array:
    if name == "arith.cmpi":
        if predicate > 5:
            a, b, predicate = a.view(a.dtype.str.replace("i", "u")), b.view(b.dtype.str.replace("i", "u")), predicate - 4
        return _COMPARE[predicate](a, b)
    unordered = np.isnan(a) | np.isnan(b)
    if predicate in (7, 14):
        return ~unordered if predicate == 7 else unordered
    base = predicate if predicate < 7 else predicate - 7
    less = {1: a == b, 2: a > b, 3: a >= b, 4: a < b, 5: a <= b, 6: (a != b) & ~unordered}[base]
    return less if predicate < 7 else less | unordered


def _fma(a: Array, b: Array, c: Array) -> Array:
    return a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)


def _unsigned(a: Array) -> Array:
    return a.view(a.dtype.str.replace("i", "u"))


_CASTS = {"extf", "truncf", "sitofp", "trunci", "extsi", "fptosi"}
_OPS: dict[str, Callable[..., Array]] = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide, "arith.negf": np.negative,
    "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin, "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor, "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift, "arith.shrui": lambda a, b: (_unsigned(a) >> _unsigned(b)).view(a.dtype),
    "arith.extui": _unsigned, "math.fma": _fma, "math.absf": np.abs, "math.copysign": np.copysign, "math.sqrt": np.sqrt,
    "math.trunc": np.trunc, "math.roundeven": np.rint, "math.floor": np.floor,
}  # fmt: skip
