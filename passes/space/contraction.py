"""Finds matrix products in a space: which of its axes are batch, m, n and k."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lamina.core.sizes import SizeLike
from lamina.core.walks import reachable

from ..ir.affine import Affine, Axis
from ..ir.expressions import Apply, Expr, InBounds, Load, Position, Reduce, Scan, Scatter
from .coalesce import Merged, coalesce
from .space import Result, Space

FLOAT8 = "f8E4M3FN"
FACTORS = ("f16", "bf16", FLOAT8)  # element types in memory that tensor cores multiply without conversion
MOST = 2  # products that a block accumulates at a time


@dataclass(frozen=True)
class Contraction:
    """Sums over `inner` of a * b, for one a and one b or more, with their epilogue.

    merged    the space's axes after coalescing
    batch     axes that all factors vary over, from 0
    m, n      the axis that a varies over, and that each b does; None if it has one element
    inner     the axis of k
    a, bs     the factors: loads, or prologues computed of them
    factors   the element type that these are rounded to: of FACTORS, or tf32
    products  the sums themselves, one of each b, among the expressions of `results`
    results   what the epilogue stores
    summed    of each result: along how many columns at a time it is summed before it is stored, 0 for not at all
    centered  of each result: whether that is the sum of the squared distances from the mean of these columns
    stacked   of each result: over how many rows at a time it is summed before it is stored, 0 for not at all
    """

    merged: Merged
    batch: tuple[Axis, ...]
    m: Axis | None
    n: Axis | None
    inner: Axis | None
    a: Expr
    bs: tuple[Expr, ...]
    factors: str
    products: tuple[Reduce, ...]
    results: tuple[Result, ...]
    summed: tuple[int, ...]
    centered: tuple[bool, ...] = ()
    stacked: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[SizeLike, SizeLike, SizeLike]:
        """The extents of m, n and k."""
        return extent(self.m), extent(self.n), extent(self.inner)

    @property
    def batches(self) -> SizeLike:
        """The number of products in the batch."""
        out: SizeLike = 1
        for axis in self.batch:
            out *= axis.extent
        return out

    def is_whole(self, index: Affine) -> bool:
        """Returns whether an index of the space is that of a row-major m x n matrix."""
        if self.batch or self.m is None or self.n is None:
            return False
        index = self.merged.index(index)
        return not index.constant and index.coefficient(self.m) == self.n.extent and index.coefficient(self.n) == 1


def extent(axis: Axis | None) -> SizeLike:
    """Returns the extent of an axis, 1 for None."""
    return 1 if axis is None else axis.extent


def contraction_of(space: Space, factors: str, summed: Sequence[int]) -> Contraction:
    """Returns the products of a space. Raises Unfit if it has none that blocks can compute.

    factors  their element type, f32 where they are rounded to tf32
    summed   see Contraction
    """
    if not 1 <= len(space.reductions) <= MOST:
        raise Unfit(f"{len(space.reductions)} reductions, not one product or two")
    check_surroundings(space)
    merged = coalesce(space.rows, space.columns, space.places())
    if len(merged.columns) > 1:
        raise Unfit(f"the inner dimension of the product is not one axis: {', '.join(map(str, merged.columns))}")
    if not merged.columns:
        raise Unfit("an inner dimension of 1")
    if factors not in (*FACTORS, "f32"):
        raise Unfit(f"factors of {factors}: tensor cores take two of f16, of bf16, of f8E4M3FN, or rounded to tf32")
    found = [_factors(product, merged, factors) for product in space.reductions]
    a, _, batch, m, n = found[0]
    if any((one.a, one.batch, one.m, one.n) != (a, batch, m, n) for one in found):
        raise Unfit("products that share no left factor")
    if any(summed) and n is None:
        raise Unfit("sums along rows of one element")
    bs, results = tuple(one.b for one in found), space.results
    rounded = "tf32" if factors == "f32" else factors
    return Contraction(merged, batch, m, n, merged.columns[0], a, bs, rounded, space.reductions, results, tuple(summed))


def before_rounding(e: Expr) -> Expr:
    """Returns the operand of a rounding to tf32, or of a widening of f8 to f32, which tensor cores do by themselves; another
    expression as it is."""
    narrow = e.operands[0] if isinstance(e, Apply) and e.op == "arith.extf" else e
    if isinstance(narrow, Apply) and narrow.dtype == "tf32":
        return narrow.operands[0]
    return narrow if narrow.dtype == FLOAT8 else e


def factors_of(product: Reduce) -> tuple[Expr, Expr]:
    """Returns the factors of a sum of products. Raises Unfit for any other reduction."""
    arg = product.arg
    if product.op != "arith.addf" or not (isinstance(arg, Apply) and arg.op == "arith.mulf"):
        raise Unfit("a reduction that is not a sum of products of elements")
    one, two = arg.operands
    return one, two


class Unfit(Exception):
    """Raised where a space cannot be computed as asked; the message says why."""


class _Factors(NamedTuple):
    """The factors of one product; see Contraction."""

    a: Expr
    b: Expr
    batch: tuple[Axis, ...]
    m: Axis | None
    n: Axis | None


def _factors(product: Reduce, merged: Merged, dtype: str) -> _Factors:
    """Returns the factors of a product, and which of its axes each varies over. dtype: their element type in memory. Raises Unfit
    unless the product is one of matrices, perhaps in a batch."""
    factors = factors_of(product)
    a, b = map(before_rounding, factors)
    if dtype == "f32" and (a is factors[0] or b is factors[1]):
        raise Unfit("factors of f32 that are not rounded to tf32")
    if FLOAT8 in (a.dtype, b.dtype) and not (isinstance(a, Load) and isinstance(b, Load) and a.dtype == b.dtype):
        raise Unfit("factors of f8E4M3FN that are not in memory")
    for factor in (a, b):
        _check(outside_products(factor, ()), "a factor")
    of_a, of_b = (merged.merged(f.free) for f in (a, b))
    rows = [x for x in merged.rows if x.extent != 1]
    if neither := [x for x in rows if x not in of_a | of_b]:
        raise Unfit(f"the product is the same along {neither[0]}")
    batch = tuple(x for x in rows if x in of_a & of_b)
    only_a, only_b = ([x for x in rows if x in mine and x not in other] for mine, other in ((of_a, of_b), (of_b, of_a)))
    if only_a and only_b and rows.index(only_a[0]) > rows.index(only_b[0]):
        a, b, only_a, only_b = b, a, only_b, only_a  # m is the slower axis of the result
    for axes, name in ((only_a, "rows"), (only_b, "columns")):
        if len(axes) > 1:
            raise Unfit(f"the {name} of the product are not one axis: {', '.join(map(str, axes))}")
    return _Factors(a, b, batch, next(iter(only_a), None), next(iter(only_b), None))


def check_surroundings(space: Space) -> None:
    """Raises Unfit if blocks cannot compute the epilogue."""
    for result in space.results:
        if isinstance(result.expr, Scatter):
            raise Unfit("a result that is stored where other values say")
        if result.full:
            raise Unfit("a result that varies over the inner dimension, too")
        _check(outside_products(result.expr, space.reductions), "an epilogue")


def _check(expressions: Iterable[Expr], place: str) -> None:
    """Raises Unfit for expressions that blocks do not support."""
    for e in expressions:
        if isinstance(e, Position | InBounds | Scan | Reduce) or (isinstance(e, Load) and (e.guard or e.offset.opaque)):
            raise Unfit(f"{place} that reads by position, or under bounds")
        if e.dtype in ("f64", "f8E5M2") or (isinstance(e, Apply) and e.op not in EPILOGUE):
            raise Unfit(f"{e.op if isinstance(e, Apply) else e.dtype} in {place}")


def outside_products(root: Expr, products: tuple[Reduce, ...]) -> list[Expr]:
    """Returns the expressions under `root` except for the products and their operands, each once."""
    if root in products:
        return []
    return list(reachable([root], lambda e: [a for a in e.args if a not in products]))


EPILOGUE = frozenset(
    f"arith.{op}"
    for op in """addf subf mulf divf negf maximumf minimumf maxnumf minnumf cmpf select extf truncf andi ori xori addi subi muli
    cmpi extui extsi sitofp uitofp""".split()
) | frozenset(f"math.{op}" for op in "exp exp2 log log2 sqrt rsqrt erf tanh absf sin cos floor ceil".split())
"""Operations that a product's epilogue supports (targets/triton/printing/printer.py)."""
