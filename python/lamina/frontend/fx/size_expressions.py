"""Converts torch's expressions of sizes (sympy) to Lamina's."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import sympy
from torch.utils._sympy import functions

from lamina.core.errors import CompileError
from lamina.core.sizes import LEAST, Size, SizeLike, least, most
from lamina.core.sizes.solved import Solved, learned, replaced

_ROUNDED = (functions.CeilToInt, functions.FloorToInt, functions.TruncToInt)
_FEW = 1 << 20
"""Numerators and denominators up to this one leave room for sizes among the digits of a float."""
_OPAQUE = (functions.FloorDiv, functions.Mod, functions.PythonMod, functions.Max, functions.Min)


def size_of(expr: sympy.Expr, env: Any) -> SizeLike:
    """Returns an expression of a ShapeEnv's symbols as a size: a number where the guards that stand fix it, and a multiple where
    they say that a number divides it. Raises CompileError for a symbol that may be negative, or that has no value yet, and for an
    expression of another kind."""
    return replaced(_converted(env.simplify(expr), env), _fixed(env))


_FIXED: WeakKeyDictionary[Any, tuple[int, Solved]] = WeakKeyDictionary()
"""How many guards of each ShapeEnv are read, and what they fix."""


def _fixed(env: Any) -> Solved:
    """Returns the quotients, remainders and so on that guards set equal to numbers, and what they say divides sizes.
    A model with an embedding of each patch of an image, for one, has torch compare ((s53 - 16)//16) + 1 with 14, a group norm
    s1 % 4 with 0."""
    read, known = _FIXED.get(env, (0, {}))
    for guard in env.guards[read:]:
        if isinstance(guard.expr, sympy.Eq):
            with suppress(CompileError):
                known = learned(known, *(_converted(side, env) for side in guard.expr.args))
    _FIXED[env] = len(env.guards), known
    return known


def _converted(expr: sympy.Expr, env: Any) -> SizeLike:
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return _symbol(expr, env)
    if isinstance(expr, _OPAQUE) and (found := env.bound_sympy(expr)).is_singleton():  # by the ranges of its symbols
        return int(found.lower)
    args = [_converted(a, env) for a in expr.args] if not isinstance(expr, (sympy.Pow, *_ROUNDED)) else []
    if isinstance(expr, sympy.Add):
        return sum(args)
    if isinstance(expr, sympy.Mul):
        out: SizeLike = 1
        for a in args:
            out = out * a
        return out
    if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and expr.exp > 0:
        base, out = _converted(expr.base, env), 1
        for _ in range(int(expr.exp)):
            out = out * base
        return out
    if isinstance(expr, _ROUNDED) and (fraction := _fraction(expr.args[0])):
        over, by = (_converted(a, env) for a in fraction)
        return -(-over // by) if isinstance(expr, functions.CeilToInt) else over // by  # sizes are not negative
    if isinstance(expr, functions.FloorDiv | functions.CleanDiv | functions.IntTrueDiv):  # as a size, each is whole
        return args[0] // args[1]
    if isinstance(expr, functions.Mod | functions.PythonMod):
        return args[0] % args[1]
    if isinstance(expr, functions.Max | sympy.Max):
        return most(*args)
    if isinstance(expr, functions.Min | sympy.Min):
        return least(*args)
    if isinstance(expr, functions.Identity):
        return args[0]
    raise CompileError(f"a size is {expr}, which is no expression that Lamina computes", remedy="report the model's op")


def _fraction(expr: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr] | None:
    """Returns a quotient of sizes, or a size times a number of few digits, as numerator and denominator; None for what floats may
    round."""
    match expr:
        case functions.IntTrueDiv():
            return expr.args  # type: ignore[no-any-return]
        case functions.ToFloat():
            return expr.args[0], sympy.Integer(1)
        case functions.FloatTrueDiv():
            over, by = map(_fraction, expr.args)
            return (over[0], by[0]) if over and by and over[1] == by[1] == 1 else None
        case sympy.Float():
            over, by = map(sympy.Integer, float(expr).as_integer_ratio())
            return (over, by) if max(abs(over), by) <= _FEW else None
        case sympy.Mul():
            parts: list[Any] = list(map(_fraction, expr.args))
            if None in parts or any(isinstance(part, functions.IntTrueDiv | functions.FloatTrueDiv) for part in expr.args):
                return None
            return tuple(map(sympy.Mul, *parts))
    return None


def typical_values(env: Any) -> Mapping[sympy.Symbol, sympy.Integer]:
    """Returns the values of symbols in the call that was traced."""
    return getattr(env, "backed_var_to_val", None) or env.var_to_val  # type: ignore[no-any-return]


def _symbol(symbol: sympy.Symbol, env: Any) -> Size:
    held = typical_values(env)
    if symbol not in held:
        raise CompileError(f"the size {symbol} depends on the values of tensors", remedy="see torch.compiler.disable")
    low = env.var_to_range[symbol].lower
    if low < 0:
        raise CompileError(f"{symbol} may be negative", remedy="pass it as a tensor")
    return Size.of(str(symbol), int(held[symbol]), min(int(low), LEAST))
