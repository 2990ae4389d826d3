"""Runs the passes between two levels of lowering, according to the options of a compilation."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lamina.core.options import Options
from lamina.core.target import Target

if TYPE_CHECKING:
    from torch_mlir import ir

Watch = Callable[[str, "ir.Module"], None]
"""Called before each pass with its pipeline text and the module."""


def run_passes(
    module: "ir.Module",
    start: str,
    end: str,
    target: Target,
    options: Options,
    seconds: dict[str, float],
    watch: Watch | None = None,
    verify_each: bool = False,
) -> None:
    """Runs the passes between two levels and verifies the result: once, as verifying after each pass takes a sixth of their
    time."""
    from lamina.passes.infra.diagnostics import verify
    from lamina.passes.infra.instrumentation import Instrumentation
    from lamina.passes.infra.pipeline import run

    steps = pipeline_of(start, end, target, options)
    on_pass = (lambda _, path: watch(path, module)) if watch else None
    for timing in run(steps, module, instrumentation=Instrumentation(verify_each=verify_each, on_pass=on_pass)):
        seconds[timing.path] = seconds.get(timing.path, 0.0) + timing.seconds
    verify(module)


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
