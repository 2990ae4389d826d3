"""Scalar expressions: the value of one tensor element as a DAG of loads, positions and arithmetic.

f16 and bf16 are f32 here; only loads and stores know the narrow type. `Interner` hash-conses nodes, so equal expressions are the
same object.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

from lamina.core.sizes import Size, SizeLike, Undecided
from lamina.core.walks import operands_first

from .affine import Affine, Axis, IndexTerm
from .guards import Bound, Guard


def bounds_in(expressions: "Iterable[Expr]") -> list[Bound]:
    """Returns the bounds of loads and conditions, each once, without checks of the user's indices."""
    guards = (e.guard for e in expressions if isinstance(e, Load | InBounds))
    return list(dict.fromkeys(bound for guard in guards for bound in guard if not bound.message))


def varies_over(index: Affine, axes: tuple[Axis, ...]) -> bool:
    """Returns whether an index varies over one of `axes`."""
    return any(t in axes if isinstance(t, Axis) else not t.free.isdisjoint(axes) for t, _ in index.terms)


class Expr(IndexTerm):
    """Base of scalar expressions: `dtype`, the axes it varies over (`free`) and its operands (`args`)."""

    dtype: str
    free: frozenset[Axis]
    args: tuple["Expr", ...] = ()


@dataclass(eq=False)
class Const(Expr):
    """A constant."""

    value: SizeLike | float | bool
    dtype: str

    def __post_init__(self) -> None:
        self.free = frozenset()


@dataclass(eq=False)
class Position(Expr):
    """An integer that is an affine function of the loops."""

    index: Affine
    dtype: str

    def __post_init__(self) -> None:
        self.free, self.args = _reads(self.index, ())


@dataclass(eq=False)
class Load(Expr):
    """The element of `tensor`'s memory at `offset` (in elements); 0 if the guard fails."""

    tensor: Any
    offset: Affine
    guard: Guard
    dtype: str

    def __post_init__(self) -> None:
        self.free, self.args = _reads(self.offset, self.guard)


@dataclass(eq=False)
class InBounds(Expr):
    """Returns whether a guard holds, as i1."""

    guard: Guard
    dtype: str = "i1"

    def __post_init__(self) -> None:
        self.free, self.args = _reads(Affine(), self.guard)


@dataclass(eq=False)
class Apply(Expr):
    """An arith or math op. `predicate` is the comparison's, else None."""

    op: str
    operands: tuple[Expr, ...]
    predicate: int | None
    dtype: str

    def __post_init__(self) -> None:
        self.args = self.operands
        self.free = frozenset().union(*(a.free for a in self.operands))


@dataclass(eq=False)
class Reduce(Expr):
    """Reduction of `arg` over `axes` by the arith op `op`."""

    op: str
    arg: Expr
    axes: tuple[Axis, ...]
    dtype: str

    def __post_init__(self) -> None:
        self.args = (self.arg,)
        self.free = self.arg.free - frozenset(self.axes)


@dataclass(eq=False)
class Scan(Expr):
    """Inclusive scan of `arg` along `axis` by the arith op `op`, or its elements in ascending order (op SORT), which are
    all in one block. With `decay`, the linear recurrence r[i] = decay[i] * r[i - 1] + arg[i]."""

    op: str
    arg: Expr
    axis: Axis
    dtype: str
    decay: Expr | None = None

    def __post_init__(self) -> None:
        self.args = (self.arg,) if self.decay is None else (self.arg, self.decay)
        self.free = frozenset({self.axis}).union(*(a.free for a in self.args))


@dataclass(eq=False)
class Scatter(Expr):
    """A value that a kernel stores at `offset` of a result's memory (in elements), where the guard holds.

    combine        the arith op that combines it with the element there; "" overwrites that
    disjoint_axes  axes along which every iteration has elements of its own
    """

    value: Expr
    offset: Affine
    guard: Guard
    dtype: str
    combine: str = ""
    disjoint_axes: frozenset[Axis] = frozenset()

    def __post_init__(self) -> None:
        free, args = _reads(self.offset, self.guard)
        self.args, self.free = (self.value, *args), self.value.free | free


def _reads(place: Affine, guard: Guard) -> tuple[frozenset[Axis], tuple[Expr, ...]]:
    free: set[Axis] = set()
    args: list[Expr] = []
    for a in (place, *(b.index for b in guard)):
        for term, _ in a.terms:
            if isinstance(term, Axis):
                free.add(term)
            else:
                free |= term.free
                args.append(term)
    return frozenset(free), tuple(args)


def unlisted(root: Expr, known: Container[Expr]) -> list[Expr]:
    """Returns `root` and its operands (through Apply) that are not in `known`, each once, operands first."""
    below = operands_first([root], lambda e: e.operands if isinstance(e, Apply) and e not in known else ())
    return [e for e in below if e not in known]


