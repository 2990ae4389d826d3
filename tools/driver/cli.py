"""The command line of opt-driver."""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from lamina.core.errors import CompileError, suggestion
from lamina.core.target import Target

MODEL_LEVELS = ("torch", "linalg", "graph", "plan", "tile")
TARGET_LEVELS = ("triton", "gpu", "nvvm", "llvm", "ptx", "sass", "asm")  # of kernels: a CPU has llvm and asm, a GPU all but asm
LEVELS = (*MODEL_LEVELS, *TARGET_LEVELS)
MODEL = re.compile(r"(?P<file>.+\.py):(?P<factory>[A-Za-z_]\w*)")

_ABOUT = """Runs pass pipelines on MLIR at any level, and takes PyTorch models to any level.

  opt-driver x.mlir --pass-pipeline='builtin.module(lamina-simplify,func.func(canonicalize,cse))'
  opt-driver model.py:make --target=cpu --emit=tile      make() returns (module, example inputs[, dynamic shapes])
  opt-driver kernels.mlir --target=nvvm:sm_90a --emit=ptx
"""


@dataclass(frozen=True)
class DriverArguments:
    """The values of the command line's flags, by their names."""

    input: str
    output: str
    pass_pipeline: str
    list_passes: bool
    split_input_file: bool
    verify_diagnostics: bool
    verify_each: bool
    allow_unregistered_dialect: bool
    print_ir_before: tuple[str, ...]
    print_ir_after: tuple[str, ...]
    print_ir_tree_dir: Path | None
    timing: bool
    reproducer: Path | None
    print_debuginfo: bool
    print_op_generic: bool
    pretty: bool
    emit_graph: Path | None
    elide: int | None
    diagnostic_notes: bool
    traceback: bool
    in_process: bool
    emit: str
    target: str
    options: str

    @property
    def model(self) -> tuple[str, str] | None:
        """(file, factory) when the input names a model."""
        found = MODEL.fullmatch(self.input)
        return (found["file"], found["factory"]) if found else None

    @property
    def emits_text(self) -> bool:
        """Whether the level asked for is not MLIR."""
        return self.emit in ("triton", "ptx", "sass", "asm") or (self.emit == "llvm" and Target.parse(self.target).is_gpu)

    @property
    def shown(self) -> str:
        """The input's name in messages."""
        return "<stdin>" if self.input == "-" else self.input


class Parser(argparse.ArgumentParser):
    """A parser of a command line that reports mistakes as Lamina's other errors."""

    def error(self, message: str) -> NoReturn:
        """Raises a CompileError; argparse would print and exit."""
        raise CompileError(message, where="<command line>", remedy=f"see {self.prog} --help")


def _bool(text: str) -> bool:
    if text.lower() not in ("0", "1", "true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() in ("1", "true")


def _parser() -> Parser:
    """Returns the parser with all flags."""
    p = Parser(prog="opt-driver", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    add = p.add_argument
    add("input", nargs="?", default="-", help="a .mlir file, - for standard input, or FILE.py:FACTORY")
    add("-o", dest="output", default="-", metavar="FILE", help="where the result goes (default: standard output)")
    add("--pass-pipeline", default="", metavar="TEXT", help="the passes to run, Lamina's and MLIR's mixed")
    add("--list-passes", action="store_true", help="list every pass with its options")
    add("--split-input-file", action="store_true", help="run every piece between '// -----' lines by itself")
    add("--verify-diagnostics", action="store_true", help="succeed if '// expected-error {{...}}' lines expect all that is said")
    flag = {"type": _bool, "nargs": "?", "const": True, "metavar": "BOOL"}
    add("--verify-each", default=True, **flag, help="verify after every pass (default: true)")  # type: ignore[arg-type]
    add("--allow-unregistered-dialect", action="store_true", help="accept ops of unknown dialects")
    add("--print-ir-before", action="append", default=[], metavar="PASS", help="print the IR before this pass (comma-separated)")
    add("--print-ir-after", action="append", default=[], metavar="PASS", help="print the IR after this pass (comma-separated)")
    add("--print-ir-before-all", action="store_true", help="print the IR before every pass")
    add("--print-ir-after-all", action="store_true", help="print the IR after every pass")
    add("--print-ir-tree-dir", type=Path, metavar="DIR", help="write the printed IR to files here (alone: after every pass)")
    add("--timing", action="store_true", help="print what each pass took to standard error")
    add("--reproducer", type=Path, metavar="FILE", help="where the input of a failing pass goes (default: the temporary folder)")
    add("--mlir-print-debuginfo", dest="print_debuginfo", action="store_true", help="print locations")
    add("--mlir-print-op-generic", dest="print_op_generic", action="store_true", help="print ops in generic form")
    add("--pretty", action="store_true", help="print IR for people: index notation, expressions, places; it does not parse back")
    add("--emit-graph", type=Path, metavar="FILE.svg", help="draw the result as a graph, too (needs pygraphviz)")
    add("--mlir-elide-elementsattrs-if-larger", dest="elide", type=int, metavar="N", help="print larger constants as ...")
    add("--diagnostic-notes", action="store_true", help="print the notes of errors too")
    add("--traceback", action="store_true", help="print the Python traceback of errors")
    add("--in-process", action="store_true", help="do not guard against the toolchain ending the process (for debuggers)")
    add("--emit", default="", choices=LEVELS, metavar="LEVEL", help=f"of models and kernels: {', '.join(LEVELS)}")
    add("--target", default="cpu", help="what --emit compiles for (default: cpu)")
    add("--options", default="", metavar="TEXT", help="for models: options as in pipelines, 'strict fast-math=exp-log'")
    return p


def parse(argv: list[str]) -> DriverArguments:
    """Parses the command line. Raises CompileError, never SystemExit, for wrong arguments."""
    p = _parser()
    namespace, unknown = p.parse_known_args(argv)
    if unknown:
        flags = [name for action in p._actions for name in action.option_strings if name.startswith("--")]
        remedy = suggestion(unknown[0].partition("=")[0], flags, f"see {p.prog} --help")
        raise CompileError(f"unknown argument {unknown[0]!r}", where="<command line>", remedy=remedy)
    values = vars(namespace)
    for when in ("before", "after"):
        names = [name for text in values[f"print_ir_{when}"] for name in text.split(",") if name]
        values[f"print_ir_{when}"] = tuple(names) + ("*",) * values.pop(f"print_ir_{when}_all")
    if namespace.print_ir_tree_dir and not namespace.print_ir_before and not namespace.print_ir_after:
        values["print_ir_after"] = ("*",)
    arguments = DriverArguments(**values)
    if conflict := _conflict(arguments):
        p.error(conflict)
    return arguments


def _conflict(arguments: DriverArguments) -> str:
    """Returns why arguments cannot be used together; "" if they can."""
    if arguments.pretty and arguments.emits_text:
        return f"--pretty does not go with --emit={arguments.emit}, which is not MLIR"
    if arguments.emit_graph and (arguments.emits_text or arguments.split_input_file):
        return "--emit-graph draws one module: it goes neither with --split-input-file nor with a level that is not MLIR"
    if arguments.model and not arguments.emit:
        return f"a model needs --emit=LEVEL, one of {', '.join(LEVELS)}"
    if arguments.model and arguments.emits_text and arguments.pass_pipeline:
        return f"--pass-pipeline does not go with --emit={arguments.emit}, which is not MLIR"
    if not arguments.model and arguments.emit in MODEL_LEVELS:
        return f"--emit={arguments.emit} takes a model, FILE.py:FACTORY, not {arguments.shown}"
    return ""
