"""lamina-tile: lowers kernel functions on tensors to tile programs, which are block programs on memrefs.

For each function, `programs` chooses what writes its body, over which iteration space (space/space.py) and by which schedule.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func

from lamina.core.sizes import Size, SizeLike
from lamina.core.target import Target
from lamina.schedules.rows import Triton

from ..fusion.consistent import CONSISTENT
from ..infra.base import Pass
from ..ir.reading import element_type
from ..ir.sizes import KERNEL_SIZES, size_attribute
from ..lower.route_to_triton import route
from ..plan.launches import ALIGNED
from .arguments import KernelSizes
from .emit.blocks import Frame
from .kernel import Kernel, kernels_of
from .programs import TileProgram, program_of
from .ranges.narrowed import with_given_sizes
from .ranges.size_range import LATER

TILED_LATER = "tile.later"
"""The attribute of a kernel that is compiled when a call first needs it."""
SPREAD = {"threads", "vec", "chunks", "pack", "teams", "cluster", "resident", "ctas"}
"""The numbers that say how a program is spread over a GPU's threads (see NvvmConfig); each becomes an attribute `tile.NAME`."""


@dataclass(frozen=True)
class TilePass(Pass):
    """Turn every kernel function into a block program on memrefs.

    Before: `func.func private @k(tensors) -> tensors` with `graph.kernel`, launched by plan.launch, whose operand types give the
    layouts. After: `func.func @k(memrefs)` with `tile.grid` (programs), `tile.bytes` (moved in all) and `tile.flops`, in vector,
    arith, math, scf and memref, with tile.program_id. `tile.alias` lists the arguments that some launch writes in place.

        func.func private @relu(%x: tensor<1000xf32>) -> tensor<1000xf32>
     -> func.func @relu(%x: memref<1000xf32>, %o: memref<1000xf32>) attributes {tile.grid = 1} { vector.transfer_read ... }

    A program for a GPU also says how it is spread: `tile.threads` of one program, `tile.vec` neighboring elements of each,
    `tile.pack` programs of one CTA, `tile.teams` of threads that share the iterations of loops marked tile.shared, `tile.cluster`
    CTAs of one program, and `tile.align`, the alignment of each argument in bytes. `tile.consistent` is that of the function
    (`graph.consistent`): each element has the same bits wherever it is computed.

    In a function with `graph.symbols` or `graph.lengths` other sizes stand for symbols or for products of them (see
    lamina-size-ranges); `graph.later` becomes `tile.later`.
    A function that reduces rows takes the schedule in its `graph.rows` (schedules/rows.py) instead of the cost model's:
    "simt{threads=256 cluster=2}", or "triton{n=4096 warps=8}", as lamina-route-to-triton marks it.

    target               the machine that blocks are chosen for: cpu or nvvm:sm_90a
    round_intermediates  f16 and bf16 values are rounded wherever eager stores them, not only where Lamina stores them
    wide_sizes           kernels for GPUs count symbolic sizes in 64 bits, not in 32
    """

    name: ClassVar[str] = "lamina-tile"
    target: Target = field(default_factory=Target.host)
    round_intermediates: bool = False
    wide_sizes: bool = False

    def run(self, module: ir.Module) -> None:
        """Lowers every function with `graph.kernel`. Raises CompileError for one that has no body or cannot be tiled."""
        size_bits = 32 if self.target.is_gpu and not self.wide_sizes else 64
        for kernel in kernels_of(module):
            with kernel.function.location:
                new = _lower(with_given_sizes(kernel), self.target, self.round_intermediates, size_bits)
            if LATER in kernel.function.attributes:
                new.attributes[TILED_LATER] = ir.UnitAttr.get()
            kernel.function.erase()


def _lower(kernel: Kernel, target: Target, round_half: bool, size_bits: int) -> ir.Operation:
    """Emits the tile program of a kernel function; an empty one where its results have no elements."""
    if all(0 in t.layout.shape for t in kernel.outs):
        return _describe(_function(kernel, None, size_bits), kernel, {}, grid=0, bytes=0, flops=0)
    program = program_of(kernel, target, round_half)
    new = _function(kernel, program, size_bits)
    _describe(new, kernel, program.spread, grid=program.grid, bytes=program.bytes, flops=program.flops)
    if isinstance(program.triton, Triton):
        route(new, program.triton.warps, program.triton.stages)
    elif program.triton is not None:
        new.attributes["tile.triton"] = ir.StringAttr.get(str(program.triton))
    return new


def _function(kernel: Kernel, program: TileProgram | None, size_bits: int) -> ir.Operation:
    """Creates the tile function next to the kernel function. program: writes its body; None leaves it empty."""
    with ir.InsertionPoint(kernel.function):
        new = func.FuncOp(kernel.name, (kernel.types, []))
        body = new.add_entry_block()
        sizes = KernelSizes(body, dict(zip(list(body.arguments), kernel.arguments, strict=True)), size_bits, kernel.lengths)
        with ir.InsertionPoint(body):
            if program is not None:
                _emit_body(kernel, program, body, sizes)
            func.ReturnOp([])
        distributed = program is not None and bool(program.spread) and program.triton is None
        sizes.finish(new.operation, kernel.outside, divides=distributed)
    return new.operation


def _emit_body(kernel: Kernel, program: TileProgram, entry: ir.Block, sizes: KernelSizes) -> None:
    """Emits the body of a tile function at the insertion point. entry: its block."""
    number = ir.Operation.create("tile.program_id", results=[ir.IndexType.get()]).results[0]
    memory = [sizes.flat(m) if program.flat else m for m in list(sizes.arguments)]
    if program.spread and isinstance(program.grid, Size):
        sizes.value(program.grid)  # threads beyond the last program of a CTA need it
    inputs = {a: (m, element_type(a)) for a, m in zip(kernel.inputs, memory, strict=False)}
    overwritten = [(kernel.inputs[i], memory[o]) for i, o in kernel.function.attributes.get("graph.inplace", ())]
    frame = Frame(entry, inputs, memory[len(inputs) :], sizes, overwritten)
    program.body(frame, program.space, program.schedule).emit(number)


def _describe(new: ir.Operation, kernel: Kernel, spread: dict[str, Any], **numbers: SizeLike) -> ir.Operation:
    old = kernel.function
    for key, n in (numbers | {"outputs": len(kernel.outs)}).items():
        new.attributes[f"tile.{key}"] = size_attribute(kernel.outside(n))
    for key in SPREAD & spread.keys():
        new.attributes[f"tile.{key}"] = size_attribute(spread[key])
    if spread:
        own = [ALIGNED] if KERNEL_SIZES in new.attributes else []
        new.attributes["tile.align"] = ir.DenseI64ArrayAttr.get([*spread["align"], *own])
    if "sym_visibility" in old.attributes:
        new.attributes["sym_visibility"] = old.attributes["sym_visibility"]
    if CONSISTENT in old.attributes:
        new.attributes["tile.consistent"] = ir.UnitAttr.get()
    if "graph.inplace" in old.attributes:
        shared = {position for pair in old.attributes["graph.inplace"] for position in pair}
        new.attributes["tile.alias"] = ir.DenseI64ArrayAttr.get(sorted(shared))
    return new
