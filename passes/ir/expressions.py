"""Scalar expressions: what one element of a tensor is, as a graph over loads, positions and arithmetic.

Half types live in f32 here; only loads and stores know them. Nodes are interned by `Interner`, so equal expressions are
the same object.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any

from .affine import Affine, Axis

HALF = ("f16", "bf16")


@dataclass(frozen=True)
class Bound:
    """`low <= at < high`; where `message` is set, a value outside is the user's error, not padding."""

    at: Affine
    low: int
    high: int
    message: str = ""

    @property
    def always(self) -> bool:
        return not self.at.opaque and self.at.bounds()[0] >= self.low and self.at.bounds()[1] < self.high

    @property
    def never(self) -> bool:
        return not self.at.opaque and (self.at.bounds()[1] < self.low or self.at.bounds()[0] >= self.high)

    def implied_by(self, guard: "Guard") -> bool:
        """Whether this holds wherever `guard` does."""
        return self.always or any(b.low + k >= self.low and b.high + k <= self.high for b, k in self._alike(guard))

    def excluded_by(self, guard: "Guard") -> bool:
        """Whether this holds nowhere that `guard` does."""
        return self.never or any(b.low + k >= self.high or b.high + k <= self.low for b, k in self._alike(guard))

    def _alike(self, guard: "Guard") -> "Iterator[tuple[Bound, int]]":
        """The bounds of the same index but for a constant, and by how much this one's index is larger."""
        return ((b, self.at.constant - b.at.constant) for b in guard if not b.message and b.at.terms == self.at.terms)


Guard = tuple[Bound, ...]


def narrowed(guard: Guard, more: Guard) -> Guard:
    """Both guards as one. Bounds of one index become one, so that guards of nested slices stay short; a check of the user's index
    stays behind the bounds that say where it is made."""
    last = max((i for i, b in enumerate(guard) if b.message), default=-1) + 1
    out = list(guard)
    for new in more:
        for i, b in enumerate(out[last:], last):
            if b.at.terms == new.at.terms:
                k = new.at.constant - b.at.constant
                out[i] = Bound(b.at, max(b.low, new.low - k), min(b.high, new.high - k))
                break
        else:
            out.append(new)
    return tuple(out)


def mentions(at: Affine, axes: tuple[Axis, ...]) -> bool:
    """Whether an index varies over one of `axes`."""
    return any(t in axes if isinstance(t, Axis) else not t.free.isdisjoint(axes) for t, _ in at.terms)


class Expr:
    """A scalar: its element type, the axes it varies over and the expressions it is made of."""

    dtype: str
    free: frozenset[Axis]
    args: tuple["Expr", ...] = ()


@dataclass(eq=False)
class Const(Expr):
    value: int | float | bool
    dtype: str

    def __post_init__(self) -> None:
        self.free = frozenset()


@dataclass(eq=False)
class Position(Expr):
    """An integer that is an affine function of the loops."""

    at: Affine
    dtype: str

    def __post_init__(self) -> None:
        self.free, self.args = _reads(self.at, ())


@dataclass(eq=False)
class Load(Expr):
    """Element `at` (offset in elements) of `tensor`'s memory; 0 where the guard fails."""

    tensor: Any
    at: Affine
    guard: Guard
    dtype: str

    def __post_init__(self) -> None:
        self.free, self.args = _reads(self.at, self.guard)


@dataclass(eq=False)
class InBounds(Expr):
    guard: Guard
    dtype: str = "i1"

    def __post_init__(self) -> None:
        self.free, self.args = _reads(Affine(), self.guard)


@dataclass(eq=False)
class Apply(Expr):
    """An arith or math operation. `predicate` is that of a comparison, else None."""

    op: str
    operands: tuple[Expr, ...]
    predicate: int | None
    dtype: str

    def __post_init__(self) -> None:
        self.args = self.operands
        self.free = frozenset().union(*(a.free for a in self.operands))


@dataclass(eq=False)
class Reduce(Expr):
    """`arg` combined by `op` (an arith operation) over `axes`."""

    op: str
    arg: Expr
    axes: tuple[Axis, ...]
    dtype: str

    def __post_init__(self) -> None:
        self.args = (self.arg,)
        self.free = self.arg.free - frozenset(self.axes)


@dataclass(eq=False)
class Scan(Expr):
    """`arg` combined by `op` over `axis` up to and including its current position."""

    op: str
    arg: Expr
    axis: Axis
    dtype: str

    def __post_init__(self) -> None:
        self.args, self.free = (self.arg,), self.arg.free


def _reads(at: Affine, guard: Guard) -> tuple[frozenset[Axis], tuple[Expr, ...]]:
    free: set[Axis] = set()
    args: list[Expr] = []
    for a in (at, *(b.at for b in guard)):
        for term, _ in a.terms:
            if isinstance(term, Axis):
                free.add(term)
            else:
                free |= term.free
                args.append(term)
    return frozenset(free), tuple(args)


