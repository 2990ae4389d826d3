"""Cost model of horizontal fusion: decides which launches can become one, and when that saves time."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.sizes import typical
from lamina.core.target import Target

from ..ir.reading import element_of, name_of, nested, ops_in
from ..ir.rewriting import read_by
from ..ir.sizes import KERNEL_SIZES, size_on
from ..lower.simt.threads import Shape
from ..lower.simt.values import has_blocks
from ..space.schedule import bits
from ..tile.start_early import THREADS

LAUNCH = 2.5e-6  # seconds of a launch: from the end of one empty kernel to the end of the next
SMALL = 8  # launches: a kernel that takes longer gains nothing by joining others
BASE = 24  # registers of a thread, besides those that hold elements of its blocks
LOSS = 1.34  # factor by which joining may decrease the threads on an SM, if not all CTAs run at once
BUFFERS = 480  # buffers of a joined kernel, at most: arguments may take 4 KB
KERNELS = 16  # different kernels in a joined one, at most
OPS = 3000  # ops in a joined kernel, at most
EXCHANGES = (
    "vector.reduction",
    "tile.scan",
    "tile.recurrence",
    "tile.sort",
    "tile.exp_total",
    "tile.combine",
    "tile.transpose",
    "memref.alloca",
)
"""Ops in which threads exchange values."""
SHARED = 40 << 10  # bytes of shared memory at most, of the 48 KB that need no opt-in


class SmallKernel:
    """A tile program that may be joined with others.

    cta        threads of its CTAs; the CTAs of a joined kernel have at least as many
    symbolic   whether it computes with symbolic sizes; if so, its programs come last in a joined kernel
    grid       its number of programs, at typical sizes
    seconds    estimated time of a launch: its bytes or its operations at the GPU's peak rates, whichever takes longer
    why_alone  the reason why it is never joined, or ""
    """

    def __init__(self, function: ir.Operation, gpu: Gpu, lanes: int) -> None:
        self.function, self.gpu = function, gpu
        self.name = name_of(function)
        if "tile.threads" not in function.attributes or "tile.triton" in function.attributes:
            self.why_alone = "it is not spread over threads by lamina-distribute"
            return
        self.symbolic = KERNEL_SIZES in function.attributes
        self.shape = Shape.of(function, lanes)
        self.grid, bytes_, flops = (typical(size_on(function, name)) for name in ("tile.grid", "tile.bytes", "tile.flops"))
        self.cta = self.shape.cta
        self.seconds = max(bytes_ / gpu.bandwidth, flops / gpu.peak("f32"))
        self.why_alone = ""
        if self.shape.cluster > 1 or not self.grid:
            self.why_alone = "it has clusters or no programs"
        elif self.seconds > SMALL * LAUNCH:
            self.why_alone = "it lasts long"

    @cached_property
    def registers(self) -> int:
        """An estimate of the registers of a thread: BASE, and those of all blocks that are live at once."""
        block = self.function.regions[0].blocks[0]
        return BASE + _live_registers(block, self.shape.lanes, self.shape.chunks * self.shape.vec)

    @property
    def can_pack(self) -> bool:
        """Whether any number of its programs may share a CTA, because none needs a barrier of the CTA."""
        return self.shape.teams == 1 and (self.shape.threads <= self.shape.warp or not self.size[2])

    def within(self, cta: int) -> Shape:
        """Returns its shape if CTAs have `cta` threads, which more of its programs share."""
        return replace(self.shape, pack=self.shape.pack * cta // self.cta)

    @cached_property
    def size(self) -> tuple[int, int, bool]:
        """The number of ops, bytes of shared memory, and whether threads exchange values."""
        ops, shared = nested(self.function), 0
        for op in ops:
            item = max(bits(str(element_of(op.results[0].type))) // 8, 1) if op.name in ("memref.alloca", "tile.combine") else 0
            if op.name == "memref.alloca":
                rows, columns = ir.MemRefType(op.results[0].type).shape
                shared += rows * (columns + 4) * item
            elif op.name == "tile.combine":
                shared += self.cta * (self.shape.chunks * self.shape.vec if has_blocks(op) else 1) * item
        return len(ops), shared, any(op.name in EXCHANGES for op in ops)

    def threads(self, registers: int, cta: int) -> int:
        """Returns the threads that an SM holds, with `registers` registers each and in CTAs of `cta` threads."""
        return max(min(THREADS // cta, self.gpu.registers // (registers * cta)), 1) * cta


def kernels_of(module: ir.Module, target: Target) -> dict[str, SmallKernel]:
    """Returns the tile programs of a module, by name."""
    found = [op.operation for op in module.body.operations if "tile.grid" in op.operation.attributes]
    return {k.name: k for k in (SmallKernel(f, target.gpu, target.lanes) for f in found)}


class LaunchBundle:
    """Launches that become one launch of a joined kernel.

    steps    the numbers of their steps
    kernels  the number of launches of each kernel
    buffers  the operands of all launches
    cta      threads of a CTA of the joined kernel
    """

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.steps: list[int] = []
        self.kernels: dict[SmallKernel, int] = {}
        self.buffers: set[ir.Value] = set()
        self.cta = 0

    def add(self, step: int, kernel: SmallKernel, buffers: Iterable[ir.Value]) -> bool:
        """Adds a launch and returns True, unless that would cost time or exceed a limit."""
        fresh = {v for v in buffers if v not in self.buffers}
        if len(self.buffers) + len(fresh) > BUFFERS:
            return False
        kernels = {**self.kernels, kernel: self.kernels.get(kernel, 0) + 1}
        cta = max(self.cta, kernel.cta)
        if len(kernels) > 1 and not self._costs_no_time(kernels, cta):
            return False
        self.steps.append(step)
        self.buffers |= fresh
        self.kernels, self.cta = kernels, cta
        return True

    def _costs_no_time(self, kernels: Mapping[SmallKernel, int], cta: int) -> bool:
        """Returns whether joining the kernels costs no time: all their CTAs run at once, or each kernel has about as many threads
        on an SM as it has alone."""
        if len(kernels) > KERNELS or not all(k.cta == cta or k.can_pack for k in kernels):
            return False
        ops, shared = (sum(k.size[i] for k in kernels) for i in (0, 1))
        if ops > OPS or shared > SHARED:
            return False
        registers = max(k.registers for k in kernels)
        threads = sum(k.within(cta).ctas(k.grid * n) for k, n in kernels.items()) * cta
        if threads <= self.gpu.sm_count * next(iter(kernels)).threads(registers, cta):
            return True
        return all(k.threads(k.registers, k.cta) <= LOSS * k.threads(registers, cta) for k in kernels)


def _live_registers(block: ir.Block, lanes: int, each: int) -> int:
    """Returns the most registers per thread that are live at once in a block of ops. each: elements of a block per thread."""
    ops = ops_in(block)
    last: dict[ir.Value, int] = {}
    for position, op in enumerate(ops):
        last.update(dict.fromkeys(read_by(op), position))
    ends: dict[int, int] = {}
    alive = peak = 0
    for position, op in enumerate(ops):
        inner = max((_live_registers(b, lanes, each) for r in op.regions for b in r.blocks), default=0)
        new = sum(_registers_of(r.type, lanes, each) for r in op.results)
        for r in op.results:
            end = last.get(r, position)
            ends[end] = ends.get(end, 0) + _registers_of(r.type, lanes, each)
        alive += new
        peak = max(peak, alive + inner)
        alive -= ends.pop(position, 0)
    return peak


def _registers_of(type_: ir.Type, lanes: int, each: int) -> int:
    """Returns the registers per thread of a value; 0 for scalars, which BASE includes."""
    if not isinstance(type_, ir.VectorType):
        return 0
    per_thread = each if type_.shape[0] == lanes else 1
    return -(-per_thread * max(bits(str(type_.element_type)), 1) // 32)
