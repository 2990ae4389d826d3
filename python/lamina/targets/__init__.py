"""Targets: how a module of tile programs becomes code."""

from lamina.core.target import Target

from .base import Artifact, Backend


def backend(target: Target) -> Backend:
    """Returns what compiles for a target."""
    if target.is_gpu:
        from .nvvm.backend import NvvmBackend  # LLVM and MLIR are loaded by those who compile only

        return NvvmBackend(target)
    from .cpu.backend import CpuBackend

    return CpuBackend(target)


__all__ = ["Artifact", "Backend", "backend"]
