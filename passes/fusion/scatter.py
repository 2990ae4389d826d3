"""lamina-scatter: converts calls that overwrite elements of a tensor, or combine values with them, to graph.scatter, which kernels
compute."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg

from lamina.core.sizes import SizeLike
from lamina.dialects.combining import COMBINE, ScatterTensorOp
from lamina.dialects.graph import IN_PLACE, ExternOp

from ..infra.base import Pass
from ..ir.generics import empty, fill, generic, with_body
from ..ir.reading import nested, shape_of
from ..ir.rewriting import replace_op
from ..ir.sizes import number_attribute, size_value, tensor_type

REASON = "scatter"
"""The reason of a call that this pass converts."""

COMBINED = {
    "sum": ("arith.addf", "arith.addi"), "prod": ("arith.mulf", "arith.muli"), "amax": ("arith.maximumf", "arith.maxsi"),
    "amin": ("arith.minimumf", "arith.minsi"),
}  # fmt: skip
"""The ops by which scatter_reduce combines floats and integers, by torch's name of the reduction."""


@dataclass(frozen=True)
class ScatterPass(Pass):
    """Turn calls of aten.index_put, scatter, scatter_add and scatter_reduce that have the reason "scatter" into graph.scatter.

    Every position of the values gets an index for each dimension of the tensor: the user's, or its own position.

        %0 = "graph.extern"(%cache, %at, %new) {callee = "aten.index_put_.default", args = [unit, [none, unit], unit], ...}

    becomes, where %i holds 0, 1, ... along the first dimension, and %j the elements of %at along the second, where negative ones
    count from the end:

        %0 = "graph.scatter"(%cache, %new, %i, %j) {in_place} : (tensor<3x40xf32>, tensor<3x2xf32>, tensor<3x2xi64>, ...) -> ...

    What accumulates or reduces says by which op values are combined with the elements: {combine = "arith.addf"}.
    """

    name: ClassVar[str] = "lamina-scatter"

    def run(self, module: ir.Module) -> None:
        """Replaces the calls."""
        for op in nested(module.operation, ExternOp.OPERATION_NAME):
            if ir.StringAttr(op.attributes["reason"]).value == REASON:
                with module.context, op.location, ir.InsertionPoint(op):
                    replace_op(op, _put(op) if "index_put" in op.attributes["callee"].value else _scattered(op))


def _put(op: ir.Operation) -> ir.Value:
    """Converts index_put: the indices are broadcast, and stand in the place of the dimensions that they index."""
    into, *rest = op.operands
    operands = iter(rest)
    index_of = {d: next(operands) for d, a in enumerate(op.attributes["args"][1]) if isinstance(a, ir.UnitAttr)}
    values, shape = next(operands), shape_of(into)
    wide = _broadcast([shape_of(i) for i in index_of.values()])
    together = list(index_of) == list(range(min(index_of), max(index_of) + 1))
    first = min(index_of) if together else 0
    others = [d for d in range(len(shape)) if d not in index_of]
    before, after = ([d for d in others if d < first], [d for d in others if d > first]) if together else ([], others)
    loops = (*(shape[d] for d in before), *wide, *(shape[d] for d in after))
    places = dict(zip((*before, *after), (*range(len(before)), *range(len(before) + len(wide), len(loops))), strict=True))
    end = len(before) + len(wide)
    indices = [_index(index_of[d], loops, end, n) if d in index_of else _position(loops, places[d]) for d, n in enumerate(shape)]
    return _scatter(op, into, _spread(values, loops, len(loops), into.type.element_type), indices)


def _scattered(op: ir.Operation) -> ir.Value:
    """Converts scatter, scatter_add and scatter_reduce: the values have the indices' shape, and keep their positions but along one
    dimension."""
    into, index, *values = op.operands
    element, loops, shape = into.type.element_type, shape_of(index), shape_of(into)
    dim = ir.IntegerAttr(op.attributes["args"][1]).value % len(shape)
    if values:
        source = values[0]
    else:
        number = number_attribute(op.attributes["args"][3].value, element)
        source = fill(tensor_type(loops, element), arith.constant(element, number))
    indices = [_index(index, loops, len(loops), None) if d == dim else _position(loops, d) for d in range(len(shape))]
    return _scatter(op, into, _spread(source, loops, len(loops), element), indices)


