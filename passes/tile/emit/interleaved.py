"""Loads elements that lie side by side in pairs, as the parts of complex numbers do: whole blocks of pairs, which are taken apart
in registers."""

from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from ...ir.affine import Affine, Axis
from .views import flags

if TYPE_CHECKING:
    from .blocks import Blocks


def of_pairs(b: "Blocks", mask: ir.Value | None) -> ir.Value | None:
    """Returns the mask of both elements of each pair."""
    if mask is None:
        return None
    if mask.owner.name == "vector.create_mask":
        type_ = ir.VectorType.get([2 * b.lanes], ir.IntegerType.get_signless(1))
        return vector.create_mask(type_, [arith.muli(mask.owner.operands[0], b.number(2))])
    return vector.shuffle(mask, mask, [i for i in range(b.lanes) for _ in range(2)])


def read(b: "Blocks", flat: ir.Value, at: Affine, mask: ir.Value | None) -> ir.Value | None:
    """Loads every second element of memory as part of a block of pairs, which the elements between them share; None where memory
    does not consist of pairs at even places."""
    steps = [c for t, c in at.terms if t is not b.vector]
    apart = at.coefficient(b.vector) == 2 and all(isinstance(t, Axis) or not b.is_block(t) for t, _ in at.terms)
    span = b.sizes.spans.get(flat, 1)  # memory of the program's own is not known here
    if not apart or not b.pairs or not isinstance(at.constant, int) or any(c % 2 for c in (*steps, span)):
        return None
    odd, stored = at.constant % 2, ir.MemRefType(flat.type).element_type
    whole = at + -odd
    depth = max((b.bound[t][0] if isinstance(t, Axis) else b.depth(t) for t, _ in at.terms), default=0)

    def both() -> ir.Value:
        """Reads both values of each pair."""
        identity, pad = ir.AffineMap.get_identity(1), b.constant(0, stored)
        type_ = ir.VectorType.get([2 * b.lanes], stored)
        return vector.transfer_read(type_, flat, [b.index(whole)], identity, pad, mask=of_pairs(b, mask), in_bounds=flags([True]))

    pairs = b.memoized(("pairs", flat, whole, mask), depth, both)
    return vector.shuffle(pairs, pairs, [2 * i + odd for i in range(b.lanes)])
