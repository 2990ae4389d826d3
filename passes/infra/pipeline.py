"""Runs pass pipelines that mix Lamina's passes with upstream's.

    timings = run("builtin.module(lamina-simplify,func.func(canonicalize,cse),lamina-fuse{max-ops=64})", module)

Every pass runs in a pipeline of its own, nested ones too, so that it is timed, verified, printed and blamed separately; a
PassManager costs under a microsecond to make. All names and options are checked before the first pass runs.
"""

import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from torch_mlir import ir
from torch_mlir._mlir_libs import _torchMlir  # noqa: F401  # importing it registers torch-mlir's passes
from torch_mlir.passmanager import PassManager

from lamina.core.errors import CompileError

from .base import Pass
from .diagnostics import Diagnostic, InvalidIR, of_error, unknown_ops
from .diagnostics import verify as check
from .instrumentation import Instrumentation, PassTiming
from .pipeline_options import build as build_options
from .pipeline_text import PassCall, PipelineNest, error_at, parse
from .registry import PASSES, load
from .upstream import explain_rejection, refuse_if_fatal

_UNREADABLE = (
    "non-existent attribute",
    "Cannot cast attribute",
    "Cannot cast type",
)  # raised by the bindings for an op that lacks the attribute or has another kind


class PassFailure(CompileError):
    """Raised when a pass fails.

    cause        the error by itself
    pass_name    the pass's name in pipelines
    diagnostics  MLIR's diagnostics
    reproducer   the file with the pass's input, "" if none was written
    note         how to repeat the failure: the opt-driver call, or why there is none
    timings      timings of the passes before
    """

    def __init__(
        self, cause: CompileError, pass_name: str, diagnostics: tuple[Diagnostic, ...], reproducer: str, note: str
    ) -> None:
        super().__init__(cause.message, where=cause.where, remedy="; ".join(t for t in (cause.remedy, note) if t))
        self.timings: tuple[PassTiming, ...] = ()
        self.cause, self.pass_name, self.diagnostics, self.reproducer, self.note = cause, pass_name, diagnostics, reproducer, note


@dataclass(frozen=True)
class Step:
    """One pass of a pipeline, ready to run: Lamina's (`own_pass`) or upstream's (`manager`)."""

    call: PassCall
    path: str
    own_pass: Pass | None = None
    manager: PassManager | None = None

    def apply(self, module: ir.Module, verify: bool) -> None:
        """Runs the pass, then the verifier if `verify`. Raises CompileError or ir.MLIRError."""
        if self.manager is not None:
            refuse_if_fatal(self.call.name, module)
            self.manager.enable_verifier(verify)
            self.manager.run(module.operation)
        elif self.own_pass is not None:
            with module.context, module.operation.location:  # for ops that a pass makes without a place of their own
                self.own_pass.run(module)
            if verify:
                check(module)


def prepare(pipeline: str | PipelineNest, context: ir.Context) -> list[Step]:
    """Returns the steps of a pipeline. Raises CompileError for an unknown name or option, naming the nearest."""
    tree = parse(pipeline) if isinstance(pipeline, str) else pipeline
    return [_step(nests, call, context) for nests, call in tree.calls()]


def run(
    pipeline: str | PipelineNest | Sequence[Step],
    module: ir.Module,
    *,
    instrumentation: Instrumentation | None = None,
    stop: int | None = None,
) -> tuple[PassTiming, ...]:
    """Runs the pipeline (its first `stop` passes) on the module in place and returns the timing of each pass.

    Raises PassFailure when a pass fails, after writing its input to a reproducer file; the module is then unusable.
    """
    watch = instrumentation or Instrumentation()
    steps = prepare(pipeline, module.context) if isinstance(pipeline, str | PipelineNest) else pipeline
    steps = steps[:stop]
    original = clone(module) if watch.reproducer is not False else None
    timings: list[PassTiming] = []
    for index, step in enumerate(steps):
        if watch.on_pass:
            watch.on_pass(index, step.path)
        watch.dump(module, "Before", index, step.call.name, step.path)
        start = perf_counter()
        try:
            step.apply(module, watch.verify_each)
        except Exception as error:
            failure = _failure(error, steps, index, original, watch)
            failure.timings = tuple(timings)
            if isinstance(error, RecursionError):
                error.__traceback__ = None  # thousands of frames
            raise failure from error
        timings.append(PassTiming(step.path, perf_counter() - start))
        watch.dump(module, "After", index, step.call.name, step.path)
    return tuple(timings)


