"""Memory seen with other sizes and strides, and the attributes of its accesses."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import memref

from lamina.core.sizes import Size, SizeLike

from ...ir.sizes import static_sizes

if TYPE_CHECKING:
    from .scopes import Scopes


def view(b: "Scopes", memory: ir.Value, offset: int, sizes: Sequence[SizeLike], strides: Sequence[SizeLike]) -> ir.Value:
    """Returns memory seen as an array of these sizes and strides: at the start of the program, or, where some are symbolic, in
    front of its loops."""
    known = [static_sizes(sizes), static_sizes(strides)]
    type_ = ir.MemRefType.get(known[0], ir.MemRefType(memory.type).element_type, ir.StridedLayoutAttr.get(offset, known[1]))

    def make(*values: list[ir.Value]) -> ir.Value:
        """Emits the cast."""
        return memref.ReinterpretCastOp(type_, memory, [], *values, [offset], *known).result

    open_ = [[b.number(n) for n in numbers if isinstance(n, Size)] for numbers in (sizes, strides)]
    if any(open_):
        return b.memoized(("view", memory, str(type_), *map(tuple, open_)), 0, lambda: make(*open_))
    with ir.InsertionPoint.at_block_begin(b.entry):
        return make(*open_)


def last_dims_map(rank: int) -> ir.AffineMap:
    """Returns the map from an array's dimensions to a tile's, which are the last two."""
    return ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(rank - 2 + d) for d in range(2)])


def bool_array(values: Iterable[bool]) -> ir.ArrayAttr:
    """Returns bools as an attribute, such as whether a block is in bounds along each side."""
    return ir.ArrayAttr.get([ir.BoolAttr.get(v) for v in values])
