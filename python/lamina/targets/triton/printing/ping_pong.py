"""Prints ping-pong GEMMs in Gluon: one warp group's epilogue overlaps the other's main loop.

    the kernel      makes descriptors, rings of blocks and barriers, and specializes its warps
    ..._load        one warp: loads the blocks of the operands
    ..._multiply    two groups of 4 warps: each computes every other block of the result and its epilogue, as Triton writes that

Triton text is valid Gluon except for layouts; positions along a dimension infer theirs from the values they are combined with.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from lamina.core.dtypes import HALF
from lamina.passes.ir.reading import element_of

from .blocks import config_of
from .descriptors import TritonTile
from .epilogue_memory import SHARED, EpilogueMemory, with_reads
from .expressions import INDENT
from .math import FUNCTIONS
from .ops import TYPES
from .pairs import can_pair
from .printed import Printed

IMPORTS = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait,
)

from lamina.kernels.products.ping_pong import (
    barriers, before, fetch, fetched, following, halves, load, stage_of, store, sums,
)
"""
_JOINED = 4096  # bytes through which sums across warps go, of both groups
_SWIZZLED = 64  # columns of 16 bits in a swizzled row of shared memory
_STAGES = "STAGES"  # placeholder for the number of stages that fit
_LANES = 128  # threads of a warp group
_ACCUMULATED = 128  # elements of accumulators that a thread has registers for
_REGISTERS, _LOADS = 240, 24  # registers of a thread that multiplies, and of one that loads


class NoPingPong(Exception):
    """Raised with the reason why a program cannot be a ping-pong kernel."""


