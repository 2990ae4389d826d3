"""Loads every second element: loads contiguous blocks and deinterleaves them in registers.

Elements that lie side by side in pairs, as the parts of complex numbers do, are read in whole pairs, which both loads share.
"""

from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from ...ir.affine import Affine, Axis
from .views import bool_array

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


def read(b: "Blocks", flat: ir.Value, index: Affine, mask: ir.Value | None) -> ir.Value | None:
    """Loads every second element of memory. None if the distance of the elements is not 2, where none are to be read between them,
    and where memory does not consist of pairs at even places and only some lanes are wanted."""
    is_strided = index.coefficient(b.vector) == 2 and all(isinstance(t, Axis) or not b.is_block(t) for t, _ in index.terms)
    if not is_strided or not b.pairs:
        return None
    steps = [c for t, c in index.terms if t is not b.vector]
    span = b.sizes.spans.get(flat, 1)  # memory of the program's own is not known here
    if not isinstance(index.constant, int) or any(c % 2 for c in (*steps, span)):
        return _between(b, flat, index, mask) if mask is None or mask.owner.name == "vector.broadcast" else None
    odd, stored = index.constant % 2, ir.MemRefType(flat.type).element_type
    pair_start = index + -odd
    depth = max((b.bound[t][0] if isinstance(t, Axis) else b.depth(t) for t, _ in index.terms), default=0)

    def both() -> ir.Value:
        """Reads both values of each pair."""
        identity, pad = ir.AffineMap.get_identity(1), b.constant(0, stored)
        type_ = ir.VectorType.get([2 * b.lanes], stored)
        return vector.transfer_read(
            type_, flat, [b.index(pair_start)], identity, pad, mask=of_pairs(b, mask), in_bounds=bool_array([True])
        )

    pairs = b.memoized(("pairs", flat, pair_start, mask), depth, both)
    return vector.shuffle(pairs, pairs, [2 * i + odd for i in range(b.lanes)])


def _between(b: "Blocks", flat: ir.Value, index: Affine, mask: ir.Value | None) -> ir.Value:
    """Reads two blocks that end with the last element that is wanted: none behind it need be memory of the tensor's. They overlap
    in one element, the last of the first block. mask: of all lanes or none."""
    lanes, stored = b.lanes, ir.MemRefType(flat.type).element_type
    type_, identity = ir.VectorType.get([lanes], stored), ir.AffineMap.get_identity(1)
    first, pad = b.index(index), b.constant(0, stored)
    places = first, arith.addi(first, b.number(lanes - 1))
    found = [vector.transfer_read(type_, flat, [place], identity, pad, mask=mask, in_bounds=bool_array([True])) for place in places]
    return vector.shuffle(*found, [2 * i if 2 * i < lanes else 2 * i + 1 for i in range(lanes)])
