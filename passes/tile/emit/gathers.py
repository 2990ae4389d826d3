"""Emits tiles whose addresses do not grow evenly along their sides, such as those of a convolution's windows: each element is
gathered or scattered by itself.

The offset of an element is the sum of its offset along the rows of a tile, [m, 1], and along its columns, [1, n]. An axis made of
several parts (passes/space/implicit_gemm.py) is divided into them: for the K dimension only as scalars where a block of it lies
within one position of a window. What does not vary in the innermost loop is emitted in front of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from ...ir.affine import Affine, Axis
from ...ir.expressions import Load
from ...ir.guards import Bound, Guard
from . import bounds
from .scopes import Side
from .values import block_shape, broadcast, broadcast_binary, filled

if TYPE_CHECKING:
    from .blocks import Blocks

Sides = list[tuple[int, Side]]  # those along which a tile varies, each with its dimension in it


def read(b: "Blocks", memory: ir.Value, e: Load, sides: Sequence[Side]) -> ir.Value:
    """Loads a tile element by element; those out of bounds are 0."""
    stored, shape = ir.MemRefType(memory.type).element_type, tuple(side.size for side in sides)
    view = _flat(b, memory)
    where, mask = _offsets_and_mask(b, e.offset, e.guard, sides)
    return vector.gather(ir.VectorType.get(shape, stored), view, [b.number(0)], where, mask, filled(shape, 0, stored))


def write(b: "Blocks", value: ir.Value, memory: ir.Value, index: Affine) -> None:
    """Stores a tile element by element."""
    where, mask = _offsets_and_mask(b, index, (), b.sides)
    vector.scatter(None, _flat(b, memory), [b.number(0)], where, mask, value)


def _flat(b: "Blocks", memory: ir.Value) -> ir.Value:
    """Returns memory as a memref of rank 1, at the start of the program, or, where its size is symbolic, in front of its loops."""
    if b.sizes.arguments[memory].symbolic:
        return b.memoized(("flat", memory), 0, lambda: b.sizes.flat(memory))
    with ir.InsertionPoint.at_block_begin(b.entry):
        return b.sizes.flat(memory)


def _offsets_and_mask(b: "Blocks", at: Affine, guard: Guard, along: Sequence[Side]) -> tuple[ir.Value, ir.Value]:
    """Returns the offsets of a tile's elements, and the mask of those in bounds."""
    sides = [(d, side) for d, side in enumerate(along) if side.axis is not None]
    shape = [side.size for side in along]
    for d, side in sides:
        if side.axis is not None and b.bound[side.axis][0] < len(b.stack) - 1:  # in front of the loop
            for index in (at, *(bound.index for bound in guard)):
                _along(b, index, d, side)
            _inside_axis(b, d, side)
    masks = [m for d, side in sides if (m := _inside_axis(b, d, side)) is not None]
    for bound in guard:
        masks += _bounded(b, bound, sides)
    mask = _folded(arith.andi, masks)
    if mask is None:
        mask = b.splat(1, ir.IntegerType.get_signless(1), (1, 1))
    return broadcast(_offsets(b, at, sides), shape), broadcast(mask, shape)


def _bounded(b: "Blocks", bound: Bound, sides: Sides) -> list[ir.Value]:
    """Emits a bound as up to two comparisons: those that can fail."""
    value = _offsets(b, bound.index, sides)
    return bounds.comparisons(bound, value, lambda n: broadcast(_number(b, n), block_shape(value)), bound.index.bounds())


def _offsets(b: "Blocks", index: Affine, sides: Sides) -> ir.Value:
    """Returns an index for each element of a tile."""

    def terms() -> Iterator[ir.Value]:
        """Yields the terms of the place."""
        if index.constant:
            yield _number(b, index.constant)
        for d, side in sides:
            if (term := _along(b, index, d, side)) is not None:
                yield term
        for x in b.merged.rows:
            if (step := index.coefficient(x)) and all(x is not side.axis for side in b.sides):
                yield _tile(arith.muli(b.start(x), b.number(step)))

    total = _folded(arith.addi, terms())
    return total if total is not None else _number(b, 0)


