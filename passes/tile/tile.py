"""lamina-tile: lowers kernel functions on tensors to tile programs, which are block programs on memrefs.

For each function: reads its iteration space (space/space.py), picks a schedule for the target, and writes the body with the
emitter of its kind: loops over rows and columns, GEMM, direct convolution, or depthwise convolution by planes.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func, memref

from lamina.core.errors import CompileError
from lamina.core.target import Target
from lamina.schedules import nvvm
from lamina.schedules.contraction import GemmConfig
from lamina.schedules.rows import Rows, Triton

from ..families.choice import CHOICE
from ..fusion.fuse import where
from ..infra.base import Pass
from ..ir.expressions import Apply, Load, walk
from ..ir.reading import Untraceable, element_type, shape_of
from ..lower.route_to_triton import send
from ..plan.launches import ALIGNED, alignments, layouts
from ..space.contraction import Unfit
from ..space.direct_convolution import WINDOW, DirectConvolution, NoDirectConvolution, direct_convolution_of
from ..space.planes import PLANES, Planes, PlaneWindow, planes_of
from ..space.schedule import Schedule, bits, operations, schedule
from ..space.schedule_gpu import chosen_rows, schedule_gpu
from ..space.space import Space, find_space
from .emit.blocks import Memory
from .emit.direct_convolution import DirectConvolutionProgram
from .emit.planes import PlaneProgram
from .loops import Loops
from .products import lower_product

THREADS = 2048  # that an SM holds
SPREAD = {"threads", "vec", "chunks", "pack", "teams", "cluster", "resident"}
Emitter = Loops | DirectConvolutionProgram | PlaneProgram
Scheduler = Callable[[Space, dict[ir.Value, int], list[int], Rows | None], Schedule]


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
    CTAs of one program, and `tile.align`, the alignment of each argument in bytes. With `tile.dependent` the kernel itself waits
    for the work before it (sm_90 and newer), so that it may be launched before that has ended.

    A function that reduces rows takes the schedule in its `graph.rows` (schedules/rows.py) instead of the cost model's:
    "nvvm{threads=256 cluster=2}", or "triton{n=4096 warps=8}", as lamina-route-to-triton would mark it.

    target               the machine that blocks are chosen for: cpu or nvvm:sm_90a
    round_intermediates  f16 and bf16 values are rounded wherever eager stores them, not only where Lamina stores them
    """

    name: ClassVar[str] = "lamina-tile"
    target: Target = field(default_factory=Target.host)
    round_intermediates: bool = False

    def run(self, module: ir.Module) -> None:
        """Lowers every function with `graph.kernel`. Raises CompileError for one that has no body or cannot be tiled."""
        early = _early(self.target)
        launched, starts = layouts(module), alignments(module)
        for op in list(module.body.operations):
            f = op.operation
            if f.name == "func.func" and "graph.kernel" in f.attributes:
                name = ir.StringAttr(f.attributes["sym_name"]).value
                if not len(f.regions[0].blocks):
                    raise CompileError(f"kernel @{name} has no body", where=where(f.location))
                types = launched.get(name) or _contiguous(f)
                aligned = starts.get(name, [ALIGNED] * len(types))
                with f.location:
                    new = _lower(f, name, types, aligned, self.target, self.round_intermediates)
                if early(new):
                    new.attributes["tile.dependent"] = ir.UnitAttr.get()
                f.erase()


def _scheduler(target: Target) -> Scheduler:
    """Returns the function that schedules a space for a target, given the alignments in bytes of its arguments and results."""
    if not target.is_gpu:
        return _on_cpu
    return lambda space, inputs, results, chosen: schedule_gpu(space, inputs, results, target.gpu, chosen)


def _on_cpu(space: Space, inputs: dict[ir.Value, int], results: list[int], chosen: Rows | None) -> Schedule:
    if chosen is not None:
        raise Unfit(f"{chosen} is for GPUs")
    return schedule(space)


def _early(target: Target) -> Callable[[ir.Operation], bool]:
    """Returns a predicate for kernels that start early and wait by themselves for the work before them (Hopper's programmatic
    dependent launch). These are the kernels whose CTAs all run at once. Where CTAs follow each other, each of them would pay for
    the wait: 32768 of them take 43 us instead of 36 on an H200."""
    if not target.is_gpu:
        return lambda kernel: False
    gpu = target.gpu

    def early(kernel: ir.Operation) -> bool:
        if gpu.capability < 90 or "tile.teams" not in kernel.attributes:
            return False
        number = {key: ir.IntegerAttr(kernel.attributes[f"tile.{key}"]).value for key in ("grid", "threads", "teams", "cluster")}
        return math.prod(number.values()) <= gpu.sm_count * THREADS

    return early


