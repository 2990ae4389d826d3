"""A custom Triton kernel with an epilogue: `python examples/kernels/epilogue.py`. Without an NVIDIA GPU, torch computes the op."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

import lamina


@torch.library.custom_op("examples::product", mutates_args=())
def product(a: Tensor, b: Tensor) -> Tensor:
    """Multiplies matrices, as the kernel below does on a GPU."""
    return a @ b


@product.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


@triton.jit
def product_kernel(
    a_ptr, b_ptr, out_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, epilogue: tl.constexpr, operands
):
    """Multiplies a and b. `epilogue` maps each block of the product, in registers, to the block to store."""
    rows, columns = tl.program_id(0) * M + tl.arange(0, M)[:, None], tl.program_id(1) * N + tl.arange(0, N)[None, :]
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows * k + inner[None, :], mask=(rows < m) & (inner[None, :] < k), other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns, mask=(inner[:, None] < k) & (columns < n), other=0.0)
        acc = tl.dot(a, b, acc)
    at, mask = rows * n + columns, (rows < m) & (columns < n)
    tl.store(out_ptr + at, epilogue(acc, at, mask, operands), mask=mask)


KERNEL = lamina.custom_kernel(
    product,
    kernel=product_kernel,
    when=lambda a, b: a.dtype == b.dtype and a.is_contiguous() and b.is_contiguous(),
    arguments=lambda a, b, out: (a, b, out, a.shape[0], b.shape[1], a.shape[1]),
    grid=lambda out, M, N: (triton.cdiv(out.shape[0], M), triton.cdiv(out.shape[1], N)),
    constants={"M": 64, "N": 64, "K": 32},
    epilogue=("epilogue", "operands"),
)


def model(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    """Computes bias, GELU and the residual in the kernel's registers: one kernel."""
    return F.gelu(product(x, w) + bias) + x


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, w, bias = (torch.randn(shape, device=device, dtype=torch.bfloat16) for shape in ((200, 96), (96, 96), (96,)))
    with KERNEL:
        torch.testing.assert_close(torch.compile(model, backend="lamina")(x, w, bias), model(x, w, bias), rtol=0.05, atol=0.2)
        lamina.explain(model, (x, w, bias))
