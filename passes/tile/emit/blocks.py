"""Emits expressions as blocks of a GEMM program: vectors of rank 2, where values that vary along one axis alone have size 1 along
the other."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from lamina.schedules.contraction import GemmConfig

from ...ir.affine import Affine, Axis
from ...ir.expressions import HALF, Apply, Const, Expr, Load, missing
from ...space.contraction import Contraction, extent
from .scopes import attribute, element

Axes = tuple[Axis | None, Axis | None]
Done = dict[Expr, ir.Value]
Memory = dict[Any, tuple[ir.Value, str]]


class MatrixBlocks:
    """Emits expressions into `entry` and at the insertion point. memory: each tensor's memref and element type.

    axes, shape  of the blocks that are computed now
    done         values emitted so far for these blocks
    at           where the blocks begin along each axis
    width        columns of the output tile that are computed at a time
    """

    def __init__(self, entry: ir.Block, product: Contraction, config: GemmConfig, memory: Memory) -> None:
        self.entry, self.product, self.config, self.memory = entry, product, config, memory
        self.axes: Axes = (product.m, product.n)
        self.width = config.n
        self.shape = config.m, self.width
        self.done: Done = {}
        self.at: dict[Axis | None, ir.Value] = {}
        self.numbers: dict[int, ir.Value] = {}

    def _axes_of(self, e: Expr) -> set[Axis]:
        return {self.product.merged.axis_of.get(x, x) for x in e.free}

    def _value(self, e: Expr) -> ir.Value:
        for x in missing(e, self.done):
            self.done[x] = self._emit(x)
        return self.done[e]

    def _emit(self, e: Expr) -> ir.Value:
        if isinstance(e, Const):
            one = ir.VectorType.get([1, 1], element(e.dtype))
            return arith.constant(one, ir.DenseElementsAttr.get_splat(one, attribute(e.value, element(e.dtype))))
        if isinstance(e, Load):
            varies = self._axes_of(e)
            one, two = (axis if axis in varies else None for axis in self.axes)
            raw = self._read(e, (one, two), (self.shape[0] if one else 1, self.shape[1] if two else 1))
            return self._from_memory(raw, self.memory[e.tensor][1])
        assert isinstance(e, Apply), e
        values = [self.done[x] for x in e.operands]
        shape = [max(ir.VectorType(v.type).shape[d] for v in values) for d in range(2)]
        values = [self._broadcast(v, shape) for v in values]
        attributes = {}
        if e.predicate is not None:
            attributes["predicate"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), e.predicate)
        result = ir.VectorType.get(shape, element(e.dtype))
        return ir.Operation.create(e.op, results=[result], operands=values, attributes=attributes).results[0]

    def _from_memory(self, raw: ir.Value, dtype: str) -> ir.Value:
        shape = ir.VectorType(raw.type).shape
        if dtype in HALF:
            return arith.extf(ir.VectorType.get(shape, ir.F32Type.get()), raw)
        if dtype == "i1":
            zero = arith.constant(
                raw.type, ir.DenseElementsAttr.get_splat(raw.type, attribute(0, ir.VectorType(raw.type).element_type))
            )
            return arith.cmpi(arith.CmpIPredicate.ne, raw, zero)
        return raw

    def _whole(self, value: ir.Value) -> ir.Value:
        return self._broadcast(value, [self.config.m, self.width])

    def _broadcast(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        type_ = ir.VectorType(value.type)
        return value if list(type_.shape) == list(shape) else vector.broadcast(ir.VectorType.get(shape, type_.element_type), value)

    def _read(self, load: Load, axes: Axes, shape: tuple[int, int]) -> ir.Value:
        memory, _ = self.memory[load.tensor]
        view, where, dims, inside = self._view(memory, load.at, axes, shape)
        stored = ir.MemRefType(view.type).element_type
        pad = arith.constant(stored, attribute(0, stored))
        return vector.transfer_read(ir.VectorType.get(shape, stored), view, where, dims, pad, in_bounds=inside)

    def _view(
        self, memory: ir.Value, at: Affine, axes: Axes, shape: tuple[int, int] | None = None
    ) -> tuple[ir.Value, list[ir.Value], ir.AffineMap, ir.ArrayAttr]:
        """Returns memory as a view along the batch and two axes, the block's indices in it, the map from the view's dimensions to
        the block's, and whether the block is in bounds along each."""
        shape = shape or (self.config.m, self.width)
        at = at.rename(self.product.merged.rename)
        outer = tuple(x for x in self.product.batch if at.coefficient(x))
        sizes = [extent(x) for x in (*outer, *axes)]
        strides = [at.coefficient(x) if x is not None else 0 for x in (*outer, *axes)]
        layout = ir.StridedLayoutAttr.get(at.constant, strides)
        type_ = ir.MemRefType.get(sizes, ir.MemRefType(memory.type).element_type, layout)
        with ir.InsertionPoint.at_block_begin(self.entry):
            view = memref.ReinterpretCastOp(type_, memory, [], [], [], [at.constant], sizes, strides).result
        where = [self.at[x] if x is not None else self._number(0) for x in (*outer, *axes)]
        last = [ir.AffineDimExpr.get(len(outer) + d) for d in range(2)]
        whole = [self.config.n if n == self.width and x is self.product.n else n for x, n in zip(axes, shape, strict=True)]
        inside = [extent(x) % n == 0 for x, n in zip(axes, whole, strict=True)]  # every part of the last block
        return view, where, ir.AffineMap.get(len(sizes), 0, last), ir.ArrayAttr.get([ir.BoolAttr.get(i) for i in inside])

    def _where_inside(self, value: ir.Value, side: int, axis: Axis | None) -> ir.Value:
        """Returns a block with zeros past the end of `axis`, along which its dimension `side` runs."""
        whole = ir.VectorType(value.type)
        sizes = [1, 1]
        sizes[side] = whole.shape[side]
        left = [self._number(1), self._number(1)]
        left[side] = arith.subi(self._number(extent(axis)), self.at[axis])
        mask = vector.create_mask(ir.VectorType.get(sizes, ir.IntegerType.get_signless(1)), left)
        mask = vector.broadcast(ir.VectorType.get(whole.shape, ir.IntegerType.get_signless(1)), mask)
        zero = arith.constant(whole, ir.DenseElementsAttr.get_splat(whole, ir.FloatAttr.get(whole.element_type, 0.0)))
        return arith.select(mask, value, zero)

    def _number(self, n: int) -> ir.Value:
        if n not in self.numbers:
            with ir.InsertionPoint.at_block_begin(self.entry):
                self.numbers[n] = arith.constant(ir.IndexType.get(), n)
        return self.numbers[n]
