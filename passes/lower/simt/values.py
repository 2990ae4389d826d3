"""Representations of a block in one thread: one vector of `vec` elements for each of its accesses, or a compact mask."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, vector


@dataclass(frozen=True)
class Spread:
    """A block: `parts[c]` is the thread's vector of access c. Several parts may be the same value."""

    parts: tuple[ir.Value, ...]


@dataclass(frozen=True)
class WholeMask:
    """A mask that never cuts an access.

    inside  for each access, whether this thread's part counts: None if it always does
    """

    inside: tuple[ir.Value | None, ...]


@dataclass(frozen=True)
class PartialMask:
    """An access that a mask may cut.

    inside      whether any lane counts; None: some always does
    all_inside  whether all do
    lanes       which do: a vector of i1
    """

    inside: ir.Value | None
    all_inside: ir.Value
    lanes: ir.Value


@dataclass(frozen=True)
class WindowMask:
    """A mask of neighboring lanes.

    parts  for each access, how it is cut, or None if it never is
    low    the first lane that counts
    high   the first one after it that does not
    """

    parts: tuple[PartialMask | None, ...]
    low: ir.Value
    high: ir.Value


ThreadValue = ir.Value | Spread | WholeMask | WindowMask


Join = Callable[[ir.Value, ir.Value], ir.Value]


def binary_op(name: str) -> Join:
    """Returns the function that combines two values by an arith op."""
    return lambda a, b: ir.Operation.create(name, results=[a.type], operands=[a, b]).results[0]


def join_as_tree(values: Sequence[ir.Value], join: Join) -> ir.Value:
    """Joins all values as a tree: pairs, pairs of pairs, ..."""
    left = list(values)
    while len(left) > 1:
        half = [join(a, b) for a, b in zip(left[::2], left[1::2], strict=False)]
        left = half + left[len(half) * 2 :]
    return left[0]


def per_part(make: Callable[..., ir.Value], *operands: Spread) -> Spread:
    """Applies `make` to each access; once for accesses whose operands are the same."""
    done: dict[tuple[ir.Value, ...], ir.Value] = {}
    out = []
    for parts in zip(*(o.parts for o in operands), strict=True):
        if parts not in done:
            done[parts] = make(*parts)
        out.append(done[parts])
    return Spread(tuple(out))


def vector_type(vec: int, element: ir.Type) -> ir.VectorType:
    """Returns the type of a vector of `vec` elements."""
    return ir.VectorType.get([vec], element)


def elements(part: ir.Value) -> list[ir.Value]:
    """Returns the scalars of a vector."""
    n = ir.VectorType(part.type).shape[0]
    return [vector.extract(part, dynamic_position=[], static_position=[i]) for i in range(n)]


def vector_of(scalars: list[ir.Value]) -> ir.Value:
    """Returns a vector made of scalars."""
    return vector.from_elements(ir.VectorType.get([len(scalars)], scalars[0].type), scalars)


def as_spread(mask: WholeMask | WindowMask, vec: int) -> Spread:
    """Expands a mask to a vector of i1 for each access."""
    yes = ir.IntegerType.get_signless(1)
    type_ = vector_type(vec, yes)
    parts = mask.inside if isinstance(mask, WholeMask) else tuple(p.lanes if p else None for p in mask.parts)
    true = vector.broadcast(type_, arith.constant(yes, 1)) if any(p is None for p in parts) else None
    return Spread(
        tuple(true if p is None else p if isinstance(p.type, ir.VectorType) else vector.broadcast(type_, p) for p in parts)
    )


def has_blocks(op: ir.Operation) -> bool:
    """Returns whether an op has vectors among its operands or results."""
    return any(isinstance(v.type, ir.VectorType) for v in (*op.operands, *op.results))
