"""Prints a model at every level of the pipeline, from the aten graph to machine code."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import fx

from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.core.target import Target
from lamina.passes.infra.instrumentation import Instrumentation, PassTiming

from ..compiling.lowering import run_passes
from ..compiling.stages import import_linalg, source_kernels
from ..custom.substitute import with_registered, with_users_patterns
from ..fx.destination import destination_of
from ..fx.sizes import is_sized, unguarded
from ..rewrites.normalize import normalize
from .export import inference_graph

if TYPE_CHECKING:
    from torch_mlir import ir

_SUFFIX = {"aten": "py", "asm": "s", "triton": "py", "ptx": "ptx", "sass": "sass"}


def levels(
    model: Any, example_inputs: Any, *, target: str | None = None, options: Options | None = None, dynamic_shapes: Any = None
) -> Iterator[tuple[str, str]]:
    """Yields (level, text) in order. Each level is computed when it is asked for, so that a caller may stop at one."""
    chosen = with_registered(options or Options())
    yield from ((level, text()) for level, text in _levels(model, example_inputs, target, chosen, dynamic_shapes, Passes()))


class Passes:
    """The passes of Lamina's own levels, from linalg to tile.

    instrumentation  what to verify and print
    timings          what each pass took, as they run
    """

    def __init__(self, instrumentation: Instrumentation | None = None) -> None:
        self.instrumentation, self.timings = instrumentation or Instrumentation(), list[PassTiming]()

    def run(self, module: "ir.Module", start: str, end: str, target: Target, options: Options) -> None:
        """Runs the passes between two levels."""
        continued = replace(self.instrumentation, first=len(self.timings))
        self.timings += run_passes(module, start, end, target, options, continued)


def emit(
    model: Any,
    example_inputs: Any,
    *,
    target: str,
    level: str,
    options: Options,
    dynamic_shapes: Any = None,
    passes: Passes | None = None,
) -> str:
    """Returns the text of a model at one level. Raises CompileError if the target has no such level."""
    reached = []
    for name, text in _levels(model, example_inputs, target, with_registered(options), dynamic_shapes, passes or Passes()):
        if name == level:
            return text()
        reached.append(name)
    raise CompileError(f"{target} has no level {level!r}", remedy=f"levels: {', '.join(reached)}")


def write_levels(model: Any, example_inputs: Any, folder: Path) -> list[Path]:
    """Writes every level to a file of `folder`, such as `2_linalg.mlir`, and returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, (level, text) in enumerate(levels(model, example_inputs)):
        files.append(folder / f"{number}_{level}.{_SUFFIX.get(level, 'mlir')}")
        files[-1].write_text(text)
    return files


def _levels(
    model: Any, example_inputs: Any, target: str | None, options: Options, dynamic_shapes: Any, passes: Passes
) -> Iterator[tuple[str, Callable[[], str]]]:
    gm = inference_graph(model, example_inputs, options, target, dynamic_shapes)
    with unguarded(gm.graph) if is_sized(gm.graph) else nullcontext():
        yield from _lowered(gm, target, options, passes)


def _lowered(gm: fx.GraphModule, target: str | None, options: Options, passes: Passes) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields the levels of a graph, the highest first, each with a function that prints it."""
    from lamina.targets.module import keep_kernels

    from ..importing.importer import import_torch

    destination = destination_of(target, gm)
    graph = normalize(with_users_patterns(gm, options, destination))
    yield "aten", lambda: graph.gm.print_readable(print_output=False)
    yield "torch", lambda: _text(import_torch(graph.gm))
    backend = destination.backend()
    module = import_linalg(graph, options)
    yield "linalg", lambda: _text(module)
    reached = "linalg"
    for level in ("graph", "plan", "tile"):
        passes.run(module, reached, level, destination.target, options)
        reached = level
        yield level, lambda: _text(module)
    ready = source_kernels(module, graph, options, destination)
    keep_kernels(module)
    yield from backend.below(module, ready)


def _text(module: "ir.Module") -> str:
    return module.operation.get_asm(enable_debug_info=True)
