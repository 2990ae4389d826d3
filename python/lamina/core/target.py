"""Compilation targets: the kind of machine that code is made for, and a model of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .device import Cpu, host
from .errors import CompileError
from .gpu import Gpu
from .program import Device

Kind = Literal["cpu", "nvvm"]
_NULL = "null"
_WARP = 32  # lanes of a warp on NVIDIA GPUs

_REMEDY = (
    '"cpu" is this host, "cpu:NAME" a processor by LLVM\'s name, "nvvm:ARCH" a GPU, such as nvvm:sm_90a; "null:TARGET" runs nothing'
)


@dataclass(frozen=True)
class Target:
    """A machine that code is made for.

    Its text, `str(target)`, is what users and pipelines write: "cpu" for this host, "cpu:znver4", "nvvm:sm_90a". The prefix "null:"
    before any of these compiles for that machine and runs nothing.

    kind   names the folder of `targets/` that compiles for it
    model  features, limits and peaks that schedules, kernels and the roofline use
    null   calls launch nothing and return zeros, so that tests and profiles of compile time need no such machine
    """

    kind: Kind
    model: Cpu | Gpu
    null: bool = False

    @staticmethod
    def parse(text: str | Target) -> Target:
        """Reads a target's text. Raises CompileError for an unknown target, TypeError for a value that is not text."""
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
        """The target that a null one stands for; any other target itself."""
        return replace(self, null=False) if self.null else self

    def __str__(self) -> str:
        if self.null:
            return f"{_NULL}:{self.machine}"
        if isinstance(self.model, Gpu):
            return f"{self.kind}:{self.model.arch}"
        return self.kind if self.model == host() else f"{self.kind}:{self.model.processor}"

    @property
    def is_gpu(self) -> bool:
        """Whether kernels are spread over lanes, warps and blocks."""
        return isinstance(self.model, Gpu)

    @property
    def gpu(self) -> Gpu:
        """The GPU's model. Raises CompileError for another machine."""
        if isinstance(self.model, Gpu):
            return self.model
        raise CompileError(f"target {self} is not a GPU", remedy="give a GPU's, such as nvvm:sm_90a")

    @property
    def cpu(self) -> Cpu:
        """The processor's model. Raises CompileError for another machine."""
        if isinstance(self.model, Cpu):
            return self.model
        raise CompileError(f"target {self} is not a processor", remedy="give one, such as cpu")

    @property
    def lanes(self) -> int:
        """The number of threads that run in lockstep: 32 on a GPU, 1 on a CPU."""
        return _WARP if self.is_gpu else 1

    @property
    def device(self) -> Device:
        """Torch's device type of its tensors."""
        return "cuda" if self.is_gpu else "cpu"

    @property
    def identity(self) -> str:
        """The part of a cache key that names all that its code depends on."""
        own = f"{self.kind}:{self.model.identity}"  # targets of one machine may make different code
        return f"{_NULL}:{own}" if self.null else own