@dataclass(frozen=True)
class Ring:
    """A ring buffer in shared memory, for the blocks of an operand or of two side by side.

    blocks  their descriptors
    places  where each block begins
    tile    the first operand's block
    """

    name: str
    blocks: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    tile: TritonTile

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a stage, with the columns of two operands side by side."""
        *outer, i, j = self.tile.blocks
        count = len(self.blocks)
        return (*outer, count * i, j) if self.tile.across else (*outer, i, count * j)

    def operand(self) -> str:
        """Returns the block of a stage as an operand of tensor cores."""
        text = f"{self.name}.index(stage)"
        if len(self.tile.blocks) > 2:
            text += f".reshape({list(self.shape[-2:])})"
        return f"{text}.permute((1, 0))" if self.tile.across else text

    def loads(self) -> list[str]:
        """Returns the lines that load a stage."""
        dim = len(self.tile.blocks) - (2 if self.tile.across else 1)
        size, parts = self.tile.blocks[dim], [f"{self.name}.index(stage)"]
        if len(self.blocks) > 1:
            parts = [f"{parts[0]}.slice({i * size}, {size}, {dim})" for i in range(len(self.blocks))]
        texts = zip(self.blocks, self.places, parts, strict=True)
        return [f"load({blocks}, [{', '.join(place)}], filled.index(stage), {part})" for blocks, place, part in texts]


class PingPongPrinter(EpilogueMemory):
    """Prints ping-pong kernels. Raises NoPingPong unless a program multiplies blocks from descriptors in a single loop."""

    def __init__(self, function: ir.Operation, descriptors: bool, name: str) -> None:
        super().__init__(function, descriptors, name)
        self.config, self.given = config_of(function), True
        self.rings: list[Ring] = []
        self.joins = False  # whether there are sums across warps
        self.place: list[str] = []  # lines before the loop

    def run(self) -> Printed:
        """Prints the functions and the kernel, with as many stages as fit into shared memory."""
        self.depth = 2
        self._body(self.block)
        self._size(self.programs)  # so that it is among the functions' arguments
        if not self.loop:
            raise NoPingPong("it has no loop of products")
        self.lines = with_reads(self.lines, list(self.reads.values()), 2)
        stages = min(self.config.stages, (SHARED - self.shared) // self.bytes)
        if stages < 2:
            raise NoPingPong(f"{self.bytes} bytes of each stage and {self.shared} of results are too many for shared memory")
        functions = [*map(self._function, self.calls), self._loading(), self._multiplying(), self._kernel()]
        texts = [text.replace("tl.arange(", "gl.arange(").replace(_STAGES, str(stages)) for text in functions]
        return replace(self._printed(texts), calls=(), imports=IMPORTS)

    # -- functions

    def _function(self, name: str) -> str:
        """Returns a function of math.py in Gluon, under a name of its own, as kernels in Triton may call the
        original."""
        self.lines = [line.replace(f"= {name}(", f"= {self.name}_{name}(") for line in self.lines]
        return FUNCTIONS[name].replace("@triton.jit", "@gluon.jit").replace(f"def {name}(", f"def {self.name}_{name}(")

    def _walk(self, first: str, step: str) -> str:
        return f"{INDENT}for program in range({first}, {self._size(self.programs)}, {step}):"

    def _gluon(self, signature: str, *lines: str) -> str:
        return "\n".join([f"@gluon.jit\ndef {self.name}{signature}:", *lines])

    def _loading(self) -> str:
        return self._gluon(
            f"_load({self._loader_arguments()})",
            f"{INDENT}stage, phase = 0, 1",
            self._walk("tl.program_id(0)", self.ctas),
            *self.place,
            f"{INDENT * 2}{self.loop}",
            f"{INDENT * 3}mbarrier.wait(emptied.index(stage), phase)",
            f"{INDENT * 3}mbarrier.expect(filled.index(stage), {self.bytes})",
            *(f"{INDENT * 3}{text}" for ring in self.rings for text in ring.loads()),
            f"{INDENT * 3}stage, phase = following(stage, phase, {_STAGES})",
        )

    def _multiplying(self) -> str:
        return self._gluon(
            f"_multiply(turn: gl.constexpr, {self._multiplier_arguments()})",
            f"{INDENT}done = 0",
            self._walk(f"tl.program_id(0) + turn * {self.ctas}", f"2 * {self.ctas}" if self.sizes else str(2 * int(self.ctas))),
            *self.place,
            *self.lines,
            f"{INDENT * 2}done += 1",
            f"{INDENT}tma.store_wait(0)",
        )

    def _kernel(self) -> str:
        return self._gluon(
            f"({self.parameters})",
            *self.head,
            f"{INDENT}filled, emptied, turns = barriers({_STAGES}), barriers({_STAGES}), barriers(2)",
            f"{INDENT}fence_async_shared()",
            f"{INDENT}gl.warp_specialize([",
            *(f"{INDENT * 2}({self.name}_multiply, ({turn}, {self._multiplier_arguments()}))," for turn in (0, 1)),
            f"{INDENT * 2}({self.name}_load, ({self._loader_arguments()})),",
            f"{INDENT}], [{self.config.warps}, 1], [{_REGISTERS}, {_LOADS}])",
        )

    def _loader_arguments(self) -> str:
        """Returns the arguments of the warp that loads."""
        blocks = [b for ring in self.rings for b in ring.blocks]
        return ", ".join([*blocks, *(ring.name for ring in self.rings), *self._loaded_sizes(), "filled", "emptied"])

    def _multiplier_arguments(self) -> str:
        """Returns the arguments of a warp group that multiplies."""
        buffers = [ring.name for ring in self.rings] + self.stored + list(self.tiles.values())
        buffers += [name for read in self.reads.values() for name in (read.blocks, read.name, read.filled)]
        return ", ".join([self.parameters, *buffers, *self._loaded_sizes(), "filled", "emptied", "turns"])

    def _loaded_sizes(self) -> list[str]:
        return [name for name in self.sizes.values() if name]

    # -- the loop

    def _for(self, op: ir.Operation) -> None:
        low, high, step, *inits = (self.literals.get(v, "") for v in op.operands)
        body = op.regions[0].blocks[0]
        self.names[body.arguments[0]] = "k"
        ops = [o.operation for o in body.operations if o.operation.name != "arith.constant"]
        dots = [o for o in ops if o.name == "vector.contract"]
        yielded = list(ops[-1].operands)
        known = all(text.isdigit() for text in (low, high, step)) and all(float(init or 1) == 0 for init in inits)
        if self.loop or not known or [dot.result for dot in dots] != yielded or len(ops) != len(yielded) * 2 + 2:
            raise NoPingPong("its loop does more than multiply blocks that it reads")
        pairs = zip(dots, list(body.arguments)[1:], strict=True)
        if any(dot.operands[0] != dots[0].operands[0] or dot.operands[2] != acc for dot, acc in pairs):
            raise NoPingPong("its products share no left factor")
        self.place, self.lines = self.lines, []
        self.loop = f"for k in range({low}, {high}, {step}):"
        left, *rights = (self._factor(v) for v in (dots[0].operands[0], *(dot.operands[1] for dot in dots)))
        joint = len(rights) == 2 and can_pair(*rights) and (rights[0].across or rights[0].blocks[-1] % _SWIZZLED == 0)
        rings = [self._ring(left), *([self._ring(*rights)] if joint else map(self._ring, rights))]
        rows, columns = ir.VectorType(op.results[0].type).shape
        if rows * columns * len(dots) > _ACCUMULATED * _LANES:
            raise NoPingPong("its sums find no room in the registers of 4 warps")
        self._multiply(rings, rows, columns * (2 if joint else 1), (int(low), -(-(int(high) - int(low)) // int(step))))
        names = self._halves("acc", rows, columns) if joint else self._sums(rings)
        self.names.update(zip(op.results, names, strict=True))

    def _sums(self, rings: Sequence[Ring]) -> list[str]:
        return ["acc", *(f"acc{i}" for i in range(1, len(rings) - 1))]

    def _multiply(self, rings: Sequence[Ring], rows: int, columns: int, steps: tuple[int, int]) -> None:
        """Prints the lines of the loop and around it."""
        low, count = steps
        sums = self._sums(rings)
        listed = ", ".join(sums)
        left, *rights = rings
        self._line(f"stage, phase = stage_of((2 * done + turn) * {count}, {_STAGES})")
        self._line("mbarrier.wait(turns.index(turn), (done & 1) ^ (1 - turn))")
        self._line(f"layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [{self.config.warps}, 1], [16, {columns}, 16])")
        for name in sums:
            self._line(f"{name} = gl.zeros(({rows}, {columns}), tl.float32, layout)")
        self._line(self.loop)
        self.depth += 1
        self._line("mbarrier.wait(filled.index(stage), phase)")
        for name, right in zip(sums, rights, strict=True):
            self._line(f"{name} = warpgroup_mma({left.operand()}, {right.operand()}, {name}, use_acc=k > {low}, is_async=True)")
        self._line(f"{listed} = warpgroup_mma_wait({len(sums)}, deps=({listed},))")
        self._line(f"mbarrier.arrive(emptied.index(before(stage, {_STAGES})), count=1, pred=k > {low})")
        self._line(f"stage, phase = following(stage, phase, {_STAGES})")
        self.depth -= 1
        self._line("mbarrier.arrive(turns.index(1 - turn), count=1)")
        self._line(f"{listed} = warpgroup_mma_wait(0, deps=({listed},))")
        self._line(f"mbarrier.arrive(emptied.index(before(stage, {_STAGES})), count=1)")

    def _factor(self, v: ir.Value) -> TritonTile:
        read = v.owner.operation
        known = read.name == "vector.transfer_read" and str(element_of(v.type)) in HALF
        tile = self._tile_of(read) if known else None
        if tile is None:
            raise NoPingPong("its factors are not of 16 bits, or lie so that no descriptor reads them")
        return tile

    def _ring(self, *tiles: TritonTile) -> Ring:
        first = tiles[0]
        dtype = TYPES[self.types[first.name]]
        blocks = tuple(map(self._descriptor, tiles))
        name = f"{blocks[0].removesuffix('_blocks')}_ring"
        ring = Ring(name, blocks, tuple(t.places for t in tiles), first)
        whole = f"[{_STAGES}, {', '.join(map(str, ring.shape))}]"
        self.head.append(f"{INDENT}{name} = gl.allocate_shared_memory({dtype}, {whole}, {blocks[0]}.layout)")
        self.bytes += 2 * math.prod(ring.shape)
        self.rings.append(ring)
        return ring

    def _make(self, name: str, source: str, sizes: str, steps: str, blocks: str) -> str:
        layout = f"gl.NVMMASharedLayout.get_default_for({blocks}, {TYPES[self.types[name]]})"
        return f"tma.make_tensor_descriptor({source}, {sizes}, {steps}, {blocks}, {layout})"

    # -- the epilogue

    def _reduce(self, op: ir.Operation) -> None:
        (dim,) = ir.DenseI64ArrayAttr(op.attributes["reduction_dims"])
        if dim == 0 and not self.joins:
            self.joins = True
            self.shared += _JOINED
        self._set(op.result, f"sums({self._value(op.operands[0])}, {dim})")

    def _halves(self, name: str, rows: int, columns: int) -> tuple[str, str]:
        left, right = self._fresh(), self._fresh()
        self._line(f"{left}, {right} = halves({name})")
        return left, right
