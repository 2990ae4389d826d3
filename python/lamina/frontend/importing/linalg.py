"""Lowers the torch dialect to linalg on tensors by torch-mlir's pipelines (targets/levels.py), and reports which op failed."""

import re
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from lamina.passes.ir.reading import nested
from lamina.targets.levels import pipeline

_NAMED = re.compile(r'"(?P<op>[^"]+)"\("(?P<file>[^"]*)":(?P<line>\d+)')
_OPERANDS = ("torch.constant.", "torch.prim.", "torch_c.", "torch.operator")
_BARE = re.compile(r'^loc\((?:"[^"]+"\()*"(?P<op>[^"]+)"')


@dataclass(frozen=True)
class Failure:
    """The first diagnostic of a failed lowering, and the op and source line its location names."""

    message: str
    op: str
    source: tuple[str, int] | None

    def blames(self, op: str, source: tuple[str, int] | None) -> bool:
        """Returns whether the diagnostic's location is that of `op` at `source`, (file, line)."""
        return op == self.op and source == self.source

    @property
    def where(self) -> str:
        """The source line as "file:line"; "" if it is not known."""
        return f"{self.source[0]}:{self.source[1]}" if self.source else ""


def lower(module: ir.Module) -> Failure | None:
    """Runs the pipeline in place. Returns the failure, if there was one; the module is then unusable."""
    seen: list[ir.DiagnosticInfo] = []

    def keep(diagnostic: ir.Diagnostic) -> bool:
        """Collects errors and stops their printing."""
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            seen.append((diagnostic.message, str(diagnostic.location)))
        return True

    with module.context.attach_diagnostic_handler(keep):
        try:
            PassManager.parse(pipeline("torch", "linalg"), module.context).run(module.operation)
        except ir.MLIRError as error:
            seen += [(d.message, str(d.location)) for d in error.error_diagnostics]
            failure = _failure(seen, str(error))
            return failure if failure.op else _leftover(module, _OPERANDS) or failure
    return _leftover(module)


def _failure(seen: list[tuple[str, str]], text: str) -> Failure:
    for message, location in seen:
        if (named := _NAMED.search(location)) is not None:
            return Failure(message, named["op"], (named["file"], int(named["line"])))
        if (bare := _BARE.search(location)) is not None:
            return Failure(message, bare["op"], None)
    return Failure(seen[0][0] if seen else text.splitlines()[0], "", None)


def _leftover(module: ir.Module, but: tuple[str, ...] = ()) -> Failure | None:
    """Finds an op of torch's dialects that survived, other than those `but`: the verify pass that would have found it is left out
    of the pipeline, and a conversion that fails may name one of the op's operands, such as a constant without a location."""
    left = (op for op in nested(module.operation) if op.name.startswith(("torch.", "torch_c.", "tm_tensor.")))
    op = next((op for op in left if not op.name.startswith(but)), None)
    return None if op is None else _failure([(f"{op.name} was not lowered", str(op.location))], "")
