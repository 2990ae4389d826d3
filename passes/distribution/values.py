"""What a thread holds of a block: one vector of `vec` elements for each of its accesses."""

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, vector


@dataclass(frozen=True)
class Spread:
    """A block: `parts[c]` is the thread's vector of access c. Parts may be one and the same value."""

    parts: tuple[ir.Value, ...]


@dataclass(frozen=True)
class Bound:
    """A mask that never cuts an access.

    inside  for each access, whether this thread's part counts: None where it always does
    """

    inside: tuple[ir.Value | None, ...]


Held = ir.Value | Spread | Bound


def per_part(make: Callable[..., ir.Value], *operands: Spread) -> Spread:
    """`make` for each access; once for accesses whose operands are the same."""
    done: dict[tuple[ir.Value, ...], ir.Value] = {}
    out = []
    for parts in zip(*(o.parts for o in operands), strict=True):
        if parts not in done:
            done[parts] = make(*parts)
        out.append(done[parts])
    return Spread(tuple(out))


def element_of(type_: ir.Type) -> ir.Type:
    return ir.VectorType(type_).element_type if isinstance(type_, ir.VectorType) else type_


def vector_type(vec: int, element: ir.Type) -> ir.VectorType:
    return ir.VectorType.get([vec], element)


def elements(part: ir.Value) -> list[ir.Value]:
    """The scalars of a part."""
    n = ir.VectorType(part.type).shape[0]
    return [vector.extract(part, dynamic_position=[], static_position=[i]) for i in range(n)]


def together(scalars: list[ir.Value]) -> ir.Value:
    return vector.from_elements(ir.VectorType.get([len(scalars)], scalars[0].type), scalars)


def as_spread(mask: Bound, vec: int) -> Spread:
    """A bound as a vector of i1 for each access."""
    yes = ir.IntegerType.get_signless(1)
    type_ = vector_type(vec, yes)
    true = arith.constant(yes, 1) if any(p is None for p in mask.inside) else None
    return Spread(tuple(vector.broadcast(type_, p if p is not None else true) for p in mask.inside))


def has_blocks(op: ir.Operation) -> bool:
    return any(isinstance(v.type, ir.VectorType) for v in (*op.operands, *op.results))
