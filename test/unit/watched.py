"""Records the programs that are compiled or loaded while a test runs."""

from collections.abc import Iterable
from typing import Any

import pytest

from lamina.core.program import Program, Step
from lamina.frontend.compiling import stages


def compiled_programs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Returns a list to which each program that is compiled is added; programs from the cache are not."""
    found: list[Program] = []
    compile_ = stages._compile

    def compiled(*args: Any) -> stages.Built:
        built = compile_(*args)
        found.append(built.program)
        return built

    monkeypatch.setattr(stages, "_compile", compiled)
    return found


def loaded_programs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Returns a list to which each program that is made callable is added, with numbers for symbolic sizes."""
    found: list[Program] = []
    load = stages.load

    def loaded(built: stages.Built, *others: Any) -> Any:
        found.append(built.program)
        return load(built, *others)

    monkeypatch.setattr(stages, "load", loaded)
    return found


def steps_of(programs: Iterable[Program]) -> list[Step]:
    """Returns the steps of all programs."""
    return [step for program in programs for step in program.steps]
