"""Upstream's passes: their names, and readable errors where MLIR rejects one.

MLIR's Python bindings neither list passes nor suggest names. `upstream.txt` holds every pass of the toolchain with its options,
as `tools/upstream_passes.py` finds them in the library; it serves messages and `--list-passes` only, MLIR itself decides.
"""

import re
from functools import cache
from pathlib import Path

from torch_mlir import ir

from lamina.core.errors import CompileError, suggestion
from lamina.dialects.variadic import ops_below

from .diagnostics import file_line_column
from .pipeline_text import PassCall, error_at
from .registry import PASSES

# These passes segfault on a module with an op that no dialect declares, such as those of graph and plan (LLVM 24.0.0git: they ask
# the op for interfaces or symbol tables that it does not have).
_FATAL_ON_OURS = {
    "inline",
    "math-extend-to-supported-types",
    "normalize-memrefs",
    "remove-dead-values",
    "scalarize-single-element-tensor-return",
    "torch-onnx-to-torch-backend-pipeline",
    "torch-shape-refinement-pipeline",
    "torchdynamo-export-to-torch-backend-pipeline",
    "xegpu-vector-linearize",
}

_LISTED = "opt-driver --list-passes shows them all"


@cache
def upstream_passes() -> dict[str, tuple[str, ...]]:
    """Returns the names of upstream's passes, with those of their options."""
    lines = Path(__file__).with_name("upstream.txt").read_text().splitlines()
    entries = (line.partition(":") for line in lines if not line.startswith("#"))
    return {name: tuple(options.split()) for name, _, options in entries}


def check_name(name: str, where: str) -> None:
    """Raises CompileError, with the nearest names, for a name that is not a pass."""
    if name not in PASSES and name not in upstream_passes():
        raise CompileError(f"unknown pass {name!r}", where=where, remedy=_instead_of(name))


def _instead_of(name: str) -> str:
    return suggestion(name, [*PASSES, *upstream_passes()], _LISTED)


def explain_rejection(message: str, anchor: str, call: PassCall) -> CompileError:
    """Turns MLIR's refusal of an upstream pass inside `anchor(...)` into a one-line error with a remedy."""
    known = upstream_passes()
    if "does not refer to a registered pass" in message:
        return error_at(call.column, f"unknown pass {call.name!r}", _instead_of(call.name))
    if option := re.search(r"no such option (\S+)", message):
        has = known.get(call.name, ())
        return error_at(call.column, f"unknown option {option[1]!r} of {call.name}", suggestion(option[1], has))
    if wanted := re.search(r"restricted to '([^']+)'", message):
        return error_at(call.column, f"{call.name} runs on {wanted[1]}, not on {anchor}", f"write {wanted[1]}({call.name})")
    text = " ".join(line for line in message.splitlines() if line and not line.startswith("failed to add"))
    return error_at(call.column, f"{call.name}: {text or 'an option has a wrong value'}", f"given {call}")


def refuse_if_fatal(name: str, module: ir.Module) -> None:
    """Raises CompileError for an upstream pass that is known to end the process on this module."""
    if name not in _FATAL_ON_OURS:
        return
    for op in ops_below(module.operation):
        if op.name.startswith(("graph.", "plan.")):
            file, line, column = file_line_column(op.location)
            where = f"{file}:{line}:{column}" if file else ""
            text = f"{name} cannot run on a module with {op.name}: it would end the process"
            raise CompileError(text, where=where, remedy="run it at an earlier level")
