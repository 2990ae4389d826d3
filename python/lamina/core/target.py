"""What code is made for: a kind of machine, and the model of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .device import Cpu, host
from .errors import CompileError
from .gpu import Gpu
from .program import Device

Kind = Literal["cpu", "nvvm"]
_NULL = "null"
_WARP = 32  # lanes of NVIDIA's GPUs
_REMEDY = (
    '"cpu" is this host, "cpu:NAME" a processor by LLVM\'s name, "nvvm:ARCH" a GPU, such as nvvm:sm_90a; "null:TARGET" runs nothing'
)


@dataclass(frozen=True)
class Target:
    """A machine that code is made for.

    Its text, `str(target)`, is what users and pipelines write: "cpu" for this host, "cpu:znver4", "nvvm:sm_90a", and with "null:"
    before any of these a machine that all is compiled for and nothing is run on.

    kind   names the folder of `targets/` that compiles for it
    model  what schedules, kernels and the roofline must know of it: features, limits, peaks
    null   calls launch nothing and return zeros: tests, and profiles of compile time, need no such machine
    """

    kind: Kind
    model: Cpu | Gpu
    null: bool = False

    @staticmethod
    def parse(text: str | Target) -> Target:
        """Reads a target's text. Raises CompileError for what names none, TypeError for what is no text."""
        if isinstance(text, Target):
            return text
        if not isinstance(text, str):
            raise TypeError(f"a target is text, not {type(text).__name__} ({_REMEDY})")
        kind, _, name = text.partition(":")
        if kind == _NULL and name and not name.startswith(_NULL):
            return replace(Target.parse(name), null=True)
        if kind == "cpu":
            return Target("cpu", Cpu.named(name) if name else host())
        if kind == "nvvm" and name:
            return Target("nvvm", Gpu.named(name))
        raise CompileError(f"no target is called {text!r}", remedy=_REMEDY)

    @staticmethod
    def host() -> Target:
        """Returns the processor that this process runs on."""
        return Target("cpu", host())

    @property
    def machine(self) -> Target:
        """Returns the target that a null one stands for, and any other itself."""
        return replace(self, null=False) if self.null else self

    def __str__(self) -> str:
        if self.null:
            return f"{_NULL}:{self.machine}"
        if isinstance(self.model, Gpu):
            return f"{self.kind}:{self.model.arch}"
        return self.kind if self.model == host() else f"{self.kind}:{self.model.processor}"

    @property
    def is_gpu(self) -> bool:
        """Tells whether kernels are spread over lanes, warps and blocks."""
        return isinstance(self.model, Gpu)

    @property
    def gpu(self) -> Gpu:
        """Returns the model of a GPU. Raises CompileError for another machine."""
        if isinstance(self.model, Gpu):
            return self.model
        raise CompileError(f"target {self} is no GPU", remedy="give a GPU's, such as nvvm:sm_90a")

    @property
    def cpu(self) -> Cpu:
        """Returns the model of a processor. Raises CompileError for another machine."""
        if isinstance(self.model, Cpu):
            return self.model
        raise CompileError(f"target {self} is no processor", remedy="give one, such as cpu")

    @property
    def lanes(self) -> int:
        """Counts the threads that run in step."""
        return _WARP if self.is_gpu else 1

    @property
    def device(self) -> Device:
        """Returns torch's type of the device that tensors are on."""
        return "cuda" if self.is_gpu else "cpu"

    @property
    def identity(self) -> str:
        """Returns what code depends on: part of a cache key."""
        return f"{_NULL}:{self.model.identity}" if self.null else self.model.identity
