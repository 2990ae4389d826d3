"""Lowers a graph's module from the linalg level to a program and code."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lamina.core.binding.later import LaterKernel
from lamina.core.options import Options
from lamina.core.program import Launch, Program, When
from lamina.core.program_needs import with_needs
from lamina.core.target import Target

from ..calls.interface import Interface
from ..fx.destination import Destination
from .stored import Built
from .tuning import Session, TunedChoice, choose_kernels, may_choose

if TYPE_CHECKING:
    from torch_mlir import ir

    from lamina.passes.infra.instrumentation import Instrumentation, PassTiming
    from lamina.targets.clock import Stopwatch


Watch = Callable[[str, "ir.Module"], None]
"""Called before each pass with its pipeline text and the module."""


@dataclass(frozen=True)
class Lowered:
    """A graph's kernels as tile programs.

    module    the tile programs
    program   what launches them, with the module's results
    choices   tuning's answers
    later     kernels for ranges of sizes other than the typical ones
    outgrown  see Stored
    """

    module: "ir.Module"
    program: Program
    choices: tuple[TunedChoice, ...]
    later: tuple[LaterKernel, ...]
    outgrown: tuple[tuple[When, ...], ...]


@dataclass(frozen=True)
class Lowering:
    """How a graph is lowered.

    symbolic  sizes of the graph are symbolic: on a GPU, kernels for other sizes than the typical ones are left for later
    session   of tuning
    clock     measures stages and passes
    watch     called before each pass
    """

    options: Options
    destination: Destination
    symbolic: bool
    session: Session
    clock: "Stopwatch"
    watch: Watch | None = None

    def lower(self, module: "ir.Module") -> Lowered:
        """Lowers a module from the linalg to the tile level, in place."""
        from lamina.passes.fusion.scales import take_outgrown
        from lamina.passes.plan.program import program_from
        from lamina.targets.module import keep_kernels, take_later

        choices, later = self._to_tiles(module)
        outgrown = take_outgrown(module)
        with module.context:
            program = program_from(module, self.destination.device, [kernel.name for kernel in later])
        keep_kernels(module)
        return Lowered(module, program, choices, (*later, *take_later(module)), outgrown)

    def build(self, lowered: Lowered, program: Program, interface: Interface, source: str) -> Built:
        """Compiles tile programs.

        program    with the graph's results
        interface  how the graph's arguments and results map to the program's
        source     see Stored
        """
        from lamina.targets import Artifact

        with self.clock.stage("custom kernels"):
            program, ready = launched(program, self.options, self.destination)
        empty = self.destination.device == "cuda" and not any(isinstance(step, Launch) for step in program.steps)
        target = self.destination.target
        made = Artifact(str(target), b"", ()) if empty else self.destination.backend().compile(lowered.module, ready)
        return Built(
            program=with_needs(program, made.needs),
            code=made.code,
            kernels=made.kernels,
            messages=made.messages,
            target=str(target),
            interface=interface,
            gpu=self.destination.gpu,
            seconds={**self.clock.seconds, **made.seconds},
            choices=lowered.choices,
            later=lowered.later,
            to_tile=pipeline_of("plan", "tile", target, self.options) if lowered.later else "",
            source=source if lowered.outgrown else "",
            outgrown=lowered.outgrown,
        )

    def _to_tiles(self, module: "ir.Module") -> tuple[tuple[TunedChoice, ...], tuple[LaterKernel, ...]]:
        """Runs the passes to the tile level, with tuning at the graph level, and of row programs at the plan level. Returns
        tuning's choices, and the kernels for later, which are removed from the module."""
        from lamina.targets.module import take_later

        gpu, options = self.destination.gpu, self.options
        backend = self.destination.backend()
        self._run(module, "linalg", "graph")
        with self.clock.stage("tuning"):
            choices = choose_kernels(module, backend, gpu, options, self.session)
        level, chooses = "graph", may_choose(gpu, options)
        later: tuple[LaterKernel, ...] = ()
        if chooses or (self.destination.device == "cuda" and self.symbolic):
            level = "plan"
            self._run(module, "graph", level)
            later = take_later(module)
        if chooses:
            with self.clock.stage("tuning"):
                choices += choose_kernels(module, backend, gpu, options, self.session, len(choices))
        self._run(module, level, "tile")
        return choices, later

    def _run(self, module: "ir.Module", start: str, end: str) -> None:
        """Runs the passes between two levels. Verifying after each pass would take a sixth of their time."""
        from lamina.passes.infra.instrumentation import Instrumentation

        on_pass = (lambda _, path: watch(path, module)) if (watch := self.watch) else None
        instrumentation = Instrumentation(verify_each=False, on_pass=on_pass)
        for timing in run_passes(module, start, end, self.destination.target, self.options, instrumentation):
            self.clock.seconds[timing.path] = self.clock.seconds.get(timing.path, 0.0) + timing.seconds


def launched(program: Program, options: Options, destination: Destination) -> tuple[Program, Sequence[Any]]:
    """Returns the program with its calls of kernels in source as launches, and these kernels, compiled."""
    if destination.device == "cpu":
        return program, ()
    from lamina.targets.kernel_calls.user import take

    return take(program, options.kernels, destination.target.gpu)


def run_passes(
    module: "ir.Module", start: str, end: str, target: Target, options: Options, instrumentation: "Instrumentation | None" = None
) -> "Sequence[PassTiming]":
    """Runs the passes between two levels and verifies the result. Returns what each pass took."""
    from lamina.passes.infra.diagnostics import verify
    from lamina.passes.infra.pipeline import run

    timings = run(pipeline_of(start, end, target, options), module, instrumentation=instrumentation)
    verify(module)
    return timings


def pipeline_of(start: str, end: str, target: Target, options: Options) -> str:
    """Writes the pipeline between two levels."""
    from lamina.passes.simplify.fold_constants import FoldConstants
    from lamina.targets.levels import pipeline

    return pipeline(
        start,
        end,
        target=target,
        fast_math=options.fast_math,
        round_intermediates=options.round_intermediates,
        fold_bytes=options.fold_weights and max(options.fold_weights, FoldConstants.max_bytes),
        freeze_weights=options.freeze_weights,
        wide_sizes=options.wide_sizes,
    )