def _contiguous(f: ir.Operation) -> list[ir.MemRefType]:
    """Returns contiguous layouts, for a kernel that nothing launches."""
    block = f.regions[0].blocks[0]
    values = [*block.arguments, *list(block.operations)[-1].operands]
    byte = ir.IntegerType.get_signless(8)
    return [ir.MemRefType.get(shape_of(v), byte if element_type(v) == "i1" else ir.ShapedType(v.type).element_type) for v in values]


def _lower(
    f: ir.Operation, name: str, types: list[ir.MemRefType], aligned: list[int], target: Target, round_half: bool
) -> ir.Operation:
    """Emits the tile program of a kernel function. types, aligned: layout and alignment of its arguments, inputs then outputs."""
    block = f.regions[0].blocks[0]
    outs = list(list(block.operations)[-1].operands)
    n_in = len(block.arguments)
    strides = [tuple(t.get_strides_and_offset()[0]) for t in types]
    if all(0 in t.type.shape for t in outs):
        return _nothing(f, name, types, len(outs))
    try:
        if CHOICE in f.attributes:
            return _lower_product(f, name, types, aligned, target, round_half)
        space = find_space(
            block, dict(zip(block.arguments, strides, strict=False)), strides[n_in:], divide=True, round_half=round_half
        )
        if PLANES in f.attributes and (made := _lower_planes(f, name, types, space)) is not None:
            return made
        if WINDOW in f.attributes:
            return _lower_direct_convolution(f, name, types, aligned, space, target)
        chosen = chosen_rows(f)
        plan = _scheduler(target)(space, dict(zip(block.arguments, aligned, strict=False)), aligned[n_in:], chosen)
    except (Untraceable, Unfit) as e:
        raise CompileError(f"kernel @{name} cannot be tiled: {e}", where=where(f.location)) from None
    new = _program(f, name, types, space, plan, Loops)
    moved, flops = traffic(space, outs)
    spread = {"align": aligned, **asdict(plan.config)} if isinstance(plan.config, nvvm.NvvmConfig) else {}
    made = _describe(new, f, spread, grid=plan.grid, bytes=moved, flops=flops, outputs=len(outs))
    if isinstance(chosen, Triton):
        send(made, chosen.warps, chosen.stages)
    return made


def _lower_product(
    f: ir.Operation, name: str, types: list[ir.MemRefType], aligned: list[int], target: Target, round_half: bool
) -> ir.Operation:
    """Emits the program of a group that lamina-select-kernels has formed around a matrix product and its epilogue."""
    if not target.is_gpu:
        remedy = "they are for GPUs: nvvm:sm_90a"
        raise CompileError(f"{target} has no schedules of products", where=where(f.location), remedy=remedy)
    config = GemmConfig.read(ir.StringAttr(f.attributes[CHOICE]).value)
    try:
        made = lower_product(f, name, types, config, round_half)
    except Unfit as e:
        raise CompileError(f"kernel @{name} is no product that {config} could compute: {e}", where=where(f.location)) from None
    new, grid = made.function, made.grid
    new.attributes["tile.triton"] = ir.StringAttr.get(str(config))
    ctas = min(grid, target.gpu.sm_count * config.resident) if config.resident else grid
    new.attributes["tile.ctas"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), ctas)
    spread = {"align": aligned, "threads": config.threads}
    outputs = len(types) - len(f.regions[0].blocks[0].arguments)
    return _describe(new, f, spread, grid=grid, bytes=made.bytes, flops=made.flops, outputs=outputs)


def _program(
    f: ir.Operation,
    name: str,
    types: list[ir.MemRefType],
    space: Space,
    plan: Any,
    emitter: type[Loops | DirectConvolutionProgram | PlaneProgram],
) -> ir.Operation:
    """Creates the tile function beside the kernel function, and has `emitter` write its body."""
    block = f.regions[0].blocks[0]
    n_in = len(block.arguments)
    with ir.InsertionPoint(f):
        new = func.FuncOp(name, (list(types), []))
        body = new.add_entry_block()
        with ir.InsertionPoint(body):
            program = ir.Operation.create("tile.program_id", results=[ir.IndexType.get()]).results[0]
            flat = [_flat(m, t, tuple(t.get_strides_and_offset()[0])) for m, t in zip(body.arguments, types, strict=True)]
            memory: dict[ir.Value, Memory] = {a: (m, element_type(a)) for a, m in zip(block.arguments, flat, strict=False)}
            emitter(body, space, plan, memory, flat[n_in:]).emit(program)
            func.ReturnOp([])
    return new.operation


