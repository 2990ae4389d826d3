"""Implicit GEMM: emits convolutions as GEMM programs whose operands and results are gathered where their addresses do not grow
evenly along rows, columns or the K dimension.

The offset of a gathered element is the sum of its offset along the rows of a block, [m, 1], and along its columns, [1, n]. An
axis made of several parts (passes/space/implicit_gemm.py) is divided into them: for rows before the loop, and for the K dimension
only as scalars where a block of it lies within one position of a window.
"""

from collections.abc import Sequence
from typing import NamedTuple

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from ...ir.affine import Affine, Axis
from ...ir.expressions import HALF, Load
from ...ir.guards import Bound, Guard
from ...space.contraction import extent
from ...space.space import Result
from .blocks import Axes, Done
from .dot import Dot, Factor
from .scopes import attribute, element


class _Side(NamedTuple):
    """One side of a block: the axis that it runs along, its start there, its dimension in the block, and its size."""

    axis: Axis
    start: ir.Value
    dim: int
    size: int


class WindowDot(Dot):
    """Emits the program of one output tile of a convolution.

    known  vectors emitted so far: offsets by index, and positions by part of an axis, along a side
    there  the mask of each side's lanes before the end of its axis
    """

    known: dict[tuple[Affine | Axis, _Side], ir.Value]
    there: dict[_Side, ir.Value]

    def emit(self, program: ir.Value) -> None:
        """Emits the program of output tile number `program`."""
        self.known, self.there = {}, {}
        super().emit(program)

    def _before(self, factor: Factor) -> Done:
        e = factor.expr
        if isinstance(e, Load) and not self._is_even(e):
            one, two = (None if x is self.product.inner else x for x in factor.axes)
            for side in self._sides((one, two), factor.shape):
                for at in (e.at, *(b.at for b in e.guard)):
                    self._along(at, side)
                self._within(side)
        return super()._before(factor)

    def _read(self, load: Load, axes: Axes, shape: tuple[int, int]) -> ir.Value:
        if self._is_even(load):
            return super()._read(load, axes, shape)
        memory, _ = self.memory[load.tensor]
        view = self._flat(memory)
        stored = ir.MemRefType(memory.type).element_type
        where, mask = self._places(load.at, load.guard, axes, shape)
        type_ = ir.VectorType.get(shape, stored)
        zero = arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, attribute(0, stored)))
        return vector.gather(type_, view, [self._number(0)], where, mask, zero)

    def _store(self, result: Result, memory: ir.Value) -> None:
        if self.product.is_even(result.at):
            super()._store(result, memory)
            return
        value = self._whole(self._value(result.expr))
        if result.dtype in HALF:
            value = arith.truncf(ir.VectorType.get(ir.VectorType(value.type).shape, element(result.dtype)), value)
        where, mask = self._places(result.at, (), (self.product.m, self.product.n), self.shape)
        vector.scatter(None, self._flat(memory), [self._number(0)], where, mask, value)

    def _is_even(self, load: Load) -> bool:
        return not load.guard and self.product.is_even(load.at)

    def _flat(self, memory: ir.Value) -> ir.Value:
        """Returns memory as a contiguous memref of rank 1."""
        type_ = ir.MemRefType(memory.type)
        strides, _ = type_.get_strides_and_offset()
        span = 1 + sum((n - 1) * s for n, s in zip(type_.shape, strides, strict=True))
        with ir.InsertionPoint.at_block_begin(self.entry):
            return memref.ReinterpretCastOp(
                ir.MemRefType.get([span], type_.element_type), memory, [], [], [], [0], [span], [1]
            ).result

    def _sides(self, axes: Axes, shape: Sequence[int]) -> list[_Side]:
        return [_Side(x, self.at[x], d, n) for d, (x, n) in enumerate(zip(axes, shape, strict=True)) if x is not None]

    def _places(self, at: Affine, guard: Guard, axes: Axes, shape: tuple[int, int]) -> tuple[ir.Value, ir.Value]:
        """Returns the offsets of a block's elements, and the mask of those in bounds."""
        sides = self._sides(axes, shape)
        masks = [m for side in sides if (m := self._within(side)) is not None]
        for bound in guard:
            masks += self._bounded(bound, sides)
        i1 = ir.IntegerType.get_signless(1)
        everywhere = ir.VectorType.get([1, 1], i1)
        mask = None
        for m in masks:
            mask = m if mask is None else arith.andi(*self._alike(mask, m))
        if mask is None:
            mask = arith.constant(everywhere, ir.DenseElementsAttr.get_splat(everywhere, ir.BoolAttr.get(True)))
        return self._broadcast(self._total(at, sides), shape), self._broadcast(mask, shape)

    def _bounded(self, bound: Bound, sides: Sequence[_Side]) -> list[ir.Value]:
        """Emits a bound as up to two comparisons: those that can fail."""
        low, high = bound.at.bounds()
        value = self._total(bound.at, sides)
        out = []
        if low < bound.low:
            out.append(arith.cmpi(arith.CmpIPredicate.sge, *self._alike(value, self._splat(bound.low))))
        if high >= bound.high:
            out.append(arith.cmpi(arith.CmpIPredicate.slt, *self._alike(value, self._splat(bound.high))))
        return out

    def _total(self, at: Affine, sides: Sequence[_Side]) -> ir.Value:
        total = self._splat(at.constant) if at.constant else None
        for side in sides:
            if (term := self._along(at, side)) is not None:
                total = term if total is None else arith.addi(*self._alike(total, term))
        for x in self.product.batch:
            if step := at.coefficient(x):
                term = self._vector(arith.muli(self.at[x], self._number(step)))
                total = term if total is None else arith.addi(*self._alike(total, term))
        return total if total is not None else self._splat(0)

    def _along(self, at: Affine, side: _Side) -> ir.Value | None:
        """Returns the offset of an index along one side of a block, without its constant; None where it does not vary there."""
        parts = [x for x in self.product.parts.get(side.axis, (side.axis,)) if at.coefficient(x)]
        key = at, side
        if key not in self.known and parts:
            positions = self._positions(side)
            total: ir.Value | None = None
            for x in parts:
                step = at.coefficient(x)
                term = positions[x] if step == 1 else arith.muli(*self._alike(positions[x], self._splat(step)))
                total = term if total is None else arith.addi(*self._alike(total, term))
            self.known[key] = total
        return self.known.get(key)

    def _positions(self, side: _Side) -> dict[Axis, ir.Value]:
        """Returns the positions of a block's lanes along each part of the side's axis."""
        parts = self.product.parts.get(side.axis, (side.axis,))
        if (parts[0], side) not in self.known:
            last = parts[-1].extent
            if len(parts) > 1 and last % side.size == 0:
                many = arith.divui(side.start, self._number(last))
                self.known[parts[-1], side] = self._lanes(side, _left(side.start, many, self._number(last)))
                rest, parts = self._vector(many), parts[:-1]
            else:
                rest = self._lanes(side, side.start)
            for x in reversed(parts[1:]):
                rest, self.known[x, side] = self._divided(rest, x.extent)
            self.known[parts[0], side] = rest
        return {x: self.known[x, side] for x in self.product.parts.get(side.axis, (side.axis,))}

    def _divided(self, whole: ir.Value, by: int) -> tuple[ir.Value, ir.Value]:
        """Divides a vector of indices by a constant; returns quotients and remainders."""
        numbers, divisor = self._alike(whole, self._splat(by))
        many = arith.divui(numbers, divisor)
        return many, _left(numbers, many, divisor)

    def _within(self, side: _Side) -> ir.Value | None:
        """Returns the mask of a side's lanes before the end of its axis; None where all are."""
        whole = self.config.n if side.axis == self.product.n else side.size  # every part of the last block
        if extent(side.axis) % whole == 0:
            return None
        if side not in self.there:
            lanes = self._lanes(side, side.start)
            end = self._splat(extent(side.axis))
            self.there[side] = arith.cmpi(arith.CmpIPredicate.slt, *self._alike(lanes, end))
        return self.there[side]

    def _lanes(self, side: _Side, start: ir.Value) -> ir.Value:
        """Returns start, start + 1, ... along a side."""
        index = ir.IndexType.get()
        shape = [1, 1]
        shape[side.dim] = side.size
        step = ir.Operation.create("vector.step", results=[ir.VectorType.get([side.size], index)]).results[0]
        lanes = vector.shape_cast(ir.VectorType.get(shape, index), step)
        return arith.addi(*self._alike(self._vector(start), lanes))

    def _vector(self, number: ir.Value) -> ir.Value:
        return vector.broadcast(ir.VectorType.get([1, 1], ir.IndexType.get()), number)

    def _splat(self, n: int) -> ir.Value:
        one = ir.VectorType.get([1, 1], ir.IndexType.get())
        return arith.constant(one, ir.DenseElementsAttr.get_splat(one, ir.IntegerAttr.get(ir.IndexType.get(), n)))

    def _alike(self, *values: ir.Value) -> list[ir.Value]:
        """Broadcasts values to one shape."""
        shapes = [ir.VectorType(v.type).shape for v in values]
        shape = [max(s[d] for s in shapes) for d in range(2)]
        return [self._broadcast(v, shape) for v in values]


def _left(whole: ir.Value, many: ir.Value, by: ir.Value) -> ir.Value:
    """Computes the remainder of `whole` divided by `by`, whose quotient is `many`. With a remainder op Triton forgets what the
    indices are multiples of, and loads elements one by one."""
    return arith.subi(whole, arith.muli(many, by))
