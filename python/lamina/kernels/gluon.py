"""Checks whether a GPU and a version of Triton can run Lamina's kernels in Gluon."""

from lamina.core.gpu import Gpu

_HOPPER = "sm_90a"
_TESTED = (3, 6), (3, 9)  # versions of Triton that they are tested with


def has_gluon(gpu: Gpu) -> bool:
    """Returns whether they support this GPU and the installed Triton: Gluon's names change between versions."""
    import triton

    release = tuple(int(n) for n in triton.__version__.split(".")[:2])
    return gpu.arch == _HOPPER and _TESTED[0] <= release <= _TESTED[1]
