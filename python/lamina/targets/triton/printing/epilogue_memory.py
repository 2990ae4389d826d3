"""Shared memory through which the epilogues of ping-pong kernels read and write blocks, by the tensor memory accelerator: a read
begins as soon as its buffer is free, the first one while the group's product is computed; a write waits until the one before it has
left. Several tiles for the writes of a group gained nothing."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from lamina.core.dtypes import HALF
from lamina.core.gpu import Gpu
from lamina.core.program import ITEM_BYTES
from lamina.passes.ir.reading import element_of

from .descriptors import TritonTile
from .expressions import INDENT
from .ops import TYPES
from .printer import Printer

SHARED = Gpu.named("sm_90a").shared_bytes
_FEWEST = 4  # stages at least beside buffers of what the epilogue reads
_BARRIERS = 1024  # most bytes of barriers and of Triton's state for warp specialization

_COUNT = "READS_OF_"  # placeholder for how often a program reads through a buffer


@dataclass(frozen=True)
class Read:
    """A read of a block through a buffer.

    begin  the line that begins to load it
    place  where the block begins
    line   the number of the line that waits for it
    """

    begin: str
    place: tuple[str, ...]
    line: int


@dataclass
class ReadBuffer:
    """A buffer for either group of warps, through which its epilogue reads blocks of one parameter.

    blocks  the parameter's descriptor
    shape   a block's rows and columns
    bytes   of a block
    """

    blocks: str
    shape: tuple[int, int]
    bytes: int
    reads: list[Read] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the shared memory."""
        return self.blocks.replace("_blocks", "_read")

    @property
    def filled(self) -> str:
        """The name of the barriers."""
        return f"{self.name}_filled"

    def freed(self) -> Iterator[tuple[int, Read]]:
        """Yields each read, and the number of the first line at which the buffer is free for it."""
        for before, read in zip((None, *self.reads), self.reads, strict=False):
            yield before.line + 1 if before is not None else 0, read

    def read(self, place: Sequence[str], line: int) -> str:
        """Returns the value of the block at a place, for the line of this number."""
        begin = f"fetch({self.blocks}, [{', '.join(place)}], {self.name}.index(turn), {self.filled}.index(turn), {self.bytes})"
        number = len(self.reads)
        self.reads.append(Read(begin, tuple(place), line))
        rows, columns = self.shape
        parity = f"(done * {_COUNT}{self.name} + {number}) & 1"
        return f"fetched({self.name}.index(turn), {self.filled}.index(turn), {parity}, {rows}, {columns})"


def with_reads(lines: Sequence[str], buffers: Sequence[ReadBuffer], depth: int) -> list[str]:
    """Returns the lines of an epilogue, with those that begin its reads as early as may be: after the buffer's previous read.
    depth: of the lines."""
    before: dict[int, list[str]] = {}  # lines to place before that of a number
    moved: set[int] = set()
    for free, read in sorted((pair for buffer in buffers for pair in buffer.freed()), key=lambda pair: pair[0]):
        needed = [i for i in _computing(lines, read.place, free) if i not in moved]
        moved.update(needed)
        before.setdefault(free, []).extend([*(lines[i] for i in needed), f"{INDENT * depth}{read.begin}"])
    placed = [text for i, line in enumerate(lines) for text in (*before.get(i, ()), *([] if i in moved else [line]))]
    for buffer in buffers:
        placed = [text.replace(f"{_COUNT}{buffer.name} ", f"{len(buffer.reads)} ") for text in placed]
    return placed


def _computing(lines: Sequence[str], texts: Sequence[str], free: int) -> list[int]:
    """Returns the numbers of the lines, from `free` on, that compute what texts name."""
    found: set[int] = set()
    for name in (name for text in texts for name in re.findall(r"\bv\d+\b", text)):
        for i in range(free, len(lines)):
            left, equals, right = lines[i].partition(" = ")
            if equals and left.strip() == name:
                found |= {*_computing(lines, [right], free), i}
    return sorted(found)


class EpilogueMemory(Printer):
    """Prints what the epilogues of ping-pong kernels read and write.

    types   the element types of parameters, by their names
    reads   buffers, by the descriptor of what is read
    stored  descriptors of the results
    tiles   the shared memory through which results are stored, by its type and shape
    loop    the first line of the loop over products, "" before it
    bytes   of a stage of the loop
    shared  bytes of shared memory besides the stages
    """

    def __init__(self, function: ir.Operation, descriptors: bool, name: str) -> None:
        super().__init__(function, descriptors, name)
        self.types = {self.names[a]: str(ir.MemRefType(a.type).element_type) for a in self.arguments}
        self.reads: dict[str, ReadBuffer] = {}
        self.stored: list[str] = []
        self.tiles: dict[str, str] = {}
        self.loop = ""
        self.bytes = 0
        self.shared = _BARRIERS

    def _read(self, op: ir.Operation) -> None:
        """Reads blocks of 16-bit elements through shared memory where a descriptor loads them and there is room, else to
        registers."""
        half = self.loop and ir.VectorType(op.result.type).rank == 2 and str(element_of(op.result.type)) in HALF
        tile = self._tile_of(op) if half else None
        buffer = self._way_in(tile) if tile is not None and not tile.across else None
        if buffer is None or tile is None:
            super()._read(op)
        else:
            self._set(op.result, buffer.read(tile.places, len(self.lines)))

    def _way_in(self, tile: TritonTile) -> ReadBuffer | None:
        """Returns the buffer through which an epilogue reads a tile; None if there is no room for one."""
        blocks, shape = self._descriptor(tile), tile.blocks
        if blocks not in self.reads:
            dtype = self.types[tile.name]
            bytes_ = math.prod(shape) * ITEM_BYTES[dtype]
            if SHARED - self.shared - 2 * bytes_ < _FEWEST * self.bytes:
                return None
            buffer = self.reads[blocks] = ReadBuffer(blocks, (shape[-2], shape[-1]), bytes_)
            self.shared += 2 * bytes_
            allocated = f"gl.allocate_shared_memory({TYPES[dtype]}, {[2, *shape]}, {blocks}.layout)"
            self.head.append(f"{INDENT}{buffer.name}, {buffer.filled} = {allocated}, barriers(2)")
        return self.reads[blocks]

    def _write(self, op: ir.Operation) -> None:
        """Stores through shared memory and a descriptor where memory allows it, else from registers."""
        value, view, *where_ = op.operands
        tile = None if value in self.literals else self._tile(view, where_, ir.VectorType(value.type))
        if tile is None or tile.across:
            super()._write(op)
            return
        blocks = self._descriptor(tile)
        if blocks not in self.stored:
            self.stored.append(blocks)
        self._line(f"store({blocks}, [{', '.join(tile.places)}], {self._way_out(tile, blocks)}.index(turn), {self._value(value)})")

    def _way_out(self, tile: TritonTile, blocks: str) -> str:
        """Returns shared memory for one result block of each group. Results of one shape share it."""
        dtype = self.types[tile.name]
        shape = f"{TYPES[dtype]}, {[2, *tile.blocks]}"
        if shape not in self.tiles:
            self.tiles[shape] = f"tile{len(self.tiles)}"
            self.shared += 2 * math.prod(tile.blocks) * ITEM_BYTES[dtype]
            self.head.append(f"{INDENT}{self.tiles[shape]} = gl.allocate_shared_memory({shape}, {blocks}.layout)")
        return self.tiles[shape]