def clone(module: ir.Module) -> ir.Module:
    """Copies a module; constants are shared."""
    with module.context:
        copy = ir.Module.create(module.operation.location)
        for name, value in module.operation.attributes.items():
            copy.operation.attributes[name] = value
        for op in module.body.operations:
            copy.body.append(op.operation.clone())
    return copy


def write_reproducer(module: ir.Module, path: str, target: Path | None) -> tuple[str, str]:
    """Writes a pass's input to `target` (None: a temporary file), headed by the opt-driver command that runs the pass.

    Returns the file and the command. Raises CompileError.
    """
    try:
        if target is None:
            name = re.sub(r"[^\w-]+", "_", path).strip("_")[:60]
            handle, created = tempfile.mkstemp(prefix=f"lamina-{name}-", suffix=".mlir")
            os.close(handle)
            target = Path(created)
        command = f"opt-driver {shlex.quote(str(target))} --pass-pipeline={shlex.quote(f'builtin.module({path})')}"
        if unknown_ops(module):
            command += " --allow-unregistered-dialect"
        target.write_text(f"// {command}\n{module.operation.get_asm(enable_debug_info=True)}")
    except OSError as error:
        raise CompileError(
            f"cannot write a reproducer: {error.strerror}", where=f"{target or tempfile.gettempdir()}:1:1"
        ) from error
    return str(target), command


def _step(nests: tuple[PipelineNest, ...], call: PassCall, context: ir.Context) -> Step:
    for nest in nests[1:]:
        if nest.anchor != "any" and not context.is_registered_operation(nest.anchor):
            raise error_at(nest.column, f"no op is called {nest.anchor!r}", "passes nest in ops such as func.func(...)")
    path = str(call)
    for nest in reversed(nests[1:]):
        path = f"{nest.anchor}({path})"
    if call.name in PASSES:
        if len(nests) > 1:
            raise error_at(
                call.column,
                f"{call.name} runs on builtin.module, not on {nests[-1].anchor}",
                f"take it out of {nests[-1].anchor}(...)",
            )
        return Step(call, path, own_pass=build_options(load(call.name), call))
    try:
        return Step(call, path, manager=PassManager.parse(f"builtin.module({path})", context))
    except ValueError as error:
        raise explain_rejection(str(error), nests[-1].anchor, call) from None


def _failure(
    error: Exception, steps: Sequence[Step], index: int, original: ir.Module | None, watch: Instrumentation
) -> PassFailure:
    """Wraps the error of one pass in a PassFailure; recovers its input by running the passes before it again."""
    step, diagnostics = steps[index], tuple[Diagnostic, ...]()
    if isinstance(error, ir.MLIRError):
        error = InvalidIR(of_error(error) or (Diagnostic("error", "the pass failed"),))
    if isinstance(error, InvalidIR):
        prefix = f"{step.call.name} left wrong IR: " if step.own_pass else f"{step.call.name}: "
        diagnostics = tuple(replace(d, message=prefix + d.message) for d in error.diagnostics)
        error = InvalidIR(diagnostics)
    if isinstance(error, KeyError | ValueError) and any(text in str(error) for text in _UNREADABLE):
        said_so = " ".join(str(error).split()).strip("'")
        error = CompileError(f"{step.call.name} cannot read the module, which is not what it takes: {said_so}")
    if isinstance(error, RecursionError):
        error = CompileError(f"{step.call.name}: the module is nested too deeply for Python's stack")
    if not isinstance(error, CompileError):
        error = CompileError(f"{step.call.name} has a fault: {type(error).__name__}: {' '.join(str(error).split())}")
    reproducer, note = "", ""
    if original is not None and not isinstance(watch.reproducer, bool):
        try:
            for earlier in steps[:index]:
                earlier.apply(original, verify=False)
            reproducer, command = write_reproducer(original, step.path, watch.reproducer)
            note = f"repeat with: {command}"
        except (CompileError, ir.MLIRError) as lost:
            note = f"its input is lost: {lost}"
    return PassFailure(error, step.call.name, diagnostics, reproducer, note)
