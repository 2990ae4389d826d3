"""The registry of torch's fused attention kernels, in torch's order of preference."""

from .cpu import CpuKernel
from .cudnn import CudnnKernel
from .efficient import EfficientKernel
from .flash import FlashKernel
from .kernel import Case, TorchKernel

KERNELS: tuple[TorchKernel, ...] = (FlashKernel(), EfficientKernel(), CudnnKernel(), CpuKernel())
TORCH_KERNELS = " ".join(dict.fromkeys(kernel.name for kernel in KERNELS))
"""The names of all, which torch's settings allow by default."""
OLDEST = 80
"""The compute capability of a GPU that is not known."""


def settings() -> str:
    """Returns the names of the kernels that torch's settings allow."""
    return " ".join(dict.fromkeys(kernel.name for kernel in KERNELS if kernel.is_allowed()))


def preferred(case: Case, capability: int | None = OLDEST, allowed: str = TORCH_KERNELS) -> TorchKernel | None:
    """Returns the kernel that torch prefers among those that compute the attention; None without one.

    capability  of the GPU, 90 for sm_90a; None on CPUs
    allowed     the names of the kernels that torch's settings allow, with spaces between
    """
    first = CudnnKernel if capability is not None and capability // 10 in (9, 10) else FlashKernel
    order = sorted(KERNELS, key=lambda kernel: type(kernel) is not first)
    return next((kernel for kernel in order if kernel.name in allowed.split() and kernel.computes(case, capability)), None)
