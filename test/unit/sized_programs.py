"""Programs of symbolic sizes for GPUs, run in the simulators."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from gpu_programs import Simulated, distribute
from torch_mlir import ir

from lamina.core.program import Launch, Program
from lamina.dialects import context
from lamina.frontend.calls.call import unboxed
from lamina.frontend.compiling import stages
from lamina.passes.ir.reading import name_of, nested
from lamina.runtime import cubins
from lamina.targets.base import Artifact
from lamina.targets.module import programs_of
from lamina.targets.nvvm.backend import NvvmBackend
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.printing.printed import Printed

TARGET = "null:nvvm:sm_90a"


Part = tuple[ir.Module, Sequence[Printed]]
"""Kernels that were compiled together: those of one thread's code, and those that Triton's interpreter runs."""


class InParts(Simulated):
    """Runs a program whose kernels were compiled one after the other, as calls came to need them."""

    counts_traffic = False

    def __init__(self, parts: Sequence[Part], program: Program) -> None:
        super().__init__(parts[0][0] if parts else ir.Module.parse("", context()), program, [k for _, ks in parts for k in ks])
        self.modules = {name_of(kernel): module for module, _ in parts for kernel in nested(module.operation, "gpu.func")}

    def launch(self, step: Launch, arrays: list[np.ndarray]) -> None:
        self.module = self.modules.get(step.kernel, self.module)
        super().launch(step, arrays)


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
    def distributed(text: str) -> Part:
        module = ir.Module.parse(text, context())
        with module.context:
            printed = triton_text.take(module, True)
            distribute(module)
        return module, printed

    def loaded(built: stages.Built, *_: Any) -> Callable[..., Any]:
        parts = [distributed(text) for text in dict.fromkeys(texts[code] for code in cubins.divide(built.code) if code)]
        mine = {kernel.name for _, printed in parts for kernel in printed}
        found.extend(s for s in built.program.steps if isinstance(s, Launch) and s.kernel in mine)
        return lambda *given: tuple(InParts(parts, built.program)(*unboxed(given)))

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
