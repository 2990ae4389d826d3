"""One run of opt-driver on input it has read: parse, run the pipeline, print, piece by piece."""

import re
import sys
import traceback
from dataclasses import replace
from pathlib import Path

from torch_mlir import ir

from lamina.core.errors import CompileError, suggestion
from lamina.core.target import Target
from lamina.dialects import context as lamina_context
from lamina.dialects import load_torch
from lamina.passes.infra.diagnostics import Diagnostic, InvalidIR, of_error, unknown_ops, verify_input
from lamina.passes.infra.instrumentation import Instrumentation, PassTiming, report
from lamina.passes.infra.pipeline import PassFailure, Step, prepare, write_reproducer
from lamina.passes.infra.pipeline import run as run_pipeline
from lamina.passes.infra.upstream import check_name

from .cli import DriverArguments
from .expectations import compare, expectations
from .files import quiet, split, write_output
from .supervise import Board


def run(arguments: DriverArguments, data: bytes, board: Board, save: tuple[int, int] | None) -> int:
    """Runs the pipeline and returns the exit status. With `save` = (piece, pass), only writes the input of that pass to a
    reproducer and its command to the board: what a process that died could not do."""
    timings: list[PassTiming] = []
    wanted = {*arguments.print_ir_before, *arguments.print_ir_after} - {"*"}
    for name in wanted:
        check_name(name, "<command line>:1:1")
    if arguments.model:
        board.write(f"the way to --emit={arguments.emit}")
        text, timings = _emit_model(arguments)
        if arguments.emits_text:
            _check_printed(wanted, timings, arguments.emit)
            sys.stderr.write(report(tuple(timings)) if arguments.timing else "")
            write_output(arguments.output, text)
            return 0
        data = text.encode()
    session = DriverSession(arguments, board, timings)
    if save:
        session.save(split(data, arguments.split_input_file)[save[0]], save[1])
        return 0
    outputs = [session.piece(i, first, text) for i, (first, text) in enumerate(split(data, arguments.split_input_file))]
    if arguments.model:
        _check_printed(wanted, session.timings, arguments.emit)
    if arguments.timing:
        sys.stderr.write(report(tuple(session.timings)))
    if any(o is not None for o in outputs) and (arguments.output == "-" or not session.failed):
        write_output(arguments.output, "// -----\n".join(o or "" for o in outputs))
    return 1 if session.failed else 0


def _emit_model(arguments: DriverArguments) -> tuple[str, list[PassTiming]]:
    """Returns the text of a model at a level, and what each pass down to tile took. Prints what was asked for around these."""
    from .model import emit

    assert arguments.model
    file, factory = arguments.model
    dumps: list[str] = []
    watch = replace(instrumentation_of(arguments), write=dumps.append)
    try:
        with quiet() as printed:
            out = emit(
                file, factory, target=arguments.target, level=arguments.emit, options=arguments.options, instrumentation=watch
            )
    finally:
        sys.stderr.write("".join(dumps))
    sys.stderr.write("\n".join(printed))  # after an error: torch's own account of it, which the one line replaces
    return out


def _check_printed(wanted: set[str], timings: list[PassTiming], level: str) -> None:
    """Raises CompileError for a pass that was to be printed and did not run."""
    ran = {timing.name for timing in timings}
    for name in sorted(wanted - ran):
        remedy = suggestion(name, ran, "of a model, the passes from linalg to tile can be printed")
        raise CompileError(f"{name} did not run on the way to --emit={level}", where="<command line>:1:1", remedy=remedy)


