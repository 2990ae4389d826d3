"""Programs of symbolic sizes for GPUs, run in the simulators."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from gpu_programs import Simulated, distribute
from torch_mlir import ir

from lamina.core.program import Launch
from lamina.frontend.calls.call import unboxed
from lamina.frontend.compiling import stages
from lamina.targets import module as device_modules
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.printing.printed import Printed

TARGET = "null:nvvm:sm_90a"


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Launch]]:
    """Runs what is compiled for TARGET in the simulators; the launches of printed kernels so far."""
    torch._dynamo.reset()
    modules: list[ir.Module] = []
    found: list[Launch] = []
    keep = device_modules.keep_kernels

    def kept(module: ir.Module) -> None:
        keep(module)
        modules.append(ir.Module.parse(str(module), module.context))

    @cache
    def distributed(tiled: ir.Module) -> tuple[ir.Module, Sequence[Printed]]:
        module = ir.Module.parse(str(tiled), tiled.context)
        with module.context:
            printed = triton_text.take(module, True)
            distribute(module)
        return module, printed

    def loaded(built: stages.Built, *_: Any) -> Callable[..., Any]:
        module, printed = distributed(modules[-1])
        mine = {kernel.name for kernel in printed}
        found.extend(s for s in built.program.steps if isinstance(s, Launch) and s.kernel in mine)
        return lambda *given: tuple(Simulated(module, built.program, printed)(*unboxed(given)))

    monkeypatch.setattr(device_modules, "keep_kernels", kept)
    monkeypatch.setattr(stages, "_loaded", loaded)
    yield found
    torch._dynamo.reset()


OPTIONS = {"target": TARGET, "cache": False}


def compiled(model: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(model, backend="lamina", dynamic=True, options=OPTIONS)
