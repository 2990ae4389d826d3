"""Scopes of a tile program: nested loop bodies, with constants at the start, and where in them values are emitted.

A value is a scalar, or a vector of `lanes` neighbors along the vector axis. Each is emitted once, in the outermost loop body
where all that it depends on is known.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from lamina.core.size import Size, SizeLike

from ...ir.affine import Axis
from ...ir.expressions import HALF, Expr
from ...space.coalesce import Merged
from ..arguments import KernelSizes


@dataclass
class Scope:
    """One loop body.

    block   that its values are emitted into
    memo    values emitted so far
    anchor  the nested loop in front of which late values of this scope are emitted
    mask    of the lanes that count; None: all
    once    memos of loops of one iteration, which stand in the same block: a second loop over the same iteration finds its values
    """

    block: ir.Block
    memo: dict[Any, ir.Value] = field(default_factory=dict)
    anchor: ir.Operation | None = None
    mask: ir.Value | None = None
    once: dict[Any, dict[Any, ir.Value]] = field(default_factory=dict)


def element(dtype: str) -> ir.Type:
    """Returns the MLIR type of an element type such as "f32" or "index"."""
    return ir.IndexType.get() if dtype == "index" else ir.Type.parse(dtype)


def attribute(value: Any, type_: ir.Type) -> ir.Attribute:
    """Returns a number as a float or integer attribute of `type_`."""
    return ir.FloatAttr.get(type_, value) if isinstance(type_, ir.FloatType) else ir.IntegerAttr.get(type_, int(value))


def _converted(size: ir.Value, type_: ir.Type) -> ir.Value:
    """Converts an index to another type."""
    if type_ == size.type:
        return size
    if isinstance(type_, ir.IntegerType):
        return arith.index_cast(type_, size)
    return arith.sitofp(type_, arith.index_cast(ir.IntegerType.get_signless(64), size))


class Scopes:
    """The open scopes, the innermost last, and the axes that loops have bound."""

    def __init__(self, entry: ir.Block, merged: Merged, lanes: int, sizes: KernelSizes) -> None:
        self.sizes = sizes
        self.stack = [Scope(entry)]
        self.merged, self.lanes = merged, lanes
        self.vector: Axis | None = None
        self.bound: dict[Axis, tuple[int, ir.Value]] = {}  # axis -> depth, value
        self._depths: dict[Any, int] = {}

    @contextmanager
    def scope(
        self,
        block: ir.Block,
        anchor: ir.Operation | None = None,
        mask: ir.Value | None = None,
        memo: dict[Any, ir.Value] | None = None,
    ) -> Iterator[None]:
        """Opens a loop body. anchor: its loop, in front of which the scope around emits meanwhile; memo: values already known."""
        self.stack[-1].anchor = anchor
        self.stack.append(Scope(block, {} if memo is None else memo, mask=mask))
        self._depths = {}
        yield
        self.stack.pop()
        self.stack[-1].anchor = None
        self._depths = {}
        self.bound = {a: (d, v) for a, (d, v) in self.bound.items() if d < len(self.stack)}

    def point(self, depth: int = -1) -> ir.InsertionPoint:
        """Returns where values of the scope at `depth` are emitted: at its end, or in front of the loop that is open in its
        block."""
        depth %= len(self.stack)
        while self.stack[depth].anchor is None and depth + 1 < len(self.stack):
            depth += 1  # a scope of one iteration shares its parent's block
        scope = self.stack[depth]
        return ir.InsertionPoint(scope.anchor) if scope.anchor is not None else ir.InsertionPoint(scope.block)

    def bind(self, axis: Axis, value: ir.Value) -> None:
        """Gives an axis its value in the innermost scope."""
        self.bound[axis] = (len(self.stack) - 1, value)
        self._depths = {}

    def memoized(self, key: Any, depth: int, make: Callable[[], ir.Value]) -> ir.Value:
        """Returns the value known as `key` in the scope at `depth`, made by `make` on first use."""
        memo = self.stack[depth].memo
        if key not in memo:
            with self.point(depth):
                memo[key] = make()
        return memo[key]

    # -- what varies along the vector axis

    def axes(self, e: Expr) -> set[Axis]:
        """Returns the merged axes that `e` varies along."""
        return {self.merged.axis_of.get(a, a) for a in e.free}

    def is_block(self, e: Expr) -> bool:
        """Returns whether `e` varies along the vector axis."""
        return self.vector is not None and self.vector in self.axes(e)

    # -- constants

    def constant(self, value: Any, type_: ir.Type) -> ir.Value:
        """Returns a scalar constant, or a symbolic size, at the start of the program."""
        if isinstance(value, Size):
            return self.memoized((repr(value), str(type_)), 0, lambda: _converted(self.sizes.value(value), type_))
        return self.memoized((repr(value), str(type_)), 0, lambda: arith.constant(type_, attribute(value, type_)))

    def number(self, n: SizeLike) -> ir.Value:
        """Returns a number or a symbolic size as an index."""
        return self.constant(n, ir.IndexType.get())

    def splat(self, value: Any, type_: ir.Type) -> ir.Value:
        """Returns a constant vector with `value` in all lanes."""
        whole = ir.VectorType.get([self.lanes], type_)
        if isinstance(value, Size):
            return self.memoized(
                ("splat", repr(value), str(type_)), 0, lambda: vector.broadcast(whole, self.constant(value, type_))
            )
        return self.memoized(
            ("splat", repr(value), str(type_)), 0,
            lambda: arith.constant(whole, ir.DenseElementsAttr.get_splat(whole, attribute(value, type_))),
        )  # fmt: skip

    def widen(self, v: ir.Value) -> ir.Value:
        """Broadcasts a scalar to all lanes; a vector stays as it is."""
        if isinstance(v.type, ir.VectorType):
            return v
        return vector.broadcast(ir.VectorType.get([self.lanes], v.type), v)

    # -- values as memory holds them

    def _like(self, v: ir.Value, dtype: str) -> ir.Type:
        target = element(dtype)
        return ir.VectorType.get(ir.VectorType(v.type).shape, target) if isinstance(v.type, ir.VectorType) else target

    def from_memory(self, v: ir.Value, dtype: str) -> ir.Value:
        """Converts a loaded value to the type it is computed in: f16 and bf16 to f32, bytes to i1."""
        if dtype in HALF:
            return arith.extf(self._like(v, "f32"), v)
        if dtype == "i1":
            byte = ir.IntegerType.get_signless(8)
            zero = self.splat(0, byte) if isinstance(v.type, ir.VectorType) else self.constant(0, byte)
            return arith.cmpi(arith.CmpIPredicate.ne, v, zero)
        return v

    def to_memory(self, v: ir.Value, dtype: str) -> ir.Value:
        """Converts a value to the type that memory holds: f32 to f16 or bf16, i1 to bytes."""
        if dtype in HALF:
            return arith.truncf(self._like(v, dtype), v)
        return arith.extui(self._like(v, "i8"), v) if dtype == "i1" else v
