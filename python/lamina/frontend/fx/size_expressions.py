"""Converts torch's expressions of sizes (sympy) to Lamina's."""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import sympy
from torch.utils._sympy import functions

from lamina.core.errors import CompileError
from lamina.core.sizes import LEAST, Size, SizeLike, least, most
from lamina.core.sizes.solved import Solved, replaced, solved

_ROUNDED = (functions.CeilToInt, functions.FloorToInt, functions.TruncToInt)
_OPAQUE = (functions.FloorDiv, functions.Mod, functions.PythonMod, functions.Max, functions.Min)


def size_of(expr: sympy.Expr, env: Any) -> SizeLike:
    """Returns an expression of a ShapeEnv's symbols as a size: a number where the guards that stand fix it. Raises CompileError for
    a symbol that may be negative, or that has no value yet, and for an expression of another kind."""
    size = _converted(env.simplify(expr), env)
    return replaced(size, _fixed(env)) if isinstance(size, Size) and size.is_opaque else size


_FIXED: WeakKeyDictionary[Any, tuple[int, Solved]] = WeakKeyDictionary()
"""How many conditions of each ShapeEnv are read, and what they fix."""


def _fixed(env: Any) -> Solved:
    """Returns the quotients, remainders and so on that guards or a `torch._check` of the model set equal to numbers. A model with
    an embedding of each patch of an image, for one, has torch compare ((s53 - 16)//16) + 1 with 14."""
    demands = [demand for of_symbol in env.deferred_runtime_asserts.values() for demand in of_symbol]
    conditions = [condition.expr for condition in (*env.guards, *demands)]
    read, known = _FIXED.get(env, (0, {}))
    if read == len(conditions):
        return known
    for expr in conditions:
        if isinstance(expr, sympy.Eq) and expr.rhs.is_Integer:
            try:
                difference = replaced(_converted(expr.lhs, env), known) - int(expr.rhs)
            except CompileError:
                continue
            known = known | solved(difference)
    _FIXED[env] = len(conditions), known
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
        return _at_least(expr, env) or sum(args)
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
    if isinstance(expr, _ROUNDED) and isinstance(expr.args[0], functions.IntTrueDiv):
        over, by = (_converted(a, env) for a in expr.args[0].args)
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


def _at_least(expr: sympy.Add, env: Any) -> SizeLike:
    """Returns a sum `n - min(n, m)`, which is the length of a slice, as `max(0, n - m)`; 0 for others."""
    for least_of in (-arg for arg in expr.args if isinstance(-arg, functions.Min | sympy.Min)):
        rest = expr + least_of
        if rest in least_of.args and len(least_of.args) == 2:
            other = next((arg for arg in least_of.args if arg != rest), rest)
            return most(0, _converted(rest - other, env))
    return 0


def backed_values(env: Any) -> Mapping[sympy.Symbol, sympy.Integer]:
    """Returns the values, in the call that was traced, of symbols that torch may guard on."""
    found: Mapping[sympy.Symbol, sympy.Integer] | None = getattr(env, "backed_var_to_val", None)
    return env.var_to_val if found is None else found  # type: ignore[no-any-return]


def typical_value(symbol: sympy.Symbol, env: Any) -> int | None:
    """Returns the value of a symbol in the call that was traced, as far as choices about speed go by it; None for one that the
    values of tensors decide. The size of an argument that torch may not guard on (`mark_unbacked`) has one as well."""
    known = backed_values(env).get(symbol)
    if known is None and symbol in env.unbacked_inputs:
        known = env.var_to_hint_override.get(symbol, _UNTOLD)
    return None if known is None else int(known)


_UNTOLD = 64
"""The typical value of a symbol whose size nobody tells."""


def tell_typical(symbol: sympy.Symbol, env: Any, size: int) -> None:
    """Notes a size as the typical value of a symbol that torch may not guard on, unless its user has told one
    (`mark_unbacked(hint_override=...)`). One of 0 or 1 says nothing of others."""
    if symbol in env.unbacked_inputs and size >= LEAST:
        env.var_to_hint_override.setdefault(symbol, size)


def _symbol(symbol: sympy.Symbol, env: Any) -> Size:
    typical = typical_value(symbol, env)
    if typical is None:
        raise CompileError(f"the size {symbol} depends on the values of tensors", remedy="see torch.compiler.disable")
    low = env.var_to_range[symbol].lower
    if low < 0:
        raise CompileError(f"{symbol} may be negative", remedy="pass it as a tensor")
    return Size.of(str(symbol), typical, min(int(low), LEAST))
