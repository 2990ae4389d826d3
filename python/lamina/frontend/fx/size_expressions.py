"""Converts torch's expressions of sizes (sympy) to Lamina's."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import sympy
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy import functions

from lamina.core.errors import CompileError
from lamina.core.sizes import LEAST, LOWEST, Size, SizeLike, compute_with, maximum, minimum
from lamina.core.sizes.solved import Equation, Solved, learned_all, substitute_known

from .float_expressions import EXPRESSIONS, rounded_size, simplified

_AS_EXPRESSIONS = {
    "//": functions.FloorDiv, "/": functions.FloorDiv, "%": functions.Mod, "min": functions.Min, "max": functions.Max,
    "root": lambda size, _: functions.FloorToInt(functions.OpaqueUnaryFn_sqrt(functions.ToFloat(size))), **EXPRESSIONS,
}  # fmt: skip
_OPAQUE = (functions.FloorDiv, functions.Mod, functions.PythonMod, functions.Max, functions.Min)


def size_of(expr: sympy.Expr, env: Any) -> SizeLike:
    """Returns an expression of a ShapeEnv's symbols as a size: a number where the guards that stand fix it, and a multiple where
    they say that a number divides it. Raises CompileError for a symbol that has no known sign, or no value yet, and for an
    expression of another kind."""
    sizes_read(env)
    return substitute_known(_converted(simplified(expr, env), env), _READ[env].fixed)


def expression_of(size: SizeLike, env: Any) -> sympy.Expr:
    """Returns a size as an expression of the symbols of the ShapeEnv that it was read from: the inverse of `size_of`."""
    symbols = {symbol.name: symbol for symbol in env.var_to_range}  # sympy tells those apart that are assumed to be positive
    return sympy.sympify(compute_with(size, lambda symbol: symbols[symbol.name], _AS_EXPRESSIONS))


@dataclass
class _Reading:
    """The state of a ShapeEnv as far as it has been read.

    guards, demands  how many of its guards and demands (`torch._check`) have been read
    fixed, open      the values that these give factors, and the equations among them that are not solved
    hints            how many typical values of symbols its user or a call has given
    sizes            the sizes of expressions, given all of this
    """

    guards: int = 0
    demands: int = 0
    fixed: Solved = field(default_factory=dict)
    open: list[Equation] = field(default_factory=list)
    hints: int = 0
    sizes: dict[sympy.Expr, SizeLike] = field(default_factory=dict)


_READ: WeakKeyDictionary[Any, _Reading] = WeakKeyDictionary()


def sizes_read(env: Any) -> dict[sympy.Expr, SizeLike]:
    """Returns the sizes that expressions of a ShapeEnv are, as far as any have been read since it last learned something: reading
    one, with sympy, takes a millisecond, and a graph has the same ones in every node."""
    demands, hints = sum(map(len, env.deferred_runtime_asserts.values())), len(getattr(env, "var_to_hint_override", ()))
    read = _READ.setdefault(env, _Reading())
    if (read.guards, read.demands, read.hints) != (len(env.guards), demands, hints):
        _READ[env] = _Reading(len(env.guards), demands, *_fixed(env, read), hints)
    return _READ[env].sizes


def _fixed(env: Any, read: _Reading) -> tuple[Solved, list[Equation]]:
    """Returns the quotients, remainders and so on that guards or a `torch._check` of the model set equal to numbers, and what these
    say divides sizes, with the equations that say more than that. A model with an embedding of each patch of an image, for one, has
    torch compare ((s53 - 16)//16) + 1 with 14, a group norm s1 % 4 with 0."""
    demands = [demand for of_symbol in env.deferred_runtime_asserts.values() for demand in of_symbol]
    equations = list(read.open)
    for condition in (*env.guards[read.guards :], *(demands if len(demands) != read.demands else ())):
        if isinstance(condition.expr, sympy.Eq):
            with suppress(CompileError):
                one, other = (_converted(side, env) for side in condition.expr.args)
                equations.append((one, other))
    return learned_all(read.fixed, equations)


def _converted(expr: sympy.Expr, env: Any) -> SizeLike:
    """Converts a simplified expression. Raises CompileError for a function that sizes do not have."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return _symbol(expr, env)
    if isinstance(expr, _OPAQUE) and (rounded := env.bound_sympy(expr)).is_singleton():  # by the ranges of its symbols
        return int(rounded.lower)
    rounded = rounded_size(expr, lambda part: _converted(part, env))
    if rounded is not None:
        return rounded
    args = [_converted(a, env) for a in expr.args] if not isinstance(expr, sympy.Pow) else []
    if isinstance(expr, sympy.Add):
        return _at_least(expr, env) or sum(args)
    if isinstance(expr, sympy.Mul):
        return math.prod(args)
    if isinstance(expr, sympy.Pow | functions.PowByNatural) and expr.args[1].is_Integer and expr.args[1] > 0:
        return math.prod([_converted(expr.args[0], env)] * int(expr.args[1]))
    if isinstance(expr, functions.FloorDiv | functions.CleanDiv | functions.IntTrueDiv):  # as a size, each is whole
        return args[0] // args[1]
    if isinstance(expr, functions.Mod | functions.PythonMod):
        return args[0] % args[1]
    if isinstance(expr, functions.Max | sympy.Max):
        return maximum(*args)
    if isinstance(expr, functions.Min | sympy.Min):
        return minimum(*args)
    if isinstance(expr, functions.Identity):
        return args[0]
    raise CompileError(f"a size is {expr}, which is not an expression that Lamina computes", remedy="report the model's op")


def _at_least(expr: sympy.Add, env: Any) -> SizeLike:
    """Returns a sum `n - min(n, m)`, which is the length of a slice, as `max(0, n - m)`; 0 for others."""
    for least_of in (-arg for arg in expr.args if isinstance(-arg, functions.Min | sympy.Min)):
        rest = expr + least_of
        if rest in least_of.args and len(least_of.args) == 2:
            other = next((arg for arg in least_of.args if arg != rest), rest)
            return maximum(0, _converted(rest - other, env))
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


def typical_number(expr: sympy.Expr, env: Any) -> int:
    """Returns the typical value of an expression, also of symbols that the values of tensors decide."""
    found = env.simplify(expr)
    return int(found.xreplace({s: sympy.Integer(typical_value(s, env) or _UNTOLD) for s in found.free_symbols}))


def tell_typical(symbol: sympy.Symbol, env: Any, size: int) -> None:
    """Notes a size as the typical value of a symbol that torch may not guard on, unless its user has told one
    (`mark_unbacked(hint_override=...)`). One of 0 or 1 says nothing of others."""
    if symbol in env.unbacked_inputs and size >= LEAST:
        env.var_to_hint_override.setdefault(symbol, size)


def _symbol(symbol: sympy.Symbol, env: Any) -> SizeLike:
    typical = typical_value(symbol, env)
    if typical is None:
        raise CompileError(f"the size {symbol} depends on the values of tensors", remedy="see torch.compiler.disable")
    low, high = env.var_to_range[symbol].lower, env.var_to_range[symbol].upper
    if low < 0:
        if statically_known_true(env.create_symintnode(symbol, hint=typical) == typical):
            return typical  # by several guards together: `x[-n:]` of as many elements as x
        if high >= 0:
            raise CompileError(f"the sign of {symbol} depends on the call", remedy="pass it as a tensor")
        return Size.of(str(symbol), typical, int(low) if low.is_Integer else LOWEST, int(high))
    return Size.of(str(symbol), typical, min(int(low), LEAST))
