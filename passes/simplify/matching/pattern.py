"""Pattern terms: expressions in normal form, read from traced functions on tensors.

A pattern is traced with `ROWS` rows of `COLUMNS` elements. The constant COLUMNS stands for the size of the reduction,
whatever it is in the matched program.
"""

from dataclasses import dataclass

from torch_mlir import ir

from ...ir.reading import terminator
from ...ir.rewriting import Map, Reader
from ..scalars import ScalarRef, Scalars
from .forms import Forms

ROWS, COLUMNS = 1013, 1000003


@dataclass(frozen=True)
class Var:
    """Parameter `position`, read at the pattern's loops `index`."""

    position: int
    index: Map


@dataclass(frozen=True)
class NumPattern:
    """A constant."""

    value: float


@dataclass(frozen=True)
class Prod:
    """coefficient * size**sizes * prod(factor ** exponent)."""

    coefficient: float
    sizes: int
    factors: tuple[tuple["Term", float], ...]


@dataclass(frozen=True)
class Add:
    """constant + sum(terms)."""

    constant: float
    terms: tuple["Term", ...]


@dataclass(frozen=True)
class CallPattern:
    """Any other op; `detail` distinguishes ops of the same name (a comparison's predicate)."""

    name: str
    detail: int
    args: tuple["Term", ...]


@dataclass(frozen=True)
class ReducePattern:
    """Reduction of `inner` over `loops` by the op `name`."""

    name: str
    inner: "Term"
    loops: tuple[int, ...]


Term = Var | NumPattern | Prod | Add | CallPattern | ReducePattern


def detail_of(op: ir.Operation) -> int:
    """Returns the predicate of a comparison, -1 for other ops."""
    return int(op.attributes["predicate"].value) if "predicate" in op.attributes else -1


class Function:
    """A traced function: its parameters, its result, and the normal forms of its scalars."""

    def __init__(self, op: ir.Operation) -> None:
        self.op, block = op, op.regions[0].blocks[0]
        self.params: list[ir.Value] = list(block.arguments)
        self.forms = Forms(Scalars(Reader()), float(COLUMNS))
        result = terminator(block).operands[0]
        self.root = ScalarRef(result, tuple(range(len(result.type.shape))))

    def term(self) -> Term:
        """Returns the whole function in normal form. Raises ValueError for a value that has none."""
        return self._read(self.root, {})

    def position(self, ref: ScalarRef) -> int | None:
        """Returns the position of the parameter that `ref` reads, None if it reads none."""
        return self.params.index(ref.value) if ref.value in self.params else None

    def _read(self, ref: ScalarRef, known: dict[ScalarRef, Term]) -> Term:
        at = self.forms.strip(ref)
        if at not in known:
            known[at] = self._make(at, known)
        return known[at]

    def _make(self, ref: ScalarRef, known: dict[ScalarRef, Term]) -> Term:
        """Returns a scalar of the traced pattern as a term. Raises ValueError for one of another kind."""
        forms = self.forms
        if (position := self.position(ref)) is not None:
            return Var(position, ref.index)
        if (number := forms.number(ref)) is not None:
            return NumPattern(number)
        if (reduction := forms.reduction(ref)) is not None:
            return ReducePattern(reduction.name, self._read(reduction.inner, known), reduction.loops)
        kind = forms.kind(ref)
        if kind == "product":
            product = forms.product(ref)
            factors = tuple((self._read(f, known), e) for f, e in product.factors.items())
            return Prod(product.coefficient, product.sizes, factors)
        if kind == "sum":
            total = forms.sum(ref)
            return Add(total.constant, tuple(_signed(self._read(t, known), sign) for t, sign in total.terms))
        node = forms.look(ref)[1]
        if node is None:
            raise ValueError(f"{ref.value} is neither an argument, a constant, a sum over rows nor made of scalar ops")
        return CallPattern(node.name, detail_of(node.op), tuple(self._read(a, known) for a in node.args))


def _signed(term: Term, sign: float) -> Term:
    if sign == 1:
        return term
    if isinstance(term, Prod):
        return Prod(-term.coefficient, term.sizes, term.factors)
    return Prod(-1.0, 0, ((term, 1.0),))


def walk(term: Term) -> list[Term]:
    """Returns `term` and all terms below it."""
    below: tuple[Term, ...] = ()
    if isinstance(term, Prod):
        below = tuple(f for f, _ in term.factors)
    elif isinstance(term, Add):
        below = term.terms
    elif isinstance(term, CallPattern):
        below = term.args
    elif isinstance(term, ReducePattern):
        below = (term.inner,)
    return [term] + [t for child in below for t in walk(child)]