class DriverSession:
    """A context and a prepared pipeline, applied to one piece after another."""

    def __init__(self, arguments: DriverArguments, board: Board, timings: list[PassTiming]) -> None:
        """timings: of the passes that ran before, on the way from a model."""
        self.arguments, self.board, self.timings = arguments, board, timings
        self.context = lamina_context()
        load_torch(self.context)
        self.failed = False
        self.steps = self._prepare() if arguments.pass_pipeline else []
        self.passes_before = len(timings)

    def _prepare(self) -> list[Step]:
        self.board.write("the reading of the pipeline")
        try:
            with quiet() as printed:
                return prepare(self.arguments.pass_pipeline, self.context)
        except CompileError as error:
            details = " ".join(line.strip(" :") for line in printed if line.strip())
            raise CompileError(error.message, where=error.where, remedy=details or error.remedy) from error

    def parse(self, first: int, text: bytes) -> ir.Module:
        """Parses and verifies a piece of the input. Blank lines put it at its lines; a whole file is read by name, which its
        locations keep."""
        self.board.write("the parser")
        if self.arguments.model or self.arguments.split_input_file or not Path(self.arguments.input).is_file():
            module = ir.Module.parse(b"\n" * (first - 1) + text, self.context)
        else:
            module = ir.Module.parseFile(self.arguments.input, self.context)
        self.board.write("the verifier")
        if not self.arguments.allow_unregistered_dialect and (unknown := unknown_ops(module)):
            raise InvalidIR(unknown)
        verify_input(module)
        return module

    def piece(self, number: int, first: int, text: bytes) -> str | None:
        """Runs the pipeline on one piece and returns the text to print; None after an error, or if there is nothing to print."""
        diagnostics: list[Diagnostic] = []
        failure = None
        output = None

        def hear(diagnostic: ir.Diagnostic) -> bool:
            """Collects a diagnostic."""
            diagnostics.append(Diagnostic.of(diagnostic))
            return True

        handler = self.context.attach_diagnostic_handler(hear)
        try:
            module = self.parse(first, text)
            self._run(module, number)
            output = self._lower(module) if self.arguments.emit and not self.arguments.model else self._print(module)
            if self.arguments.emit_graph:
                self._draw(module)
        except PassFailure as error:
            failure = error
            self.timings += error.timings
            diagnostics += error.diagnostics or [_as_diagnostic(error.cause)]
        except InvalidIR as error:
            diagnostics += error.diagnostics
        except ir.MLIRError as error:
            diagnostics += of_error(error)
        finally:
            handler.detach()
        if self.arguments.verify_diagnostics:
            self._compare(diagnostics, first, text)
        else:
            self._report(diagnostics, failure)
        return output

    def _compare(self, diagnostics: list[Diagnostic], first: int, text: bytes) -> None:
        """Prints how diagnostics differ from those that a piece expects in its comments."""
        lines = text.decode("utf-8", "replace").split("\n")
        wrong = compare(expectations(lines, first), diagnostics, self.arguments.shown)
        sys.stderr.write("".join(f"{line}\n" for line in wrong))
        self.failed |= bool(wrong)

    def _report(self, diagnostics: list[Diagnostic], failure: PassFailure | None) -> None:
        """Prints the diagnostics of a piece, and how to repeat a pass that failed."""
        for diagnostic in diagnostics:
            self._show(diagnostic)
        if failure:
            sys.stderr.write(f"{self.arguments.shown}:1:1: note: {failure.pass_name} failed; {failure.note}\n")
            if self.arguments.traceback:
                traceback.print_exception(failure)
        self.failed |= any(d.severity == "error" for d in diagnostics)

    def save(self, piece: tuple[int, bytes], index: int) -> None:
        """Writes the input of pass `index` on a piece to a reproducer."""
        module = self.parse(*piece)
        quiet = replace(Instrumentation(verify_each=False), reproducer=False)
        run_pipeline(self.steps, module, instrumentation=quiet, stop=index)
        _, command = write_reproducer(module, self.steps[index].path, self.arguments.reproducer)
        self.board.write(command)

    def _run(self, module: ir.Module, number: int) -> None:
        a = self.arguments
        tree = a.print_ir_tree_dir / f"piece_{number + 1}" if a.print_ir_tree_dir and a.split_input_file else a.print_ir_tree_dir

        def on_pass(index: int, name: str) -> None:
            """Notes the pass, for the message if it ends the process."""
            self.board.write(f"pass {name}\t{number} {index}")

        watch = replace(instrumentation_of(a), tree_dir=tree, first=self.passes_before, on_pass=on_pass)
        self.timings += run_pipeline(self.steps, module, instrumentation=watch)

    def _lower(self, module: ir.Module) -> str:
        """Returns the kernels of a module at a level of the target."""
        from lamina.targets import backend

        level, target = self.arguments.emit, self.arguments.target
        self.board.write(f"the way to --emit={level}")
        reached = []
        for name, text in backend(Target.parse(target).machine).below(module):
            if name == level:
                return text() if self.arguments.emits_text else self._print(ir.Module.parse(text(), self.context))
            reached.append(name)
        raise CompileError(f"{target} has no level {level!r} for kernels", remedy=f"levels: {', '.join(reached)}")

    def _draw(self, module: ir.Module) -> None:
        """Writes the picture of a module after the pipeline."""
        from lamina.report.picture import picture

        assert self.arguments.emit_graph is not None
        self.board.write("the picture")
        self.arguments.emit_graph.write_text(picture(module))

    def _print(self, module: ir.Module) -> str:
        self.board.write("the printer")
        a = self.arguments
        if a.pretty:
            from lamina.report.readable import readable

            return readable(module)
        text: str = module.operation.get_asm(
            enable_debug_info=a.print_debuginfo, print_generic_op_form=a.print_op_generic, large_elements_limit=a.elide
        )
        return text.rstrip("\n") + "\n"

    def _show(self, diagnostic: Diagnostic) -> None:
        notes = diagnostic.notes if self.arguments.diagnostic_notes else ()
        for d in (diagnostic, *notes):
            file = self.arguments.shown if d.file in ("-", "") else d.file
            message = " ".join(d.message.splitlines())
            sys.stderr.write(f"{file}:{max(d.line, 1)}:{max(d.column, 1)}: {d.severity}: {message}\n")


def instrumentation_of(arguments: DriverArguments) -> Instrumentation:
    """Returns what the command line asks to verify and print around passes."""
    return Instrumentation(
        verify_each=arguments.verify_each,
        before=frozenset(arguments.print_ir_before),
        after=frozenset(arguments.print_ir_after),
        tree_dir=arguments.print_ir_tree_dir,
        debug_info=arguments.print_debuginfo,
        elide=arguments.elide,
        reproducer=False if arguments.verify_diagnostics else arguments.reproducer,
    )


def _as_diagnostic(error: CompileError) -> Diagnostic:
    """Returns a CompileError as a diagnostic, to print it or compare it with MLIR's."""
    found = re.fullmatch(r"(.*?):(\d+)(?::(\d+))?", error.where)
    text = f"{error.message} ({error.remedy})" if error.remedy else error.message
    if not found:
        return Diagnostic("error", text)
    return Diagnostic("error", text, found[1], int(found[2]), int(found[3] or 1))
