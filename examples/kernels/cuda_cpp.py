"""A custom kernel in CUDA C++: `python examples/kernels/cuda_cpp.py`. Without an NVIDIA GPU, torch computes the op."""

import torch
import triton
from torch import Tensor

import lamina


@torch.library.custom_op("examples::scaled_add", mutates_args=())
def scaled_add(x: Tensor, y: Tensor, alpha: float = 1.0) -> Tensor:
    """Adds a multiple of y, as the kernel below does on a GPU."""
    return x + alpha * y


@scaled_add.register_fake
def _(x: Tensor, y: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.empty_like(x)


SOURCE = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void scaled_add(const T* __restrict__ x, const T* __restrict__ y, T* __restrict__ out, int n, float alpha) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = T(float(x[i]) + alpha * float(y[i]));
}
"""

KERNEL = lamina.custom_kernel(
    "examples::scaled_add",
    source=SOURCE,
    kernel="scaled_add<ELEMENT>",
    constants={"ELEMENT": lambda x: x.dtype},
    when=lambda x, y: x.dtype == y.dtype and x.shape == y.shape and x.is_contiguous() and y.is_contiguous(),
    arguments=lambda x, y, alpha, out: (x, y, out, x.numel(), alpha),
    grid=lambda x, threads: triton.cdiv(x.numel(), threads),
    threads=256,
)


def model(x: Tensor, y: Tensor) -> Tensor:
    """Calls the op between two ops that Lamina compiles."""
    return torch.relu(scaled_add(x * 2, y, 0.5))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = torch.randn(1000, 100, device=device), torch.randn(1000, 100, device=device)
    with KERNEL:
        torch.testing.assert_close(torch.compile(model, backend="lamina")(x, y), model(x, y))
        lamina.explain(model, (x, y))
