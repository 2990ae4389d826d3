"""Explains why a model could not be traced, with the line of the model that stopped it."""

import os
import re
import traceback

import torch

from lamina.core.errors import CompileError

_OURS = (os.path.dirname(os.path.dirname(__file__)) + os.sep, os.path.dirname(torch.__file__) + os.sep)
_DATA_DEPENDENT = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException", "UserError")
_WAY_OUT = (
    'torch.compile(model, backend="lamina") breaks the graph there and runs that part in Python; '
    "torch.cond keeps a branch in the graph"
)


def explain(error: BaseException) -> CompileError:
    """Returns a CompileError for whatever torch.export raised."""
    if isinstance(error, CompileError):
        return error
    chain = _chain(error)
    named = next((e for e in chain if type(e).__name__ in _DATA_DEPENDENT), None)
    lines = [line for e in chain for line in _users_lines(e)] or [line for e in chain for line in _told_lines(e)]
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


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found


def _users_lines(error: BaseException) -> list[str]:
    return [f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__) if _is_users(f.filename)]


def _told_lines(error: BaseException) -> list[str]:
    """Returns the lines that a message or its notes name.

    torch's graph interpreter appends the failed op's traceback to its message.
    """
    told = "\n".join([str(error), *getattr(error, "__notes__", ())])
    return [f"{file}:{line}" for file, line in re.findall(r'File "([^"]+)", line (\d+)', told) if _is_users(file)]


def _is_users(file: str) -> bool:
    return not file.startswith(_OURS) and not file.startswith("<")