def missing(root: Expr, known: Container[Expr]) -> list[Expr]:
    """`root` and the operands below it that are not in `known`, each once, operands first."""
    found: dict[Expr, None] = {}
    stack = [root]
    while stack:
        e = stack[-1]
        operands = e.operands if isinstance(e, Apply) else ()
        waiting = [] if e in found or e in known else [x for x in operands if x not in found and x not in known]
        if waiting:
            stack += reversed(waiting)
            continue
        if e not in known:
            found[e] = None
        stack.pop()
    return list(found)


class Interner:
    """Makes expressions, each one once, with the folding that indices need."""

    def __init__(self) -> None:
        self._known: dict[tuple, Expr] = {}

    def _make(self, kind: Callable[..., Expr], *fields: Any) -> Any:
        key = (kind, *fields)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = kind(*fields)
        return found

    def const(self, value: int | float | bool, dtype: str) -> Const:
        key = (Const, repr(value), dtype)  # repr tells 0.0 from -0.0 and makes NaN equal to itself
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Const(value, dtype)
        assert isinstance(found, Const)
        return found

    def position(self, at: Affine, dtype: str) -> Expr:
        return self._make(Position, at, dtype) if at.terms else self.const(at.constant, dtype)

    def load(self, tensor: Any, at: Affine, guard: Guard, dtype: str) -> Expr:
        return self._make(Load, tensor, at, guard, dtype)

    def in_bounds(self, guard: Guard) -> Expr:
        return self._make(InBounds, guard) if guard else self.const(True, "i1")

    def reduce(self, op: str, arg: Expr, axes: tuple[Axis, ...]) -> Expr:
        return self._make(Reduce, op, arg, axes, arg.dtype)

    def scan(self, op: str, arg: Expr, axis: Axis) -> Expr:
        return self._make(Scan, op, arg, axis, arg.dtype)

    def apply(self, op: str, operands: tuple[Expr, ...], predicate: int | None, dtype: str) -> Expr:
        folded = _fold(self, op, operands, predicate, dtype)
        return folded if folded is not None else self._make(Apply, op, operands, predicate, dtype)


CASTS = ("arith.index_cast", "arith.extsi", "arith.trunci", "arith.extui", "arith.index_castui")


def _fold(make: Interner, op: str, xs: tuple[Expr, ...], predicate: int | None, dtype: str) -> Expr | None:
    """Arithmetic on positions stays a position; comparisons and selects that the loops' extents decide are decided."""
    if op == "arith.select" and isinstance(xs[0], Const):
        return xs[1] if xs[0].value else xs[2]
    if op == "math.fpowi":
        return _power(make, xs[0], xs[1], dtype)
    if not xs or not all(isinstance(x, Position | Const) for x in xs) or xs[0].dtype in ("f32", "f64", "i1"):
        return None
    at = [x.at if isinstance(x, Position) else Affine(int(x.value)) for x in xs if isinstance(x, Position | Const)]
    if op in CASTS and dtype != "i1":
        return make.position(at[0], dtype)
    if op == "arith.addi":
        return make.position(at[0] + at[1], dtype)
    if op == "arith.subi":
        return make.position(at[0] + at[1] * -1, dtype)
    if op == "arith.muli" and not (at[0].terms and at[1].terms):
        return make.position(at[0] * at[1].constant if at[0].terms else at[1] * at[0].constant, dtype)
    difference = at[0] + at[1] * -1 if len(at) == 2 else Affine()
    if op == "arith.cmpi" and not difference.opaque:
        low, high = difference.bounds()
        decided = _compare(predicate, low, high)
        return None if decided is None else make.const(decided, "i1")
    return None


def _power(make: Interner, x: Expr, n: Expr, dtype: str) -> Expr:
    """x to an integer power: by multiplications where the power is small and known."""
    if not isinstance(n, Const) or abs(int(n.value)) > 16:
        return make.apply("math.powf", (x, make.apply("arith.sitofp", (n,), None, dtype)), None, dtype)
    out: Expr | None = None
    left, square = abs(int(n.value)), x
    while left:
        if left & 1:
            out = square if out is None else make.apply("arith.mulf", (out, square), None, dtype)
        left >>= 1
        if left:
            square = make.apply("arith.mulf", (square, square), None, dtype)
    one = make.const(1.0, dtype)
    return one if out is None else make.apply("arith.divf", (one, out), None, dtype) if int(n.value) < 0 else out


def _compare(predicate: int | None, low: int, high: int) -> bool | None:
    """The truth of `difference <predicate> 0` for a difference in [low, high], if it is the same everywhere."""
    always = {0: low == high == 0, 1: low > 0 or high < 0, 2: high < 0, 3: high <= 0, 4: low > 0, 5: low >= 0}
    never = {0: low > 0 or high < 0, 1: low == high == 0, 2: low >= 0, 3: low > 0, 4: high <= 0, 5: high < 0}
    if predicate not in always:
        return None
    return True if always[predicate] else False if never[predicate] else None
