"""Targets: how a module of tile programs becomes code. `named("cpu")` is the host."""

from lamina.core.errors import CompileError

from .base import Artifact, Target


def named(name: str) -> Target:
    """The target of a name such as "cpu" (this host) or "cpu:znver4" (another processor that LLVM knows)."""
    family, _, rest = name.partition(":")
    if family == "cpu":
        from .cpu import CpuTarget  # LLVM and MLIR are loaded by those who compile only

        return CpuTarget.named(rest)
    raise CompileError(f"unknown target {name!r}", remedy='targets are "cpu" and "cpu:<an LLVM processor name>"')


__all__ = ["Artifact", "Target", "named"]
