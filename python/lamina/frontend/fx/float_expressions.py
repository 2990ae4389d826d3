"""Converts torch's expressions (sympy) of floats computed from sizes, and of their rounding, to Lamina's sizes and back."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import sympy
from torch.utils._sympy import functions

from lamina.core.errors import CompileError
from lamina.core.sizes import SizeLike, at_most
from lamina.core.sizes.roots import root
from lamina.core.sizes.values import float_of, rounded

Convert = Callable[[sympy.Expr], SizeLike]
"""Returns a whole expression as a size."""

_ROUNDED = {
    functions.CeilToInt: "ceil", functions.FloorToInt: "floor", functions.TruncToInt: "trunc", functions.RoundToInt: "round",
}  # fmt: skip
_OF_TWO = {
    functions.IntTrueDiv: "fdiv", functions.FloatTrueDiv: "fdiv", sympy.Mul: "fmul", sympy.Add: "fadd", sympy.Pow: "fpow",
    functions.FloatPow: "fpow", functions.Min: "fmin", functions.Max: "fmax",
}  # fmt: skip
_OF_ONE = {
    functions.OpaqueUnaryFn_sqrt: "fsqrt", functions.OpaqueUnaryFn_log: "flog", functions.OpaqueUnaryFn_log2: "flog2",
    functions.OpaqueUnaryFn_exp: "fexp",
}  # fmt: skip
_FEW = 1 << 20
"""Numerators and denominators up to this one leave room for sizes among the digits of a float."""


def simplified(expr: sympy.Expr, env: Any) -> sympy.Expr:
    """Returns what a ShapeEnv knows an expression to be, but that it takes what is rounded towards 0 for what is rounded down."""
    if not expr.has(functions.TruncToInt):
        return env.simplify(expr)
    return expr.func(*(simplified(arg, env) for arg in expr.args))


def rounded_size(expr: sympy.Expr, convert: Convert) -> SizeLike | None:
    """Returns a rounded float as a size: a quotient where no float on the way is rounded itself. None for other expressions. Raises
    CompileError for a float of another kind."""
    op = _ROUNDED.get(type(expr))
    if op is None:
        return None
    (value,) = expr.args
    if fraction := _fraction(value):
        over, by = map(convert, fraction[:2])
        found = _of_fraction(op, over, by)
        return rounded(op, float_of("fdiv", over, by)) if found is None else found
    if op in ("floor", "trunc") and (square := _square(value)) is not None:
        return root(convert(square))
    return rounded(op, _float(value, convert))


def _of_fraction(op: str, over: SizeLike, by: SizeLike) -> SizeLike | None:
    match op:
        case "ceil":
            return -(-over // by)
        case "round":
            return (2 * over + by) // (2 * by) if isinstance(by, int) and by % 2 else None  # no two numbers are as near
        case "floor":
            return over // by
    return over // by if at_most(0, over) else None


def _float(expr: sympy.Expr, convert: Convert) -> SizeLike:
    if expr.is_integer:
        return convert(expr)
    if isinstance(expr, functions.ToFloat):
        return convert(expr.args[0])
    if isinstance(expr, sympy.Float):
        return float_of("fdiv", *float(expr).as_integer_ratio())
    if expr.func not in {**_OF_TWO, **_OF_ONE}:
        raise CompileError(f"a size is made of {expr}, which is not a float that Lamina computes", remedy="report the model's op")
    if len(expr.args) > 2 and expr.func in (sympy.Mul, sympy.Add):
        raise CompileError(f"a size is made of {expr}, which does not tell in which order floats are rounded")
    args = [_float(arg, convert) for arg in expr.args]
    return float_of(_OF_ONE[expr.func], args[0], 1) if expr.func in _OF_ONE else reduce(partial(float_of, _OF_TWO[expr.func]), args)


def _fraction(expr: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr, bool] | None:
    """Returns a quotient of sizes, or a size times a number of few digits, as numerator, denominator and whether the float is
    exactly that; else it is the one that is nearest, which rounds to the same integer. None for what floats may round before."""
    match expr:
        case functions.ToFloat(args=(size,)):
            return size, sympy.S.One, True
        case sympy.Float():
            over, by = map(sympy.Integer, float(expr).as_integer_ratio())
            return (over, by, True) if max(abs(over), by) <= _FEW else None
        case functions.IntTrueDiv(args=(over, by)):
            return over, by, _divides_exactly(by)
        case functions.FloatTrueDiv() | sympy.Mul() | sympy.Add():
            parts = list(map(_fraction, expr.args))
            if any(part is None or not part[2] for part in parts):
                return None
            return reduce({sympy.Mul: _times, sympy.Add: _plus}.get(expr.func, _divide), parts)  # type: ignore[arg-type]
    return None


_Fraction = tuple[sympy.Expr, sympy.Expr, bool]


def _times(a: _Fraction, b: _Fraction) -> _Fraction:
    return a[0] * b[0], a[1] * b[1], True


def _plus(a: _Fraction, b: _Fraction) -> _Fraction:
    return a[0] * b[1] + b[0] * a[1], a[1] * b[1], True


def _divide(a: _Fraction, b: _Fraction) -> _Fraction:
    return a[0] * b[1], a[1] * b[0], _divides_exactly(a[1] * b[0])


def _divides_exactly(by: sympy.Expr) -> bool:
    """Returns whether a float divided by a number has the same digits."""
    return bool(by.is_Integer) and 0 < by <= _FEW and int(by) & (int(by) - 1) == 0


def _square(expr: sympy.Expr) -> sympy.Expr | None:
    """Returns the size whose root an expression is, `n ** 0.5` or `math.sqrt(n)`; None for others. Rounded down, that of floats is
    the whole number's for any size that memory holds."""
    match expr:
        case functions.FloatPow(args=(functions.ToFloat(args=(size,)), power)) if power == 0.5:
            return size
        case functions.OpaqueUnaryFn_sqrt(args=(functions.ToFloat(args=(size,)),)):
            return size
    return None


def _as_float(value: Any) -> sympy.Expr:
    """Returns an operand of a float's op."""
    value = sympy.sympify(value)
    return functions.ToFloat(value) if value.is_integer else value


def _quotient(left: Any, right: Any) -> sympy.Expr:
    if isinstance(left, int) and isinstance(right, int):
        return sympy.Float(left / right)
    whole = all(sympy.sympify(side).is_integer for side in (left, right))
    return functions.IntTrueDiv(left, right) if whole else functions.FloatTrueDiv(_as_float(left), _as_float(right))


def _applied(function: Any, one: Any, other: Any) -> sympy.Expr:
    if function in _OF_TWO:
        return function(_as_float(one), _as_float(other))
    return function(_as_float(one) if function in _OF_ONE else one)


EXPRESSIONS: dict[str, Callable[[Any, Any], sympy.Expr]] = {
    **{op: partial(_applied, function) for function, op in {**_OF_TWO, **_OF_ONE, **_ROUNDED}.items()},
    "fdiv": _quotient,
}
"""The expression of each op of floats."""
