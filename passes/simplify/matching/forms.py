"""Normal form of scalar expressions, in which they are compared: products, sums and reductions.

x * 0.5 / y is the product 0.5 * x^1 * y^-1 however it is bracketed; sqrt and powers with constant exponents are
exponents; subtraction is addition with a sign. Casts between floating-point types are ignored.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass

from torch_mlir import ir

from ...ir.reading import neutral_element, producer
from ...ir.rewriting import ZERO
from ...ir.sizes import sizes_of
from ..scalars import ScalarNode, ScalarRef, Scalars

_PRODUCT = {"arith.mulf", "arith.divf", "arith.negf", "math.powf", "math.fpowi", "math.sqrt", "math.rsqrt"}
_SUM = {"arith.addf", "arith.subf"}
_CASTS = {"arith.extf", "arith.truncf"}
_REDUCERS = ("arith.addf", "arith.mulf", "arith.maximumf", "arith.minimumf")
NONE: frozenset[ir.Value] = frozenset()
MOST = 32  # scalars in a product or sum: patterns have a few; beyond that, operands are not decomposed


@dataclass(frozen=True)
class ProductForm:
    """coefficient * size**sizes * prod(factor ** exponent); `composed_of`: the scalars it was composed of, outermost first."""

    coefficient: float
    sizes: int
    factors: dict[ScalarRef, float]
    composed_of: tuple[ScalarRef, ...]


@dataclass(frozen=True)
class SumForm:
    """constant + sum(sign * term); `composed_of` as in ProductForm."""

    constant: float
    terms: tuple[tuple[ScalarRef, float], ...]
    composed_of: tuple[ScalarRef, ...]


@dataclass(frozen=True)
class ReductionForm:
    """Reduction of `inner` by `name` over `loops` (numbers of its loops inside `inner`), `size` iterations in all."""

    name: str
    inner: ScalarRef
    loops: tuple[int, ...]
    size: int
    op: ir.Operation


class Forms:
    """Reads normal forms, with a cache that is valid until the module changes.

    size  the constant that stands for the size of a reduction, in a pattern (None in programs)
    """

    def __init__(self, scalars: Scalars, size: float | None = None) -> None:
        self.scalars, self.size = scalars, size
        self._stripped: dict[ScalarRef, tuple[ScalarRef, ScalarNode | None]] = {}
        self._loops: dict[Hashable, tuple[int, ...]] = {}
        self._products: dict[tuple[ScalarRef, frozenset[ir.Value]], ProductForm] = {}
        self._sums: dict[tuple[ScalarRef, frozenset[ir.Value]], SumForm] = {}
        self._fresh = 1000  # above any loop of a generic

    def look(self, ref: ScalarRef) -> tuple[ScalarRef, ScalarNode | None]:
        """Returns the scalar behind block arguments, views and casts, and the op that computes it."""
        known = self._stripped.get(ref)
        if known is None:
            resolved = self.scalars.resolve(ref)
            node = self.scalars.node(resolved)
            while node is not None and node.name in _CASTS:
                resolved = self.scalars.resolve(node.args[0])
                node = self.scalars.node(resolved)
            resolved = self._without_units(resolved)
            if node is not None:
                node = ScalarNode(node.op, node.name, tuple(ScalarRef(a.value, resolved.index) for a in node.args))
            known = self._stripped[ref] = (resolved, node)
        return known

    def _without_units(self, ref: ScalarRef) -> ScalarRef:
        """Puts loops and dimensions of extent 1 at ZERO, so that all paths to the same scalar end in equal Refs."""
        if isinstance(ref.value.type, ir.RankedTensorType):
            index = tuple(ZERO if n == 1 else i for i, n in zip(ref.index, sizes_of(ref.value.type), strict=True))
            return ref if index == ref.index else ScalarRef(ref.value, index)
        owner = ref.value.owner
        op = (owner if isinstance(owner, ir.Block) else owner.operation.block).owner.operation
        if not ref.index or op.name != "linalg.generic":
            return ref
        extents = self.scalars.reader.generic(op).extents
        index = tuple(ZERO if extents.get(d) == 1 else i for d, i in enumerate(ref.index))
        return ref if index == ref.index else ScalarRef(ref.value, index)

    def strip(self, ref: ScalarRef) -> ScalarRef:
        """Returns the scalar behind block arguments, views and casts."""
        return self.look(ref)[0]

    def number(self, ref: ScalarRef) -> float | None:
        """Returns the value of a constant, else None."""
        at, node = self.look(ref)
        number = self.scalars.number(at) if node is None else None
        return None if number is None else float(number)

    def kind(self, ref: ScalarRef) -> str:
        """Returns "product", "sum", the name of any other op, or "" for leaves."""
        node = self.look(ref)[1]
        if node is None:
            return ""
        if node.name in ("math.powf", "math.fpowi") and self.number(node.args[1]) is None:
            return node.name
        return "product" if node.name in _PRODUCT else "sum" if node.name in _SUM else node.name

    def product(self, ref: ScalarRef, opaque: frozenset[ir.Value] = NONE) -> ProductForm:
        """Returns `ref` as a product; scalars in `opaque` are not decomposed."""
        if (ref, opaque) not in self._products:
            self._products[ref, opaque] = self._product(ref, opaque)
        return self._products[ref, opaque]

    def sum(self, ref: ScalarRef, opaque: frozenset[ir.Value] = NONE) -> SumForm:
        """Returns `ref` as a sum; scalars in `opaque` are not decomposed."""
        if (ref, opaque) not in self._sums:
            self._sums[ref, opaque] = self._sum(ref, opaque)
        return self._sums[ref, opaque]

    def _product(self, ref: ScalarRef, opaque: frozenset[ir.Value]) -> ProductForm:
        coefficient, sizes, factors, seen = 1.0, 0, dict[ScalarRef, float](), []
        waiting = [(ref, 1.0)]
        while waiting:
            factor, e = waiting.pop()
            resolved, node = self.look(factor)
            seen.append(resolved)
            number = None if node is not None or resolved.value in opaque else self.scalars.number(resolved)
            if number is not None and number == self.size and e == int(e):
                sizes += int(e)
            elif number is not None and (number > 0 or (number < 0 and e == int(e))):
                coefficient *= number**e
            elif len(seen) > MOST or resolved.value in opaque or node is None or e != int(e) or node.name not in _PRODUCT:
                factors[resolved] = factors.get(resolved, 0.0) + e
            elif node.name == "arith.mulf":
                waiting += [(node.args[1], e), (node.args[0], e)]
            elif node.name == "arith.divf":
                waiting += [(node.args[1], -e), (node.args[0], e)]
            elif node.name == "arith.negf":
                coefficient *= (-1.0) ** e
                waiting.append((node.args[0], e))
            elif node.name in ("math.sqrt", "math.rsqrt"):
                waiting.append((node.args[0], 0.5 * e if node.name == "math.sqrt" else -0.5 * e))
            elif (power := self.number(node.args[1])) is not None:
                waiting.append((node.args[0], power * e))
            else:
                factors[resolved] = factors.get(resolved, 0.0) + e
        return ProductForm(coefficient, sizes, {f: e for f, e in factors.items() if e}, tuple(seen))

    def _sum(self, ref: ScalarRef, opaque: frozenset[ir.Value]) -> SumForm:
        constant, terms, seen = 0.0, [], []
        waiting = [(ref, 1.0)]
        while waiting:
            term, sign = waiting.pop()
            resolved, node = self.look(term)
            seen.append(resolved)
            number = None if node is not None or resolved.value in opaque else self.scalars.number(resolved)
            if number is not None:
                constant += sign * number
            elif len(seen) > MOST or resolved.value in opaque or node is None or node.name not in (*_SUM, "arith.negf"):
                terms.append((resolved, sign))
            elif node.name == "arith.negf":
                waiting.append((node.args[0], -sign))
            else:
                waiting += [(node.args[1], -sign if node.name == "arith.subf" else sign), (node.args[0], sign)]
        return SumForm(constant, tuple(terms), tuple(seen))

    def reduction(self, ref: ScalarRef) -> ReductionForm | None:
        """Returns `ref` as a reduction by one commutative op from its neutral element; None for anything else."""
        result = self.strip(ref)
        op = producer(result.value)
        if op is None or op.name != "linalg.generic":
            return None
        generic = self.scalars.reader.generic(op)
        number, n_in = result.value.result_number, len(generic.ins)
        combine, map_ = producer(generic.yielded[number]), generic.maps[n_in + number]
        accumulator = generic.args[n_in + number]
        if combine is None or combine.name not in _REDUCERS or map_ is None or len(list(accumulator.uses)) != 1:
            return None
        operands = list(combine.operands)
        if accumulator not in operands or self.number(ScalarRef(generic.outs[number], result.index)) != neutral_element(
            combine.name, "f32"
        ):
            return None
        term = operands[1] if operands[0] == accumulator else operands[0]
        loops = dict(zip(map_, result.index, strict=True))
        fresh = self._numbers((op, result.index), sum(generic.reduction))
        inner, fresh_loops = [], iter(fresh)
        for d, reduced in enumerate(generic.reduction):
            inner.append(next(fresh_loops) if reduced else loops.get(d))
        extents = generic.extents
        if None in inner or any(d not in extents for d in range(len(inner))):
            return None
        size = math.prod(extents[d] for d, reduced in enumerate(generic.reduction) if reduced)
        return ReductionForm(combine.name, ScalarRef(term, tuple(i for i in inner if i is not None)), fresh, size, op)

    def _numbers(self, key: Hashable, count: int) -> tuple[int, ...]:
        """Returns the loop numbers of a reduction, always the same for the same reduction."""
        if key not in self._loops:
            self._loops[key] = tuple(range(self._fresh, self._fresh + count))
            self._fresh += count
        return self._loops[key]
