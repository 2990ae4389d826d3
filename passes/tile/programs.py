"""Chooses the program of each kernel: the class that emits its body, its iteration space and its schedule.

| kernel | program |
| --- | --- |
| `graph.choice`: a group around a matrix product or convolution | `Dot` |
| `graph.planes`: a depthwise convolution on a CPU, where the layout suits | `PlaneProgram` |
| `graph.weight_gradient`: the gradient of its weight | `PlaneGradientProgram` |
| `graph.window`: a direct convolution on a GPU | `DirectConvolutionProgram` |
| reads across the vector axis, on a CPU | `TransposeTiles` |
| the same on a GPU | `SharedTransposeTiles` |
| all else: elementwise, reductions, scans | `Loops` |
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from torch_mlir import ir

from lamina.core.device import Cpu
from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.sizes import SizeLike, minimum, typical
from lamina.core.target import Target
from lamina.schedules import nvvm
from lamina.schedules.contraction import GemmConfig
from lamina.schedules.rows import KINDS, Triton

from ..families.choice import CHOICE, ROWS, schedule_on
from ..families.gemm.contractions import product_of
from ..ir.expressions import Apply, Load, walk
from ..ir.locations import where
from ..ir.reading import Untraceable, element_type, shape_of
from ..space.contraction import Unfit
from ..space.direct_convolution import WINDOW, DirectConvolution, direct_convolution_of
from ..space.planes.convolution import PLANES, Planes, PlaneWindow, planes_of
from ..space.planes.gradients import WEIGHT_GRADIENT, PlaneGradients, plane_gradients_of
from ..space.schedule import Schedule, bits, operation_cost
from ..space.schedule_cpu import schedule_cpu
from ..space.schedule_gpu import schedule_gpu
from ..space.space import Space
from .arguments import Argument
from .emit.blocks import Frame
from .emit.direct_convolution import DirectConvolutionProgram
from .emit.dot import Dot, output_tiles
from .emit.planes.convolution import PlaneProgram
from .emit.planes.gradients import PlaneGradientProgram
from .kernel import Kernel
from .loops import Loops
from .transpose_tiles import TransposeTiles
from .transpose_tiles_shared import SharedTransposeTiles


class BodyEmitter(Protocol):
    """Writes the body of a tile function."""

    def __init__(self, frame: Frame, space: Any, schedule: Any) -> None:
        """Takes the function, and what is computed by which schedule."""

    def emit(self, program: ir.Value) -> None:
        """Emits the program whose number in the grid is `program`."""


@dataclass(frozen=True)
class TileProgram:
    """The program that a kernel becomes.

    body          writes it, from `space` and `schedule`
    grid          programs
    bytes, flops  that a launch moves at least, and computes
    spread        how it maps to a GPU's threads, by attribute of the function without "tile."
    triton        the schedule by which Triton compiles it; None for lamina-distribute
    flat          whether its memory is seen as memrefs of rank 1
    """

    body: type[BodyEmitter]
    space: Any
    schedule: Any
    grid: SizeLike
    bytes: SizeLike
    flops: SizeLike
    spread: dict[str, Any] = field(default_factory=dict)
    triton: GemmConfig | Triton | None = None
    flat: bool = True


def program_of(kernel: Kernel, target: Target, round_half: bool) -> TileProgram:
    """Returns the program of a kernel whose results have elements. Raises CompileError if none can compute it."""
    attributes = kernel.function.attributes
    with _named(kernel, "cannot be tiled"):
        if CHOICE in attributes:
            return _product(kernel, target, round_half)
        space = kernel.space(round_half, pairs=not target.is_gpu)
        if (made := _planes(kernel, space)) is not None:
            return made
        if WINDOW in attributes:
            return _direct_convolution(kernel, space)
        return loops_of(kernel, space, target.model)


def _moved(loads: Iterable[Load], points: SizeLike, outs: Sequence[Argument]) -> SizeLike:
    """Returns the bytes that a launch must move at least once. points: iterations of the space; outs: layouts of the results."""
    read: dict[ir.Value, SizeLike] = {}
    for e in loads:
        touched = points if e.offset.opaque else math.prod(a.extent for a in e.free)
        read[e.tensor] = max(read.get(e.tensor, 0), min(touched, math.prod(shape_of(e.tensor)), key=typical), key=typical)
    loaded = sum(n * bits(element_type(t)) // 8 for t, n in read.items())
    return loaded + sum(math.prod(t.layout.shape) * bits(str(t.element)) // 8 for t in outs)


def _product(kernel: Kernel, target: Target, round_half: bool) -> TileProgram:
    """Returns the program of a group that lamina-select-kernels has formed around a matrix product and its epilogue."""
    if not target.is_gpu:
        remedy = "they are for GPUs: nvvm:sm_90a"
        raise CompileError(f"{target} has no schedules of products", where=where(kernel.function.location), remedy=remedy)
    config = schedule_on(kernel.function, (GemmConfig,))
    assert config is not None, "lamina-select-kernels sets schedules on groups alone"
    count, strides = len(kernel.inputs), kernel.strides
    with _named(kernel, f"is not a product that {config} could compute"):
        product = product_of(kernel.block, strides[:count], strides[count:], round_half=round_half)
        if any(width not in (0, config.n) for width in product.summed):
            raise Unfit(f"sums of {max(product.summed)} columns in blocks of {config.n}")
        if any(rows not in (0, config.m) for rows in product.stacked):
            raise Unfit(f"sums of {max(product.stacked)} rows in blocks of {config.m}")
    grid = output_tiles(product, config)
    ctas = minimum(grid, target.gpu.sm_count * config.resident) if config.resident else grid
    points = product.batches * math.prod(product.sizes)
    loads = [e for r in product.results for e in walk(r.expr) if isinstance(e, Load)]
    flops, bytes_ = 2 * len(product.products) * points, _moved(loads, points, kernel.outs)
    spread = {"align": kernel.aligned, "threads": config.threads, "ctas": ctas}
    return TileProgram(Dot, product, config, grid, bytes_, flops, spread, config, flat=False)


def _planes(kernel: Kernel, space: Space) -> TileProgram | None:
    """Returns the program of a depthwise convolution on a CPU and its epilogue, or of its weight's gradient; None for other
    kernels, and where memory does not suit planes."""
    attributes = kernel.function.attributes
    try:
        if PLANES in attributes:
            schedule = planes_of(space, PlaneWindow.read(attributes[PLANES]), kernel.block)
            return _window(kernel, space, schedule, PlaneProgram, {})
        if WEIGHT_GRADIENT in attributes:
            gradients = plane_gradients_of(space, PlaneWindow.read(attributes[WEIGHT_GRADIENT]), kernel.block)
            return _window(kernel, space, gradients, PlaneGradientProgram, {})
    except Unfit:
        pass
    return None


def _direct_convolution(kernel: Kernel, space: Space) -> TileProgram:
    """Returns the program of a group that lamina-depthwise has formed around a direct convolution and its epilogue."""
    with _named(kernel, "cannot be computed as a direct convolution"):
        schedule = direct_convolution_of(space, kernel.input_alignments, kernel.result_alignments)
    return _window(kernel, space, schedule, DirectConvolutionProgram, {"align": kernel.aligned, **asdict(schedule.config)})


def _window(
    kernel: Kernel,
    space: Space,
    schedule: DirectConvolution | Planes | PlaneGradients,
    body: type[BodyEmitter],
    spread: dict[str, Any],
) -> TileProgram:
    flops = 2 * _points(space)
    return TileProgram(body, space, schedule, schedule.grid, _moved(space.loads, _points(space), kernel.outs), flops, spread)


def loops_of(kernel: Kernel, space: Space, machine: Cpu | Gpu) -> TileProgram:
    """Returns the program of any other kernel, by the schedule in its `graph.rows` or that of the cost model. Raises Unfit if a
    schedule is set that cannot compute it."""
    chosen = schedule_on(kernel.function, KINDS, ROWS)
    if isinstance(machine, Gpu):
        schedule = schedule_gpu(space, kernel.input_alignments, kernel.result_alignments, machine, chosen)
    elif chosen is not None:
        raise Unfit(f"{chosen} is for GPUs")
    else:
        schedule = schedule_cpu(space, machine.cores)
    spread = {"align": kernel.aligned, **asdict(schedule.config)} if isinstance(schedule.config, nvvm.NvvmConfig) else {}
    computes = any(isinstance(e, Apply) for e in space.expressions)
    flops = operation_cost(space) * _points(space) if computes else 0
    bytes_ = _moved(space.loads, _points(space), kernel.outs)
    triton = chosen if isinstance(chosen, Triton) else None
    return TileProgram(_loops_of(schedule), space, schedule, schedule.grid, bytes_, flops, spread, triton)


def _loops_of(schedule: Schedule) -> type[Loops]:
    if schedule.crossed is None:
        return Loops
    return TransposeTiles if schedule.crossed is schedule.chunked else SharedTransposeTiles


def _points(space: Space) -> SizeLike:
    return math.prod(a.extent for a in (*space.rows, *space.columns))


@contextmanager
def _named(kernel: Kernel, message: str) -> Iterator[None]:
    """Turns the reason why a program cannot be had into a CompileError that names the kernel."""
    try:
        yield
    except (Untraceable, Unfit) as e:
        raise CompileError(f"kernel @{kernel.name} {message}: {e}", where=where(kernel.function.location)) from None
