"""Explains why a model could not be traced, with the line of the model that stopped it."""

import os
import re
import traceback

import torch
from torch._dynamo.exc import UserError

from lamina.core.errors import CompileError

_OURS = (os.path.dirname(os.path.dirname(__file__)) + os.sep, os.path.dirname(torch.__file__) + os.sep)
_DATA_DEPENDENT = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException", "UserError")
_LOGS = ' For more information, run with TORCH_LOGS="+dynamic".'
_WAY_OUT = (
    'torch.compile(model, backend="lamina") breaks the graph there and runs that part in Python; '
    "torch.cond keeps a branch in the graph"
)


def is_of_sizes(error: BaseException) -> bool:
    """Returns whether torch.export refuses declared sizes: the model forces a constant, a range or an equality."""
    return isinstance(error, UserError) and str(error).startswith("Constraints violated")


def explain(error: BaseException, line: str = "") -> CompileError:
    """Returns a CompileError for whatever torch.export raised. line: the model's, for an error of sizes."""
    if isinstance(error, CompileError):
        return error
    if is_of_sizes(error):
        message, _, fixes = str(error).partition("\n\nThe error above")[0].partition("Suggested fixes:")
        return CompileError(
            f"dynamic_shapes: {_joined(message.replace(_LOGS, ''))}", where=line, remedy=_joined(fixes, "; ") or "use Dim.AUTO"
        )
    chain = _chain(error)
    named = next((e for e in chain if type(e).__name__ in _DATA_DEPENDENT), None)
    lines = [line for e in chain for line in _users_lines(e)] or [line for e in chain for line in _named_lines(e)]
    where = lines[-1] if lines else ""
    first = next((line.strip() for line in str(named or error).splitlines() if line.strip()), type(error).__name__)
    if named is not None:
        return CompileError(
            f"a decision here depends on the values of tensors, so there is no one graph: {first}", where=where, remedy=_WAY_OUT
        )
    return CompileError(
        f"the model cannot be traced: {type(error).__name__}: {first}",
        where=where,
        remedy=f"check that model(*example_inputs) runs; if it does, {_WAY_OUT}",
    )


def _joined(text: str, by: str = " ") -> str:
    return by.join(line.strip() for line in text.splitlines() if line.strip())


def _chain(error: BaseException) -> list[BaseException]:
    errors: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in errors:
        errors.append(current)
        current = current.__cause__ or current.__context__
    return errors


def _users_lines(error: BaseException) -> list[str]:
    return [f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__) if is_users(f.filename)]


def _named_lines(error: BaseException) -> list[str]:
    """Returns the lines that a message or its notes name.

    torch's graph interpreter appends the failed op's traceback to its message.
    """
    message = "\n".join([str(error), *getattr(error, "__notes__", ())])
    return [f"{file}:{line}" for file, line in re.findall(r'File "([^"]+)", line (\d+)', message) if is_users(file)]


def is_users(file: str) -> bool:
    """Returns whether a source file is neither torch's nor Lamina's."""
    return not file.startswith(_OURS) and not file.startswith("<")
