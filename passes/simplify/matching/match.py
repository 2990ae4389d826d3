"""Matches an expression against a pattern: search with backtracking over commutative operands."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from torch_mlir import ir

from lamina.core.sizes import is_symbolic, typical

from ...ir.rewriting import ZERO, Map
from ..scalars import ScalarRef
from .forms import Forms
from .pattern import Add, CallPattern, NumPattern, Prod, ReducePattern, Term, Var, detail_of

_COMMUTATIVE = {"arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"}


@dataclass(frozen=True)
class PatternBinding:
    """The binding of a parameter: a scalar (`stripped`: behind its casts, `with_casts`: before them) or a number."""

    stripped: ScalarRef | None
    with_casts: ScalarRef | None
    number: float | None = None


@dataclass(frozen=True)
class Env:
    """What the pattern stands for in the program, as far as it is matched.

    vars   the bindings of its parameters, by position
    loops  the program's loops for each of its loops
    size   of the rows that it reduces
    """

    vars: dict[int, PatternBinding] = field(default_factory=dict)
    loops: dict[int, Map] = field(default_factory=dict)
    size: int | None = None

    def opaque(self) -> frozenset[ir.Value]:
        """Returns the values bound to parameters, which normal forms must not decompose."""
        return frozenset(b.stripped.value for b in self.vars.values() if b.stripped is not None)


class Matcher:
    """Matches one pattern.

    scalars    parameters that may be numbers
    rows       whether the pattern reduces rows: then its loops have to correspond to the program's
    tolerance  relative, on constants
    """

    def __init__(self, forms: Forms, pattern: Term, scalars: frozenset[int], rows: bool, tolerance: float) -> None:
        self.forms, self.pattern, self.scalars, self.rows, self.tolerance = forms, pattern, scalars, rows, tolerance

    def find(self, root: ScalarRef) -> Env | None:
        """Returns the first match at `root`, or None."""
        return next(self.match(self.pattern, root, 1.0, Env()), None)

    def near(self, a: float, b: float) -> bool:
        """Returns whether two constants are equal within the tolerance."""
        return a == b or abs(a - b) <= self.tolerance * max(abs(a), abs(b))

    def match(self, p: Term, ref: ScalarRef, scale: float, env: Env) -> Iterator[Env]:
        """Yields the environments in which scale * ref is p."""
        if isinstance(p, Prod):
            yield from self._product(p, ref, scale, env)
        elif isinstance(p, NumPattern):
            number = self.forms.number(ref)
            if number is not None and self.near(number * scale, p.value):
                yield env
        elif scale != 1:
            yield from self._product(Prod(1.0, 0, ((p, 1.0),)), ref, scale, env)
        elif isinstance(p, Var):
            yield from self._bind(p, ref, env)
        elif isinstance(p, Add):
            yield from self._sum(p, ref, env)
        elif isinstance(p, CallPattern):
            yield from self._call(p, ref, env)
        else:
            yield from self._reduce(p, ref, env)

    def _bind(self, p: Var, ref: ScalarRef, env: Env) -> Iterator[Env]:
        bound, stripped = env.vars.get(p.position), self.forms.strip(ref)
        if p.position in self.scalars and (number := self.forms.number(ref)) is not None:
            yield from self._bind_number(p, number, env)
            return
        if self.rows:
            loops = _unify(p.index, stripped.index, env.loops)
            if loops is None or (bound is not None and (bound.stripped is None or bound.stripped.value != stripped.value)):
                return
            yield replace(env, loops=loops, vars=env.vars if bound else env.vars | {p.position: PatternBinding(stripped, ref)})
        elif bound is None:
            yield replace(env, vars=env.vars | {p.position: PatternBinding(stripped, ref)})
        elif bound.stripped == stripped:
            yield env

    def _bind_number(self, p: Var, number: float, env: Env) -> Iterator[Env]:
        bound = env.vars.get(p.position)
        if bound is None:
            yield replace(env, vars=env.vars | {p.position: PatternBinding(None, None, number)})
        elif bound.number is not None and self.near(bound.number, number):
            yield env

    def _call(self, p: CallPattern, ref: ScalarRef, env: Env) -> Iterator[Env]:
        node = self.forms.look(ref)[1]
        if node is None or node.name != p.name or len(node.args) != len(p.args) or detail_of(node.op) != p.detail:
            return
        orders = [p.args, p.args[::-1]] if p.name in _COMMUTATIVE else [p.args]
        for order in orders:
            yield from self._all(list(zip(order, node.args, strict=True)), env)

    def _all(self, pairs: list[tuple[Term, ScalarRef]], env: Env) -> Iterator[Env]:
        if not pairs:
            yield env
            return
        (p, ref), *rest = pairs
        for found in self.match(p, ref, 1.0, env):
            yield from self._all(rest, found)

    def _reduce(self, p: ReducePattern, ref: ScalarRef, env: Env) -> Iterator[Env]:
        reduction = self.forms.reduction(ref)
        if reduction is None or reduction.name != p.name or len(p.loops) != 1 or env.size not in (None, reduction.size):
            return
        inside = replace(env, size=reduction.size, loops=env.loops | {p.loops[0]: reduction.loops})
        yield from self.match(p.inner, reduction.inner, 1.0, inside)

    def _product(self, p: Prod, ref: ScalarRef, scale: float, env: Env) -> Iterator[Env]:
        """Matches factors that are not parameters first: they bind parameters, which then are opaque."""
        parts = [(f, e) for f, e in p.factors if not isinstance(f, Var)]
        variables = [(f, e) for f, e in p.factors if isinstance(f, Var)]
        for matched, taken in self._factors(parts, ref, env, ()):
            for bound in self._unbound(variables, ref, matched):
                if self._adds_up(p, ref, scale, taken, variables, bound):
                    yield self._numbers(variables, p, ref, scale, bound)

    def _factors(
        self, parts: Sequence[tuple[Term, float]], ref: ScalarRef, env: Env, matched: tuple[ScalarRef, ...]
    ) -> Iterator[tuple[Env, tuple[ScalarRef, ...]]]:
        """Yields the ways to match each of `parts` to another factor of a product, with the factors taken."""
        if not parts:
            yield env, matched
            return
        (p, e), *rest = parts
        for factor, exponent in self.forms.product(ref, env.opaque()).factors.items():
            if exponent == e and factor not in matched:
                for extended in self.match(p, factor, 1.0, env):
                    yield from self._factors(rest, ref, extended, (*matched, factor))

    def _unbound(self, variables: Sequence[tuple[Term, float]], ref: ScalarRef, env: Env) -> Iterator[Env]:
        """Binds the parameters that are still unbound, each to one of the scalars of the product.

        In patterns with rows, a bound parameter is bound again, to determine the loops where it is read here.
        """
        if not variables:
            yield env
            return
        (v, _), *rest = variables
        assert isinstance(v, Var)
        bound = env.vars.get(v.position)
        if v.position in self.scalars or (bound is not None and not self.rows):
            yield from self._unbound(rest, ref, env)
            return
        product = self.forms.product(ref, env.opaque())
        for candidate in dict.fromkeys(product.composed_of):
            if self.forms.number(candidate) is None:
                for found in self._bind(v, candidate, env):
                    yield from self._unbound(rest, ref, found)

    def _adds_up(
        self,
        p: Prod,
        ref: ScalarRef,
        scale: float,
        matched: tuple[ScalarRef, ...],
        variables: Sequence[tuple[Term, float]],
        env: Env,
    ) -> bool:
        """Returns whether the parameters and the factors that were matched are all of a product, with the pattern's coefficient."""
        product = self.forms.product(ref, env.opaque())
        left = dict(product.factors)
        for f, e in p.factors:
            if not isinstance(f, Var):
                continue
            bound = env.vars.get(f.position)
            if bound is None or bound.number is not None:
                continue
            scalar = self._bound_scalar(f, bound, env)
            if scalar is None or left.pop(scalar, None) != e:
                return False
        for factor in matched:
            if left.pop(factor, None) is None:
                return False
        if left or (p.sizes and (env.size is None or is_symbolic(env.size))):
            return False
        want = p.coefficient * float(typical(env.size or 1)) ** p.sizes
        free = [v for v, _ in variables if isinstance(v, Var) and v.position in self.scalars]
        return bool(free) or self.near(product.coefficient * scale, want)

    def _bound_scalar(self, f: Var, bound: PatternBinding, env: Env) -> ScalarRef | None:
        """Returns the scalar bound to parameter `f`, at the loops where the pattern reads it."""
        assert bound.stripped is not None
        if not self.rows:
            return bound.stripped
        loops = [loop for d in f.index for loop in env.loops.get(d, ())]
        remaining = iter(loops)
        count = sum(1 for loop in bound.stripped.index if loop != ZERO)
        if len(loops) != count:
            return None
        return ScalarRef(bound.stripped.value, tuple(ZERO if loop == ZERO else next(remaining) for loop in bound.stripped.index))

    def _numbers(self, variables: Sequence[tuple[Term, float]], p: Prod, ref: ScalarRef, scale: float, env: Env) -> Env:
        """Binds the remaining coefficient to the parameter that may be a number."""
        for v, e in variables:
            if isinstance(v, Var) and v.position in self.scalars and v.position not in env.vars:
                want = p.coefficient * float(typical(env.size or 1)) ** p.sizes
                rest = self.forms.product(ref, env.opaque()).coefficient * scale / want
                env = replace(
                    env, vars=env.vars | {v.position: PatternBinding(None, None, math.copysign(abs(rest) ** (1 / e), rest))}
                )
        return env

    def _sum(self, p: Add, ref: ScalarRef, env: Env) -> Iterator[Env]:
        """Matches terms that are not parameters first. A parameter that may be a number takes what the constants differ by."""
        numbers = [t for t in p.terms if isinstance(t, Var) and t.position in self.scalars]
        parts = [t for t in p.terms if t not in numbers]
        parts.sort(key=lambda t: isinstance(t, Var))
        for extended in self._terms(parts, ref, env, ()):
            constant = self.forms.sum(ref, extended.opaque()).constant
            if numbers:
                assert isinstance(numbers[0], Var)
                yield from self._bind_number(numbers[0], constant - p.constant, extended)
            elif self.near(constant, p.constant):
                yield extended

    def _terms(self, parts: list[Term], ref: ScalarRef, env: Env, matched: tuple[ScalarRef, ...]) -> Iterator[Env]:
        """Yields the ways to match each of `parts` to another term of a sum, of which none may be left."""
        total = self.forms.sum(ref, env.opaque())
        if not parts:
            if {term_ref for term_ref, _ in total.terms} == set(matched) and len(total.terms) == len(matched):
                yield env
            return
        p, *rest = parts
        candidates = list(total.terms)
        if isinstance(p, Var) and p.position not in env.vars:
            candidates += [(term_ref, 1.0) for term_ref in total.composed_of[1:] if (term_ref, 1.0) not in candidates]
        for term, sign in candidates:
            if term not in matched:
                for extended in self.match(p, term, sign, env):
                    yield from self._terms(rest, ref, extended, (*matched, term))


def _unify(pattern: Map, index: Map, loops: dict[int, Map]) -> dict[int, Map] | None:
    """Extends `loops` so that the pattern's index maps to the program's; its first dimension may stand for several."""
    loops_read = tuple(i for i in index if i != ZERO)
    if not pattern:
        return loops if not loops_read else None
    split = len(loops_read) - len(pattern) + 1
    if split < 0:
        return None
    parts = [loops_read[:split], *((i,) for i in loops_read[split:])]
    for d, part in zip(pattern, parts, strict=True):
        known = loops.get(d)
        if known is None:
            if any(set(part) & set(other) for other in loops.values()):
                return None
            loops = loops | {d: part}
        elif known != part:
            return None
    return loops