def _scatter(op: ir.Operation, into: ir.Value, values: ir.Value, indices: list[ir.Value]) -> ir.Value:
    attributes: dict[str, ir.Attribute] = {}
    if op.attributes["callee"].value.split(".")[1].endswith("_"):
        attributes[IN_PLACE] = ir.UnitAttr.get()
    if (reduction := _reduction(op)) is not None:
        attributes[COMBINE] = ir.StringAttr.get(COMBINED[reduction][not isinstance(into.type.element_type, ir.FloatType)])
    operands = [into, values, *indices]
    return ir.Operation.create(ScatterTensorOp.OPERATION_NAME, [op.results[0].type], operands, attributes).results[0]


def _reduction(op: ir.Operation) -> str | None:
    """Returns torch's name of the reduction by which a call combines; None for one that overwrites."""
    name, args = op.attributes["callee"].value.split(".")[1].rstrip("_"), list(op.attributes["args"])
    if name == "scatter_reduce":
        return ir.StringAttr(args[4]).value
    accumulates = name == "scatter_add" or (name.endswith("index_put") and len(args) > 3 and ir.BoolAttr(args[3]).value)
    return "sum" if accumulates else None


def _broadcast(shapes: Sequence[Sequence[SizeLike]]) -> tuple[SizeLike, ...]:
    rank = max(map(len, shapes))
    padded = [(*[1] * (rank - len(s)), *s) for s in shapes]
    return tuple(next((n for n in sizes if not _is_one(n)), 1) for sizes in zip(*padded, strict=True))


def _is_one(size: SizeLike) -> bool:
    return isinstance(size, int) and size == 1


def _map(source: ir.Value, end: int) -> list[ir.AffineExpr]:
    """Returns the place in a tensor whose last dimension runs along loop `end` - 1, and which repeats where its size is 1."""
    shape = shape_of(source)
    along = range(end - len(shape), end)
    return [ir.AffineConstantExpr.get(0) if _is_one(n) else ir.AffineDimExpr.get(d) for n, d in zip(shape, along, strict=True)]


def _spread(source: ir.Value, loops: Sequence[SizeLike], end: int, element: ir.Type) -> ir.Value:
    """Repeats values over all loops."""
    if shape_of(source) == tuple(loops):
        return source
    rank, type_ = len(loops), tensor_type(loops, element)
    maps = [_map(source, end), ir.AffineMap.get_identity(rank).results]
    return with_body(generic(type_, [source, empty(type_)], maps, rank, [False] * rank), lambda x, _: x)


def _index(source: ir.Value, loops: Sequence[SizeLike], end: int, size: SizeLike | None) -> ir.Value:
    """Repeats indices over all loops, as i64. size: of the dimension that negative ones count from the end of, if they may."""
    rank, i64 = len(loops), ir.IntegerType.get_signless(64)
    type_ = tensor_type(loops, i64)
    maps = [_map(source, end), ir.AffineMap.get_identity(rank).results]

    def counted(x: ir.Value, _: ir.Value) -> ir.Value:
        """Counts a negative index from the end."""
        index = x if x.type == i64 else arith.extsi(i64, x)
        if size is None:
            return index
        from_end = arith.addi(index, arith.index_cast(i64, size_value(size)))
        return arith.select(arith.cmpi(arith.CmpIPredicate.slt, index, arith.constant(i64, 0)), from_end, index)

    return with_body(generic(type_, [source, empty(type_)], maps, rank, [False] * rank), counted)


def _position(loops: Sequence[SizeLike], loop: int) -> ir.Value:
    """Returns every position's number along a loop, as i64."""
    rank, i64 = len(loops), ir.IntegerType.get_signless(64)
    type_ = tensor_type(loops, i64)
    op = generic(type_, [empty(type_)], [ir.AffineMap.get_identity(rank).results], rank, [False] * rank)
    return with_body(op, lambda _: arith.index_cast(i64, linalg.IndexOp(loop).result))