def _folded(op: Callable[[ir.Value, ir.Value], ir.Value], terms: Iterable[ir.Value]) -> ir.Value | None:
    return reduce(lambda total, term: term if total is None else broadcast_binary(op, total, term), terms, None)


def _along(b: "Blocks", index: Affine, d: int, side: Side) -> ir.Value | None:
    """Returns the offset of an index along one side of a tile, without its constant; None if it does not vary there."""
    assert side.axis is not None
    steps = {x: step for x in b.merged.parts(side.axis) if (step := index.coefficient(x))}

    def offsets() -> ir.Value | None:
        """Computes the terms along one dimension."""
        positions = _positions(b, d, side)
        terms = (positions[x] if n == 1 else broadcast_binary(arith.muli, positions[x], _number(b, n)) for x, n in steps.items())
        return _folded(arith.addi, terms)

    return b.memoized(("along", index, d, side), b.bound[side.axis][0], offsets) if steps else None


def _positions(b: "Blocks", d: int, side: Side) -> dict[Axis, ir.Value]:
    """Returns the positions of a tile's lanes along each part of the side's axis."""
    assert side.axis is not None
    depth, start = b.bound[side.axis]
    parts, memo = b.merged.parts(side.axis), b.stack[depth].memo
    if (parts[0], d, side) not in memo:
        remaining, last = parts, parts[-1].extent
        if len(parts) > 1 and last % side.size == 0:
            quotient = arith.divui(start, b.number(last))
            memo[parts[-1], d, side] = _lanes(d, side, _remainder(start, quotient, b.number(last)))
            rest, remaining = _tile(quotient), parts[:-1]
        else:
            rest = _lanes(d, side, start)
        for x in reversed(remaining[1:]):
            numbers, divisor = rest, broadcast(_number(b, x.extent), block_shape(rest))
            rest = arith.divui(numbers, divisor)
            memo[x, d, side] = _remainder(numbers, rest, divisor)
        memo[parts[0], d, side] = rest
    return {x: memo[x, d, side] for x in parts}


def _inside_axis(b: "Blocks", d: int, side: Side) -> ir.Value | None:
    """Returns the mask of a side's lanes before the end of its axis; None if all are."""
    if not side.cut or side.axis is None:
        return None
    depth, start = b.bound[side.axis]

    def mask() -> ir.Value:
        """Compares the lanes with the side's extent."""
        lanes = _lanes(d, side, start)
        return broadcast_binary(partial(arith.cmpi, arith.CmpIPredicate.slt), lanes, _number(b, side.extent))

    return b.memoized(("within", d, side), depth, mask)


def _lanes(d: int, side: Side, start: ir.Value) -> ir.Value:
    """Returns start, start + 1, ... along a side."""
    index = ir.IndexType.get()
    shape = [1, 1]
    shape[d] = side.size
    step = ir.Operation.create("vector.step", results=[ir.VectorType.get([side.size], index)]).results[0]
    lanes = vector.shape_cast(ir.VectorType.get(shape, index), step)
    return broadcast_binary(arith.addi, _tile(start), lanes)


def _remainder(dividend: ir.Value, quotient: ir.Value, divisor: ir.Value) -> ir.Value:
    """Computes the remainder of `dividend` divided by `divisor` from their quotient. With a remainder op Triton forgets what the
    indices are multiples of, and loads elements one by one."""
    return arith.subi(dividend, arith.muli(quotient, divisor))


def _tile(number: ir.Value) -> ir.Value:
    return vector.broadcast(ir.VectorType.get([1, 1], ir.IndexType.get()), number)


def _number(b: "Blocks", n: int) -> ir.Value:
    return b.splat(n, ir.IndexType.get(), (1, 1))
