"""Targets: how a module of tile programs becomes code. `named("cpu")` is the host."""

from lamina.core.errors import CompileError

from .base import Artifact, Target


def named(name: str) -> Target:
    """The target of a name such as "cpu" (this host), "cpu:znver4" (another processor that LLVM knows) or "nvvm:sm_90a" (a GPU)."""
    family, _, rest = name.partition(":")
    if family == "cpu":
        from .cpu import CpuTarget  # LLVM and MLIR are loaded by those who compile only

        return CpuTarget.named(rest)
    if family == "nvvm":
        from .nvvm import NvvmTarget

        return NvvmTarget.named(rest)
    raise CompileError(
        f"unknown target {name!r}", remedy='targets are "cpu", "cpu:<an LLVM processor name>" and "nvvm:<an architecture>"'
    )


__all__ = ["Artifact", "Target", "named"]
