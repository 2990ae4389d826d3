"""Calls the rules of a user's kernel (when, grid, outputs, ...): functions whose parameters name the values that they need."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from lamina.core.custom_kernel import CustomKernel, Rule
from lamina.core.errors import CompileError, suggestion


def call_rule(kernel: CustomKernel, what: str, rule: Rule, known: Mapping[str, Any]) -> Any:
    """Calls a rule with the values that it asks for and returns its result.

    Raises CompileError if it fails, or asks for a value that is not in `known`. what: the rule's name.
    """
    check_names(kernel.name, what, rule, known)
    wanted = inspect.signature(rule).parameters.values()
    everything = any(p.kind is p.VAR_KEYWORD for p in wanted)
    asked = known if everything else {p.name: known[p.name] for p in wanted if p.name in known}
    try:
        return rule(**asked)
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(
            f"kernel {kernel.name}: {what} failed: {type(error).__name__}: {error}", where=location_of(rule)
        ) from error


def check_names(kernel: str, what: str, rule: Rule, known: Iterable[str]) -> None:
    """Raises CompileError if a rule asks for a name that is not in `known`."""
    known = list(known)
    for p in inspect.signature(rule).parameters.values():
        if p.kind is p.VAR_POSITIONAL or p.kind is p.POSITIONAL_ONLY:
            raise CompileError(f"kernel {kernel}: {what} takes {p}, but gets all by name", where=location_of(rule))
        if p.kind is not p.VAR_KEYWORD and p.default is p.empty and p.name not in known:
            raise CompileError(
                f"kernel {kernel}: {what} takes {p.name!r}, which nobody gives it",
                where=location_of(rule),
                remedy=suggestion(p.name, known),
            )


def location_of(function: Any) -> str:
    """Returns "file.py:12" for a Python function; "" for anything else."""
    code = getattr(getattr(function, "fn", function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def result_names(count: int, listed: bool) -> list[str]:
    """Returns the names by which rules get results: out, or out0, out1, ..., or outs for an op that returns a list."""
    return ["outs"] if listed else ["out"] if count == 1 else [f"out{i}" for i in range(count)]


def parameter_names(function: Any) -> list[str]:
    """Returns the names of a function's parameters."""
    return list(inspect.signature(function).parameters)