def _lower_direct_convolution(
    f: ir.Operation, name: str, types: list[ir.MemRefType], aligned: list[int], space: Space, target: Target
) -> ir.Operation:
    """Emits the program of a group that lamina-depthwise has formed around a direct convolution and its epilogue."""
    block = f.regions[0].blocks[0]
    n_in = len(block.arguments)
    try:
        plan = direct_convolution_of(space, dict(zip(block.arguments, aligned, strict=False)), aligned[n_in:])
    except NoDirectConvolution as e:
        raise CompileError(f"kernel @{name} cannot be computed as a direct convolution: {e}", where=where(f.location)) from None
    spread = {"align": aligned, **asdict(plan.config)}
    return _describe_windows(_program(f, name, types, space, plan, DirectConvolutionProgram), f, space, plan, spread)


def _lower_planes(f: ir.Operation, name: str, types: list[ir.MemRefType], space: Space) -> ir.Operation | None:
    """Emits the program of a depthwise convolution on a CPU and its epilogue; None where the memory layout does not suit planes."""
    try:
        plan = planes_of(space, PlaneWindow.read(f.attributes[PLANES]), f.regions[0].blocks[0])
    except NoDirectConvolution:
        return None
    return _describe_windows(_program(f, name, types, space, plan, PlaneProgram), f, space, plan, {})


def _describe_windows(
    new: ir.Operation, f: ir.Operation, space: Space, plan: DirectConvolution | Planes, spread: dict[str, Any]
) -> ir.Operation:
    outs = list(list(f.regions[0].blocks[0].operations)[-1].operands)
    moved, _ = traffic(space, outs)
    flops = 2 * plan.products * math.prod(a.extent for a in space.rows)
    return _describe(new, f, spread, grid=plan.grid, bytes=moved, flops=flops, outputs=len(outs))


def _nothing(f: ir.Operation, name: str, types: list[ir.MemRefType], outputs: int) -> ir.Operation:
    """Emits an empty program with a grid of 0, for a group whose results have no elements."""
    with ir.InsertionPoint(f):
        new = func.FuncOp(name, (list(types), []))
        with ir.InsertionPoint(new.add_entry_block()):
            func.ReturnOp([])
    return _describe(new.operation, f, {}, grid=0, bytes=0, flops=0, outputs=outputs)


def _describe(new: ir.Operation, old: ir.Operation, spread: dict[str, Any], **numbers: int) -> ir.Operation:
    for key, n in numbers.items():
        new.attributes[f"tile.{key}"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), n)
    for key in SPREAD & spread.keys():
        new.attributes[f"tile.{key}"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), spread[key])
    if spread:
        new.attributes["tile.align"] = ir.DenseI64ArrayAttr.get(spread["align"])
    if "sym_visibility" in old.attributes:
        new.attributes["sym_visibility"] = old.attributes["sym_visibility"]
    if "graph.inplace" in old.attributes:
        shared = {position for pair in old.attributes["graph.inplace"] for position in pair}
        new.attributes["tile.alias"] = ir.DenseI64ArrayAttr.get(sorted(shared))
    return new


def _flat(m: ir.Value, type_: ir.MemRefType, strides: tuple[int, ...]) -> ir.Value:
    """Returns `m` as a contiguous memref of rank 1 from its first to its last element."""
    span = 1 + sum((n - 1) * s for n, s in zip(type_.shape, strides, strict=True)) if 0 not in type_.shape else 1
    if type_.rank == 1 and strides == (1,):
        return m
    flat = ir.MemRefType.get([span], type_.element_type)
    return memref.ReinterpretCastOp(flat, m, [], [], [], [0], [span], [1]).result


def traffic(space: Space, outs: list[ir.Value]) -> tuple[int, int]:
    """Returns the bytes that one launch must move at least once, and the operations that it computes."""
    seen = dict.fromkeys(e for r in space.results for e in walk(r.expr))
    points = math.prod(a.extent for a in (*space.rows, *space.columns))
    read: dict[ir.Value, int] = {}
    for e in seen:
        if isinstance(e, Load):
            touched = math.prod(a.extent for a in e.free) if not e.at.opaque else points
            whole = math.prod(shape_of(e.tensor))
            read[e.tensor] = max(read.get(e.tensor, 0), min(touched, whole))
    moved = sum(n * bits(element_type(t)) // 8 for t, n in read.items())
    moved += sum(math.prod(shape_of(v)) * bits(element_type(v)) // 8 for v in outs)
    return moved, operations(space) * points if any(isinstance(e, Apply) for e in seen) else 0
