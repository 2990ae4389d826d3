"""Programmatic dependent launch: a kernel is launched while what runs before it ends, and waits for that by itself."""

from torch_mlir.dialects import nvvm


def after_the_work_before() -> None:
    """Waits until all work before is done and seen, then lets what comes after be launched: it waits for this kernel likewise.

    Ahead of the first access to memory. Hides what a launch takes behind the end of the kernel before (CUDA C++ programming guide,
    "Programmatic dependent launch and synchronization")."""
    nvvm.griddepcontrol(nvvm.GridDepActionKind.wait)
    nvvm.griddepcontrol(nvvm.GridDepActionKind.launch_dependents)