class Interner:
    """Creates expressions, each once, with the constant folding that indices need."""

    def __init__(self) -> None:
        self._known: dict[tuple, Expr] = {}

    def _make(self, kind: Callable[..., Expr], *fields: Any) -> Any:
        key = (kind, *fields)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = kind(*fields)
        return found

    def const(self, value: SizeLike | float | bool, dtype: str) -> Const:
        """Returns a constant."""
        key = (Const, repr(value), dtype)  # repr tells 0.0 from -0.0 and makes NaN equal to itself
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Const(value, dtype)
        assert isinstance(found, Const)
        return found

    def position(self, index: Affine, dtype: str) -> Expr:
        """Returns an affine position; a constant where no loop occurs."""
        return self._make(Position, index, dtype) if index.terms else self.const(index.constant, dtype)

    def load(self, tensor: Any, offset: Affine, guard: Guard, dtype: str) -> Expr:
        """Returns a load at an element offset, under a guard."""
        return self._make(Load, tensor, offset, guard, dtype)

    def in_bounds(self, guard: Guard) -> Expr:
        """Returns whether `guard` holds; true for an empty guard."""
        return self._make(InBounds, guard) if guard else self.const(True, "i1")

    def reduce(self, op: str, arg: Expr, axes: tuple[Axis, ...]) -> Expr:
        """Returns a reduction over `axes`."""
        return self._make(Reduce, op, arg, axes, arg.dtype)

    def scan(self, op: str, arg: Expr, axis: Axis, decay: Expr | None) -> Expr:
        """Returns an inclusive scan along `axis`."""
        return self._make(Scan, op, arg, axis, arg.dtype, decay)

    def scatter(self, value: Expr, offset: Affine, guard: Guard, combine: str, own: frozenset[Axis]) -> Scatter:
        """Returns the store of a value at an element offset, under a guard, or its combination with the element there."""
        return self._make(Scatter, value, offset, guard, value.dtype, combine, own)

    def apply(self, op: str, operands: tuple[Expr, ...], predicate: int | None, dtype: str) -> Expr:
        """Returns an arith or math op on `operands`, folded where possible."""
        folded = _fold(self, op, operands, predicate, dtype)
        return folded if folded is not None else self._make(Apply, op, operands, predicate, dtype)


CASTS = ("arith.index_cast", "arith.extsi", "arith.trunci", "arith.extui", "arith.index_castui")


def _fold(make: Interner, op: str, xs: tuple[Expr, ...], predicate: int | None, dtype: str) -> Expr | None:
    """Keeps arithmetic on positions a position, and decides comparisons and selects that the loops' extents determine."""
    if op == "arith.select" and isinstance(xs[0], Const):
        return xs[1] if xs[0].value else xs[2]
    if op == "math.fpowi":
        return _power(make, xs[0], xs[1], dtype)
    if not xs or not all(isinstance(x, Position | Const) for x in xs) or xs[0].dtype in ("f32", "f64", "i1"):
        return None
    at = list(map(index_of, xs))
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
        try:
            decided = decide_comparison(predicate, *difference.bounds())
        except Undecided:
            return None
        return None if decided is None else make.const(decided, "i1")
    return None


def index_of(e: Expr) -> Affine:
    """Returns an integer expression as an index: itself a term, unless it is affine in the loops."""
    if isinstance(e, Position):
        return e.index
    if isinstance(e, Const):
        return Affine(e.value if isinstance(e.value, Size) else int(e.value))
    return Affine.of(e)


def _power(make: Interner, x: Expr, n: Expr, dtype: str) -> Expr:
    """Raises x to an integer power: by squaring for constants up to 16 in size, else by math.powf."""
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


def decide_comparison(predicate: int | None, low: float, high: float) -> bool | None:
    """Returns the truth of `difference <predicate> 0` where it is the same for all differences in [low, high], else None."""
    always = {0: low == high == 0, 1: low > 0 or high < 0, 2: high < 0, 3: high <= 0, 4: low > 0, 5: low >= 0}
    never = {0: low > 0 or high < 0, 1: low == high == 0, 2: low >= 0, 3: low > 0, 4: high <= 0, 5: high < 0}
    if predicate not in always:
        return None
    return True if always[predicate] else False if never[predicate] else None


def walk(root: Expr) -> list[Expr]:
    """Returns every expression under `root`, each once, operands first."""
    seen: dict[Expr, None] = {}
    stack = [(root, False)]
    while stack:
        e, ready = stack.pop()
        if ready:
            seen[e] = None
        elif e not in seen:
            stack.append((e, True))
            stack.extend((a, False) for a in e.args if a not in seen)
    return list(seen)
