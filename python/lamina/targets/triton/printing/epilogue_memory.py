"""Shared memory through which the epilogues of ping-pong kernels read and write blocks, by the tensor memory accelerator: a read
begins as soon as its buffer is free, the first one while the group's product is computed; a write waits until the one before it in
the same tile has left."""

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
_FEWEST = 4  # stages at least beside buffers of what the epilogue reads, and tiles of what it writes
_BARRIERS = 1024  # most bytes of barriers and of Triton's state for warp specialization

_COUNT = "READS_OF_"  # placeholder for how often a program reads through a buffer
_SLOT, _WAITING = "SLOT_", "WAITING"  # placeholders for the tile of a write, and for the writes that may be under way
_MOST_TILES = 4  # of a group of warps


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


@dataclass
class WriteTiles:
    """Tiles of shared memory for each group of warps, in which its epilogue leaves blocks of one shape and type to be stored.

    name    of the tiles
    dtype   Triton's
    shape   a block's
    blocks  a descriptor of such blocks
    bytes   of a block
    writes  how many a program makes
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    blocks: str
    bytes: int
    writes: int = 0

    def write(self, blocks: str, place: Sequence[str], value: str) -> str:
        """Returns the line that writes a block by a descriptor."""
        self.writes += 1
        return f"store({blocks}, [{', '.join(place)}], {self.name}.index({_SLOT}{self.writes - 1}), {value}, {_WAITING})"

    def count(self, room: int) -> int:
        """Returns how many tiles each group has, if there are `room` bytes for more than one: a divisor of the writes, so that each
        program begins with the same."""
        return next(n for n in range(_MOST_TILES, 0, -1) if self.writes % n == 0 and (n == 1 or 2 * (n - 1) * self.bytes <= room))

    def allocated(self, count: int) -> str:
        """Returns the line that allocates them."""
        return f"{self.name} = gl.allocate_shared_memory({self.dtype}, {[2 * count, *self.shape]}, {self.blocks}.layout)"

    def placed(self, line: str, count: int) -> str:
        """Returns a line with the tile of its write, the next one each time."""

        def tile(found: re.Match[str]) -> str:
            """Returns the number of a write's tile."""
            return f"{self.name}.index({f'turn * {count} + {int(found[1]) % count}' if count > 1 else 'turn'})"

        line = re.sub(rf"\b{self.name}\.index\({_SLOT}(\d+)\)", tile, line)
        return line.replace(f", {_WAITING})", f", {count - 1})")


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
    tiles   tiles through which results are stored, by type and shape
    loop    the first line of the loop over products, "" before it
    bytes   of a stage of the loop
    shared  bytes of shared memory besides the stages
    """

    def __init__(self, function: ir.Operation, descriptors: bool, name: str) -> None:
        super().__init__(function, descriptors, name)
        self.types = {self.names[a]: str(ir.MemRefType(a.type).element_type) for a in self.arguments}
        self.reads: dict[str, ReadBuffer] = {}
        self.stored: list[str] = []
        self.tiles: dict[tuple[str, tuple[int, ...]], WriteTiles] = {}
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
        self._line(self._way_out(tile, blocks).write(blocks, tile.places, self._value(value)))

    def _way_out(self, tile: TritonTile, blocks: str) -> WriteTiles:
        """Returns the tiles for blocks of a result. Results of one shape and type share them."""
        dtype = self.types[tile.name]
        if (key := (dtype, tile.blocks)) not in self.tiles:
            bytes_ = math.prod(tile.blocks) * ITEM_BYTES[dtype]
            self.tiles[key] = WriteTiles(f"tile{len(self.tiles)}", TYPES[dtype], tile.blocks, blocks, bytes_)
            self.shared += 2 * bytes_
        return self.tiles[key]

    def _place_epilogue(self) -> None:
        """Begins reads as early as may be, and gives writes as many tiles as there is room for beside `_FEWEST` stages: one where
        writes through tiles of several shapes take turns."""
        self.lines = with_reads(self.lines, list(self.reads.values()), 2)
        for tiles in self.tiles.values():
            count = tiles.count(SHARED - self.shared - _FEWEST * self.bytes if len(self.tiles) == 1 else 0)
            self.shared += 2 * (count - 1) * tiles.bytes
            self.head.append(f"{INDENT}{tiles.allocated(count)}")
            self.lines = [tiles.placed(line, count) for line in self.lines]
