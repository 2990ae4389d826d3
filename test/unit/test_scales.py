"""Tests programs for calls of another scale than the one that was traced: in the simulator, against float64."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sized_programs import TARGET, compiled, launches
from torch import Tensor

from lamina.core.program import Launch
from lamina.frontend.compiling import scales, stages
from lamina.frontend.compiling.worker import finish

__all__ = ["launches"]

Shapes = tuple[tuple[int, int], ...]
CASES: dict[str, tuple[Callable[[Tensor], Tensor], Shapes, int, Shapes, int]] = {
    "columns": (lambda x: x.mean(0), ((48, 40), (70, 9)), 1, ((20000, 16), (16999, 17)), 2),
    "everything": (lambda x: (x * x).sum(), ((48, 40), (2, 3), (127, 9)), 1, ((600, 501), (3, 90001)), 2),
    "rows": (lambda x: x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt(), ((3, 22000),), 3, ((600, 13), (1000, 3)), 1),
}
"""Functions, with shapes of the scale of the first one, and the number of kernels for these; the same of another scale."""


def checked(run: Callable[[Tensor], Tensor], function: Callable[[Tensor], Tensor], shape: tuple[int, int]) -> None:
    x = torch.randn(shape)
    torch.testing.assert_close(run(x).double(), function(x.double()), rtol=1e-5, atol=1e-4)


@pytest.fixture
def programs(launches: list[Launch], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of kernels of each call so far."""
    found: list[int] = []
    load = stages.load

    def loaded(built: stages.Built, *others: Any) -> Any:
        run = load(built, *others)
        return lambda *given: found.append(len(built.program.steps)) or run(*given)

    monkeypatch.setattr(stages, "load", loaded)
    return found


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CASES)
def test_calls_of_another_scale(name: str, programs: list[int]) -> None:
    """They divide the work among as many kernels as a program traced at their sizes; those of the first scale as before."""
    function, near, few, far, others = CASES[name]
    run = compiled(function)
    for shape, wanted in (*((s, few) for s in near), *((s, others) for s in far), *((s, few) for s in near)):
        for _ in range(3):  # with the kernels that there are, those of this range, and those of this scale
            checked(run, function, shape)
            finish()
        checked(run, function, shape)
        assert programs[-1] == wanted, shape


@pytest.fixture
def rescaled(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    """The sizes for which programs were compiled again so far."""
    found: list[dict[str, int]] = []
    at_scale = scales.at_scale

    def counted(built: stages.Built, symbols: dict[str, int], **others: Any) -> Any:
        found.append(symbols)
        return at_scale(built, symbols, **others)

    monkeypatch.setattr(stages, "at_scale", counted)
    return found


def test_one_program_for_a_scale(programs: list[int], rescaled: list[dict[str, int]]) -> None:
    run = compiled(CASES["columns"][0])
    for shape in ((48, 40), (50, 40), (20000, 16), (30000, 11), (7000, 40)):
        checked(run, CASES["columns"][0], shape)
        finish()
    assert [sorted(symbols.values()) for symbols in rescaled] == [[16, 20000]]


def test_deterministic_calls_keep_their_program(programs: list[int], rescaled: list[dict[str, int]]) -> None:
    run = compiled(CASES["columns"][0])
    torch.use_deterministic_algorithms(True)
    try:
        for shape in ((48, 40), (20000, 16)):
            checked(run, CASES["columns"][0], shape)
            finish()
    finally:
        torch.use_deterministic_algorithms(False)
    assert not rescaled and set(programs) == {1}


def test_errors_leave_the_program_that_there_is(monkeypatch: pytest.MonkeyPatch, programs: list[int]) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("no ptxas")

    monkeypatch.setattr(stages, "at_scale", fails)
    run = compiled(CASES["columns"][0])
    checked(run, CASES["columns"][0], (48, 40))
    finish()
    with pytest.warns(UserWarning, match=r"lamina compiled no program for sizes like s\d+ = 20000, s\d+ = 16: no ptxas"):
        checked(run, CASES["columns"][0], (20000, 16))
        finish()
    checked(run, CASES["columns"][0], (20000, 16))


def test_programs_of_scales_are_kept_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: list[int], rescaled: list[dict[str, int]]
) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    lowered: list[Any] = []
    compiled_ = scales._compiled
    monkeypatch.setattr(scales, "_compiled", lambda *args: lowered.append(args) or compiled_(*args))
    for _ in range(2):
        torch._dynamo.reset()
        run = torch.compile(CASES["columns"][0], backend="lamina", dynamic=True, options={"target": TARGET})
        for shape in ((48, 40), (20000, 16), (20000, 16)):
            checked(run, CASES["columns"][0], shape)
            finish()
        assert programs[-1] == 2
    assert len(rescaled) == 2 and len(lowered) == 1
