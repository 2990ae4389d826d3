"""Programs of symbolic sizes for GPUs, run in the simulators."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from gpu_programs import Simulated, distribute
from torch_mlir import ir

from lamina.core.program import Launch
from lamina.dialects import context
from lamina.frontend.calls.call import unboxed
from lamina.frontend.compiling import stages
from lamina.runtime import cubins
from lamina.targets.base import Artifact
from lamina.targets.module import programs_of
from lamina.targets.nvvm.backend import NvvmBackend
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.printing.printed import Printed

TARGET = "null:nvvm:sm_90a"


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Launch]]:
    """Runs what is compiled for TARGET in the simulators; the launches of printed kernels so far."""
    torch._dynamo.reset()
    texts: dict[bytes, str] = {}
    found: list[Launch] = []
    compile_ = NvvmBackend.compile

    def compiling(self: NvvmBackend, module: ir.Module, *ready: Any) -> Artifact:
        text = str(module)
        made = compile_(self, module, *ready)
        texts.update(dict.fromkeys(cubins.divide(made.code), text))
        return made

    @cache
    def distributed(parts: tuple[str, ...]) -> tuple[ir.Module, Sequence[Printed]]:
        own = context()
        first, *others = (ir.Module.parse(text, own) for text in parts or ("",))
        for other in others:
            for op in list(other.body.operations):
                first.body.append(op)
        with first.context:
            printed = triton_text.take(first, True)
            distribute(first)
        return first, printed

    def loaded(built: stages.Built, *_: Any) -> Callable[..., Any]:
        module, printed = distributed(tuple(dict.fromkeys(texts[code] for code in cubins.divide(built.code) if code)))
        mine = {kernel.name for kernel in printed}
        found.extend(s for s in built.program.steps if isinstance(s, Launch) and s.kernel in mine)
        return lambda *given: tuple(Simulated(module, built.program, printed)(*unboxed(given)))

    monkeypatch.setattr(NvvmBackend, "compile", compiling)
    monkeypatch.setattr(stages, "load", loaded)
    yield found
    torch._dynamo.reset()


@pytest.fixture
def kernels(launches: list[Launch], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs programs in the simulators; the kernels of those that were bound so far."""
    found: list[str] = []
    load = stages.load

    def loaded(built: stages.Built, *others: Any) -> Any:
        found.extend(s.kernel for s in built.program.steps if isinstance(s, Launch))
        return load(built, *others)

    monkeypatch.setattr(stages, "load", loaded)
    return found


@pytest.fixture
def not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands the text of each module in for its code, by which `launches` finds it."""
    monkeypatch.setattr(
        NvvmBackend,
        "compile",
        lambda self, module, *_: Artifact(str(self.target), str(module).encode(), tuple(programs_of(module))),
    )


OPTIONS = {"target": TARGET, "cache": False}


def compiled(model: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(model, backend="lamina", dynamic=True, options=OPTIONS)
