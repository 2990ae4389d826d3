"""Traces linalg and tensor ops to scalar expressions: what is element `index` of a tensor?

`Tracer.element(value, index)` walks producers on demand: views become index arithmetic, pointwise generics are inlined, reductions
become `Reduce`. Block arguments and values that `is_memory` accepts become loads from memory.
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch_mlir import ir

from lamina.core.dtypes import HALF
from lamina.dialects.graph import CheckElementOp

from ..ir.affine import Affine, Axis, NotAffine, offset, row_major, unflatten
from ..ir.expressions import Const, Expr, Interner, Load, index_of, varies_over
from ..ir.guards import Bound, Guard, with_index_check
from ..ir.reading import (
    CHECKED,
    EQUALITY,
    REDUCERS,
    Generic,
    Index,
    Untraceable,
    compared_as,
    compute_type,
    element_type,
    neutral_element,
    operand_index,
    producer,
    shape_of,
)
from ..ir.sizes import SIZE, read_size
from ..ir.views import reshaped_memory, source_index
from . import moves as trace_moves
from .deep_memo import DeepMemo
from .digits import Digits, Undivided

Columns = Callable[[Generic], tuple[Index, tuple[Axis, ...]]]
_BY_DIMENSION = (
    "linalg.generic", "linalg.transpose", "linalg.broadcast", "linalg.fill", "tensor.expand_shape", "tensor.collapse_shape",
    "tensor.cast", "tensor.extract_slice", "tensor.splat", "tensor.from_elements", "tensor.empty", "arith.constant",
)  # fmt: skip
"""Ops whose operands are read at indices of their own dimensions alone, so that digits of an index may be joined again there."""


class Tracer:
    """Builds the expressions of elements, each once.

    is_memory   returns whether a value is loaded from memory; others are computed
    strides_of  returns the strides of a value in memory, in elements
    columns     returns the index of every reduced loop of a generic, in order, and the axes that they run over: fresh ones by
                default
    generics    the generics that were read so far, by op, for tracers to share
    divide      an index that no split of axes makes affine is divided at run time; otherwise it raises Untraceable
    round_half  values that eager stores in a half type are rounded to that type
    """

    def __init__(
        self,
        is_memory: Callable[[ir.Value], bool] = lambda _: False,
        strides_of: Callable[[ir.Value], tuple[int, ...]] = lambda v: row_major(shape_of(v)),
        columns: Columns | None = None,
        generics: dict[ir.Operation, Generic] | None = None,
        divide: bool = False,
        round_half: bool = False,
    ) -> None:
        self.make, self.divide, self.round_half = Interner(), divide, round_half
        self.is_memory, self.strides_of, self.columns = is_memory, strides_of, columns or self._fresh_columns
        self.generics = {} if generics is None else generics
        self._memo: DeepMemo[Expr] = DeepMemo()
        self._digits = Digits(self.make)
        self._axes: dict[ir.Operation, tuple[Index, tuple[Axis, ...]]] = {}

    def _fresh_columns(self, g: Generic) -> tuple[Index, tuple[Axis, ...]]:
        if g.op not in self._axes:
            axes = tuple(Axis(n, f"k{i}") for i, (n, r) in enumerate(zip(g.extents, g.reduced, strict=True)) if r)
            self._axes[g.op] = tuple(Affine.of(a) for a in axes), axes
        return self._axes[g.op]

    def generic(self, op: ir.Operation) -> Generic:
        """Reads a linalg.generic, once. Raises Untraceable if an indexing map is not affine."""
        if op not in self.generics:
            try:
                self.generics[op] = Generic.read(op)
            except NotAffine:
                raise Untraceable(op.results[0], "an indexing map that is not affine") from None
        return self.generics[op]

    def result(self, value: ir.Value, index: Index, strides: tuple[int, ...]) -> tuple[Expr, Affine]:
        """Returns the expression that is stored for element `index` of a tensor (see computed_shape), and its offset in memory."""
        op = producer(value)
        if op is None or not trace_moves.is_stored(op):
            return self.element(value, index, root=True), offset(index, strides)
        return trace_moves.trace_stored(self, op, index, strides)

    def computed(self) -> frozenset[ir.Value]:
        """Returns the tensors whose elements were computed, not loaded from memory."""
        return frozenset(value for value, *_ in self._memo if isinstance(value.type, ir.RankedTensorType))

    def element(self, value: ir.Value, index: Index, guard: Guard = (), *, root: bool = False) -> Expr:
        """Returns element `index` of tensor `value` where `guard` holds. `root`: compute it even if it is a memory value."""
        op = producer(value)
        if 0 in shape_of(value):  # no element is ever read
            return self.make.const(0, compute_type(element_type(value)))
        in_memory = op is None or (not root and self.is_memory(value))
        memory = (value, self.strides_of(value)) if in_memory else reshaped_memory(value, self._in_memory, self.strides_of)
        if memory is not None:
            source, strides = memory
            at = self._digits.joined(offset(index, strides))
            self._refuse_digits((at, *(b.index for b in guard)))
            checked = any(b.message for b in guard)  # the user's index is checked only where all other bounds hold
            needed = tuple(b for b in guard if not b.always and (checked or _concerns(b, at)))
            return self.make.load(source, at, needed, compute_type(element_type(value)))
        assert op is not None
        traced = op

        def compute() -> Expr:
            """Traces the element. Raises Untraceable for an index that is not affine."""
            try:
                return self._element(traced, value, index, guard)
            except NotAffine:
                culprit = value if self._in_memory(traced.operands[0]) else traced.operands[0]
                raise Untraceable(culprit, f"{traced.name} whose index is not affine") from None

        return self._memo.get((value, index, guard), compute)

    def _in_memory(self, value: ir.Value) -> bool:
        return producer(value) is None or self.is_memory(value)

    def _unflatten(self, index: Affine, shape: tuple[int, ...]) -> Index:
        """Returns the index in a shape of a row-major position, by run-time divisions if it is not affine."""
        index = self._digits.joined(index)
        try:
            return unflatten(index, shape)
        except NotAffine:
            return self._digits.of(index, shape)

    def _refuse_digits(self, index: Iterable[Affine]) -> None:
        """Raises Undivided for indices that would have to be divided at run time, unless they may be."""
        if not self.divide and any(map(self._digits.among, index)):
            raise Undivided

    def _element(self, op: ir.Operation, value: ir.Value, index: Index, guard: Guard) -> Expr:
        """Returns element `index` of a value as an expression. Raises Untraceable for ops whose results have to be in memory."""
        if op.name not in _BY_DIMENSION:
            self._refuse_digits(index)
        match op.name:
            case "linalg.generic":
                return self._generic_element(self.generic(op), ir.OpResult(value).result_number, index, guard)
            case "linalg.fill":
                return self.scalar(op.operands[0], {}, (), guard)
            case "linalg.transpose" | "linalg.broadcast" | "tensor.cast" | "tensor.expand_shape" | "tensor.extract_slice":
                return self.element(op.operands[0], source_index(op, index), guard)
            case "tensor.collapse_shape":
                shape, source = shape_of(op.operands[0]), list[Affine]()
                for at, dims in zip(index, op.attributes["reassociation"], strict=True):
                    source += self._unflatten(at, tuple(shape[d.value] for d in dims))
                if not index:
                    source = [Affine()] * len(shape)
                try:
                    return self.element(op.operands[0], tuple(source), guard)
                except Undivided:
                    raise NotAffine from None
            case "tensor.insert_slice":
                return trace_moves.trace_insert_slice(self, op, index, guard)
            case "graph.scan" | "graph.sort":
                return trace_moves.trace_scan(self, op, index, guard)
            case "tensor.pad":
                return trace_moves.trace_pad(self, op, index, guard)
            case "tensor.concat":
                return trace_moves.trace_concat(self, op, index, guard)
            case "tensor.splat" | "tensor.from_elements" if len(op.operands) == 1:
                return self.scalar(op.operands[0], {}, (), guard)
            case "tensor.empty":  # undefined contents: any value will do
                return self.make.const(0, compute_type(element_type(value)))
            case "arith.constant":
                dense = ir.DenseElementsAttr(op.attributes["value"])
                if dense.is_splat:
                    return self._const(dense.get_splat_value(), element_type(value))
        raise Untraceable(value, f"{op.name} has to be in memory")

    def _const(self, attribute: ir.Attribute, dtype: str) -> Expr:
        number: Any = attribute.value  # type: ignore[attr-defined]
        return self.make.const(bool(number) if dtype == "i1" else number, compute_type(dtype))

    def _generic_element(self, g: Generic, k: int, index: Index, guard: Guard) -> Expr:
        """Returns the expression of element `index` of result `k` of a generic: of its body, or a reduction over its body."""
        loops: list[Affine | None] = [None] * len(g.extents)
        out = g.inputs + k
        for position, (constant, terms) in zip(index, g.maps[out], strict=True):
            if not terms and not constant:  # a kept dimension of size 1
                continue
            if len(terms) != 1 or terms[0][1] != 1 or constant:
                raise Untraceable(g.op.results[k], "a generic whose output map is not a permutation")
            loops[terms[0][0]] = position
        if not any(g.reduced):
            return self.scalar(g.yields[k], g.body, tuple(x if x is not None else Affine() for x in loops), guard, g)
        where, axes = self.columns(g)
        inner = iter(where)
        loops = [next(inner) if r else x for x, r in zip(loops, g.reduced, strict=True)]
        combine = producer(g.yields[k])
        accumulator = g.block.arguments[out]
        if combine is None or combine.name not in REDUCERS or accumulator not in list(combine.operands):
            raise Untraceable(g.op.results[k], "a reduction by something else than one associative operation")
        arg = next(x for x in combine.operands if x != accumulator)
        if any(varies_over(position, axes) for position in index):
            raise Untraceable(g.op.results[k], "a reduction that has to be computed again for every column")
        # A bound on an outer column says which columns need the result, not which ones the reduction runs over.
        rows = tuple(b for b in guard if not varies_over(b.index, axes))
        value = self.scalar(arg, g.body, tuple(x or Affine() for x in loops), rows, g)
        reduced = self.make.reduce(combine.name, value, axes)
        init = self.element(g.op.operands[out], index, guard)
        if neutral_element(combine.name, reduced.dtype) == getattr(init, "value", None):
            return reduced
        return self.make.apply(combine.name, (init, reduced), None, reduced.dtype)

    def scalar(self, v: ir.Value, body: dict[ir.Value, int], loops: Index, guard: Guard, g: Generic | None = None) -> Expr:
        """Returns the expression of a scalar in a generic's body (or outside of any) at `loops`."""
        if v in body:
            assert g is not None
            return self.element(g.op.operands[body[v]], operand_index(g.maps[body[v]], loops), guard)
        return self._memo.get((v, loops, guard), lambda: self._scalar(v, body, loops, guard, g))

    def _scalar(self, v: ir.Value, body: dict[ir.Value, int], loops: Index, guard: Guard, g: Generic | None) -> Expr:
        """Returns the expression of a scalar in a body. loops: the values of the generic's loops."""
        op, dtype = producer(v), str(v.type)
        if op is None:
            raise Untraceable(v, "a scalar argument")
        if op.name == "arith.constant":
            return self._const(op.attributes["value"], dtype)
        if op.name == SIZE:
            return self.make.const(read_size(op.attributes["size"]), "index")
        if op.name == "linalg.index":
            self._refuse_digits(loops)
            return self.make.position(loops[ir.IntegerAttr(op.attributes["dim"]).value], "index")
        if op.name == "tensor.extract":
            return self._extracted(op, body, loops, guard, g)
        if op.name == CheckElementOp.OPERATION_NAME:
            return trace_moves.trace_check(self, op, self.scalar(op.operands[0], body, loops, guard, g), guard)
        if op.name.startswith(("arith.", "math.", "random.")) and len(op.results) == 1:
            return self._applied(op, [self.scalar(x, body, loops, guard, g) for x in op.operands], dtype)
        raise Untraceable(g.op.results[0] if g else v, f"{op.name} in a body")

    def _applied(self, op: ir.Operation, xs: list[Expr], dtype: str) -> Expr:
        """Returns the expression of an op on operands, rounded as the op rounds."""
        target = compute_type(dtype)
        if op.name in ("arith.extf", "arith.truncf") and xs[0].dtype == target:
            return self._rounded(xs[0], dtype)
        if op.name == "arith.bitcast" and dtype in HALF:
            raise Untraceable(op.results[0], "a bit cast of a half type")
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value if op.name in ("arith.cmpf", "arith.cmpi") else None
        if op.name == "arith.cmpf" and (predicate in EQUALITY or not any(isinstance(x, Const) for x in xs)):
            xs = [x if isinstance(x, Const) else self._stored(x, compared_as(v)) for x, v in zip(xs, op.operands, strict=True)]
        return self._rounded(self.make.apply(op.name, tuple(xs), predicate, target), dtype)

    def _rounded(self, e: Expr, dtype: str) -> Expr:
        """Returns `e`, which eager would store as `dtype`, rounded to that type if `round_half` is set."""
        return self._stored(e, dtype) if self.round_half else e

    def _stored(self, e: Expr, dtype: str) -> Expr:
        """Returns `e` rounded to `dtype`. Half types are compared in this form, as one of the values may have been stored."""
        if dtype not in HALF or (isinstance(e, Load) and element_type(e.tensor) == dtype):
            return e
        return self.make.apply("arith.extf", (self.make.apply("arith.truncf", (e,), None, dtype),), None, e.dtype)

    def _extracted(self, op: ir.Operation, body: dict[ir.Value, int], loops: Index, guard: Guard, g: Generic | None) -> Expr:
        """Returns the expression of a tensor.extract, with a check of each index unless it is known to be inside."""
        tensor, *where = op.operands
        index: list[Affine] = []
        for x, n in zip(where, shape_of(tensor), strict=True):
            at = index_of(self.scalar(x, body, loops, guard, g))
            if CHECKED not in op.attributes:
                guard = with_index_check(guard, at, n)
            index.append(at)
        return trace_moves.with_checks(self, self.element(tensor, tuple(index), guard), guard)


def _concerns(bound: Bound, index: Affine) -> bool:
    """Returns whether a bound can keep an access to `index` within its memory: one on other axes alone cannot."""
    if bound.index.opaque or index.opaque:
        return True
    return any(varies_over(index, (t,)) for t, _ in bound.index.terms)
