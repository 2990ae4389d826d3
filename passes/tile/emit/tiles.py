"""Emits loads and stores of tiles, blocks of rank 2: of memory seen as an array along their axes, or element by element where
addresses do not grow evenly along them (gathers.py)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from ...ir.affine import Affine
from ...ir.expressions import Load
from ...ir.sizes import number_attribute
from . import gathers
from .scopes import Side
from .values import block_shape, filled
from .views import bool_array, last_dims_map, view

if TYPE_CHECKING:
    from .blocks import Blocks


def sides_of(b: "Blocks", e: Load) -> list[Side]:
    """Returns the sides of a tile of `e`, which has size 1 along those that `e` does not vary along."""
    own = b.axes(e)
    return [side if side.axis in own else Side(None, 1, 1) for side in b.sides]


def read(b: "Blocks", e: Load, sides: Sequence[Side]) -> ir.Value:
    """Loads a tile as memory holds it. Elements past the end of an axis are 0, and so are those that fail a bound."""
    memory, _ = b.memory[e.tensor]
    if e.guard or not b.merged.is_even(e.offset):
        return gathers.read(b, memory, e, sides)
    view, where, dims, inside = _view(b, memory, e.offset, sides)
    stored = ir.MemRefType(view.type).element_type
    pad = arith.constant(stored, number_attribute(0, stored))
    return vector.transfer_read(ir.VectorType.get([s.size for s in sides], stored), view, where, dims, pad, in_bounds=inside)


def write(b: "Blocks", value: ir.Value, memory: ir.Value, index: Affine) -> None:
    """Stores a tile. Elements past the end of an axis are left out."""
    if not b.merged.is_even(index):
        gathers.write(b, value, memory, index)
        return
    view, where, dims, inside = _view(b, memory, index, b.sides)
    vector.transfer_write(None, value, view, where, dims, in_bounds=inside)


def zero_past(b: "Blocks", value: ir.Value, d: int) -> ir.Value:
    """Returns a tile with zeros past the end of the axis of side `d`."""
    whole, i1 = ir.VectorType(value.type), ir.IntegerType.get_signless(1)
    sizes, left = [1, 1], [b.number(1), b.number(1)]
    sizes[d] = whole.shape[d]
    left[d] = arith.subi(b.number(b.sides[d].extent), b.start(b.sides[d].axis))
    mask = vector.create_mask(ir.VectorType.get(sizes, i1), left)
    mask = vector.broadcast(ir.VectorType.get(whole.shape, i1), mask)
    return arith.select(mask, value, filled(block_shape(value), 0.0, whole.element_type))


def _view(
    b: "Blocks", memory: ir.Value, index: Affine, sides: Sequence[Side]
) -> tuple[ir.Value, list[ir.Value], ir.AffineMap, ir.ArrayAttr]:
    """Returns memory as a view along the outer axes and the sides, the tile's indices in it, the map from its dimensions to the
    tile's, and whether the tile is in bounds along each side."""
    index = b.merged.index(index)
    along = [side.axis for side in b.sides]
    axes = [*(x for x in b.merged.rows if index.coefficient(x) and x not in along), *(side.axis for side in sides)]
    sizes = [1 if x is None else x.extent for x in axes]
    found = view(b, memory, index.constant, sizes, [index.coefficient(x) for x in axes])
    return found, [b.start(x) for x in axes], last_dims_map(len(axes)), bool_array(not side.cut for side in sides)
