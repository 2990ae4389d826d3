"""Prints tensor descriptors, through which the tensor memory accelerator (TMA) loads and stores blocks of two dimensions."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike, divisor
from lamina.passes.ir.sizes import DYNAMIC, kernel_size

from .blocks import TritonBlocks
from .expressions import INDENT

STEP = 16  # alignment in bytes of a descriptor's rows
DIMENSIONS = 5  # most dimensions of a descriptor


@dataclass(frozen=True)
class TritonTile:
    """A block of memory as a descriptor sees it, the contiguous dimension last.

    source         where memory begins: the parameter, or an address after it
    name           the parameter
    sizes, steps   sizes and strides of memory, in elements
    blocks         the block's sizes
    places         where the block begins
    across         the program wants the last two dimensions transposed
    """

    source: str
    name: str
    sizes: tuple[SizeLike, ...]
    steps: tuple[SizeLike, ...]
    blocks: tuple[int, ...]
    places: tuple[str, ...]
    across: bool


class Descriptors(TritonBlocks):
    """The descriptors of a kernel.

    descriptors  whether blocks may be loaded through descriptors
    views        the op that makes each view
    made         a descriptor's name, by the text that makes it
    """

    def __init__(self, function: ir.Operation, name: str, descriptors: bool, part: ir.Operation | None = None) -> None:
        super().__init__(function, name, part)
        self.aligned = list(ir.DenseI64ArrayAttr(function.attributes["tile.align"]))
        self.descriptors = descriptors and bool(self.config.descriptors)
        self.views: dict[ir.Value, ir.Operation] = {}
        self.names_by_text: dict[str, str] = {}

    def _by_descriptor(self, read: ir.Operation) -> str | None:
        """Returns a load of a block in a loop by the tensor memory accelerator; None if memory does not allow it."""
        tile = self._tile_of(read) if read.operation.block.owner.operation.name == "scf.for" else None
        if tile is None:
            return None
        text = f"{self._descriptor(tile)}.load([{', '.join(tile.places)}])"
        if len(tile.blocks) > 2:
            text = f"{text}.reshape({', '.join(str(n) for n in tile.blocks[-2:])})"
        return f"{text}.T" if tile.across else text

    def _descriptor(self, tile: TritonTile) -> str:
        """Returns the name of a block's descriptor."""
        sizes, steps = ([self._size(n) for n in numbers] for numbers in (tile.sizes, tile.steps))
        return self._described(tile.name, tile.source, sizes, steps, tile.blocks)

    def _described(self, name: str, source: str, sizes: Sequence[object], steps: Sequence[object], blocks: Sequence[int]) -> str:
        """Returns the name of a descriptor, made before the loops. The name begins with `name`."""
        text = self._make(name, source, *(f"[{', '.join(map(str, numbers))}]" for numbers in (sizes, steps, blocks)))
        if text not in self.names_by_text:
            self.names_by_text[text] = f"{name}_blocks"
            if list(self.names_by_text.values()).count(self.names_by_text[text]) > 1:
                self.names_by_text[text] += str(len(self.names_by_text))
            self.head.append(f"{INDENT}{self.names_by_text[text]} = {text}")
        return self.names_by_text[text]

    def _make(self, name: str, source: str, sizes: str, steps: str, blocks: str) -> str:
        """Returns the text that makes a descriptor."""
        return f"tl.make_tensor_descriptor({source}, {sizes}, {steps}, {blocks})"

    def _layout(self, view: ir.Value) -> tuple[list[SizeLike], list[SizeLike]]:
        """Returns the sizes and strides of a view."""
        memory = ir.MemRefType(view.type)
        strides, _ = memory.get_strides_and_offset()
        if DYNAMIC not in (*memory.shape, *strides):
            return list(memory.shape), list(strides)
        op = self.views[view]
        open_ = map(kernel_size, list(op.operands)[1:])  # sizes, then strides
        found = [[next(open_) if n == DYNAMIC else n for n in numbers] for numbers in (memory.shape, strides)]
        sizes, steps = ([n for n in numbers if n is not None] for numbers in found)
        assert len(sizes) == len(steps) == memory.rank, "views are of sizes that the kernel takes"
        return sizes, steps

    def _tile_of(self, read: ir.Operation) -> TritonTile | None:
        """Returns the block of a vector.transfer_read as a descriptor sees it."""
        return self._tile(read.operands[0], list(read.operands)[1:-1], ir.VectorType(read.result.type))

    def _tile(self, view: ir.Value, indices: Sequence[ir.Value], type_: ir.VectorType) -> TritonTile | None:
        """Returns a block as a descriptor sees it; None if memory does not allow it."""
        sizes, strides = self._layout(view)
        _, offset = ir.MemRefType(view.type).get_strides_and_offset()
        item = type_.element_type.width // 8
        wide = item > 1 or isinstance(type_.element_type, ir.FloatType)
        starts = offset >= 0 and offset * item % STEP == 0
        if 1 in type_.shape or not (self.descriptors and starts and wide and 1 in strides[-2:] and len(strides) <= DIMENSIONS):
            return None
        source = self.views[view].operands[0]
        aligned = self.aligned[self.arguments.index(source)]
        order = list(range(len(strides)))
        if strides[-1] != 1:
            order[-2:] = order[-1], order[-2]
        others = [strides[d] for d in order[:-1] if sizes[d] != 1]
        block = [1] * (len(order) - 2) + list(type_.shape)
        if aligned % STEP or any(divisor(s) * item % STEP or s == 0 for s in others) or block[order[-1]] * item < STEP:
            return None
        sizes, steps, blocks = ([x[d] for d in order] for x in (sizes, strides, block))
        row = -(-sizes[-1] * item // STEP) * STEP // item
        if isinstance(row, Size) and 1 in sizes[:-1]:
            return None  # no kernel takes this size
        steps = [*(s if n != 1 else row for s, n in zip(steps[:-1], sizes, strict=False)), 1]
        places = tuple(self._value(indices[d]) for d in order)
        name = self.names[source]
        start = f"({name} + {offset})" if offset else name
        return TritonTile(start, name, tuple(sizes), tuple(steps), tuple(blocks), places, order[-1] != len(order) - 1)
