"""Programmatic dependent launch: a kernel is launched before the work ahead of it has ended, and waits for that by itself."""

from torch_mlir.dialects import nvvm


def wait_for_previous_kernel() -> None:
    """Waits until all work before is done and visible, then lets the next kernel be launched, which waits for this one likewise.

    It stands ahead of the first access to memory, and hides the launch behind the end of the kernel before (CUDA C++ programming
    guide, "Programmatic dependent launch and synchronization").
    """
    nvvm.griddepcontrol(nvvm.GridDepActionKind.wait)
    nvvm.griddepcontrol(nvvm.GridDepActionKind.launch_dependents)
