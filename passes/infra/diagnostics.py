"""MLIR diagnostics as plain data with file, line and column; verification of modules."""

import re
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects import graph
from lamina.dialects import verify as verify_dialects
from lamina.dialects.variadic import ops_below

_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')


@dataclass(frozen=True)
class Diagnostic:
    """A diagnostic. `severity` is error, warning, remark or note; `file` is "" and `line` 0 where the place is unknown."""

    severity: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    notes: "tuple[Diagnostic, ...]" = ()

    @property
    def where(self) -> str:
        """`file:line:col`, or "" if the place is unknown."""
        return f"{self.file}:{self.line}:{self.column}" if self.file else ""

    @staticmethod
    def of(diagnostic: Any) -> "Diagnostic":
        """Converts an `ir.Diagnostic` (valid only inside its handler) or an `ir.DiagnosticInfo`."""
        file, line, column = file_line_column(diagnostic.location)
        notes = tuple(Diagnostic.of(note) for note in diagnostic.notes)
        return Diagnostic(diagnostic.severity.name.lower(), diagnostic.message.strip(), file, line, column, notes)


def file_line_column(location: ir.Location) -> tuple[str, int, int]:
    """Returns (file, line, column) of a location, the innermost of a call or fusion; ("", 0, 0) without one."""
    match = _PLACE.search(str(location))
    return (match[1], int(match[2]), int(match[3])) if match else ("", 0, 0)


def of_error(error: ir.MLIRError) -> tuple[Diagnostic, ...]:
    """Returns the diagnostics of an MLIRError."""
    return tuple(Diagnostic.of(d) for d in error.error_diagnostics)


class InvalidIR(CompileError):
    """Raised for IR that does not verify; `diagnostics` says where and why."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        first = next((d for d in diagnostics if d.severity == "error"), Diagnostic("error", "the module does not verify"))
        super().__init__(first.message, where=first.where)
        self.diagnostics = diagnostics


def _error(text: str, op: ir.Operation) -> Diagnostic:
    """Returns an error at an op."""
    return Diagnostic("error", text, *file_line_column(op.location))


def verify(module: ir.Module) -> None:
    """Runs upstream's verifier, then that of the graph and plan dialects. Raises InvalidIR."""
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise InvalidIR(of_error(error)) from error
    if wrong := verify_dialects(module.operation):
        raise InvalidIR(tuple(_error(text, op) for op, text in wrong))


def verify_input(module: ir.Module) -> None:
    """Verifies a module that a user wrote. Raises InvalidIR.

    Beyond `verify`, checks what passes guarantee between levels: that groups capture nothing from outside, and that blocks end in
    terminators, which upstream's verifier does not know for unregistered ops.
    """
    verify(module)
    wrong: list[Diagnostic] = []
    for op in ops_below(module.operation):
        if op.name == graph.GroupOp.OPERATION_NAME and graph.captured(op) is not None:
            wrong.append(_error("graph.group uses a value from outside that is not an operand of it", op))
        for block in op.regions[0].blocks if op.name == "func.func" else ():
            end = block.operations[len(block.operations) - 1].operation
            if end.name.startswith(("graph.", "plan.")):
                wrong.append(_error(f"{end.name} ends a function, which wants a terminator", end))
    if wrong:
        raise InvalidIR(tuple(wrong))


def unknown_ops(module: ir.Module) -> tuple[Diagnostic, ...]:
    """Returns an error for every op that no dialect declares: Lamina's contexts parse these, for the sake of graph and plan."""
    known = module.context.is_registered_operation
    return tuple(
        _error(f"no dialect declares the op {op.name!r} (--allow-unregistered-dialect accepts it)", op)
        for op in ops_below(module.operation)
        if not known(op.name) and not op.name.startswith(("graph.", "plan."))
    )
