"""Decomposes what surrounds library calls on GPUs: sizes and epilogues that cuBLAS and cuDNN are slow with."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

ALIGNED = 8  # half-precision numbers in 16 bytes, the unit in which tensor cores are fed
_SLOW, _FAST = 95e12, 700e12  # FLOP/s of cuBLAS's products with and without unaligned sizes, on an H200
_BANDWIDTH = 4e12  # bytes a second


def mm(a: Tensor, b: Tensor) -> Any:
    """Multiplies a: (m, k) by b: (k, n), padded with zeros where that pays.

    Rows in memory that do not begin at multiples of 16 bytes (a vocabulary of 50257 words) keep a product off the tensor cores'
    fast path.
    """
    wide = _filled_up(a, b)
    if wide is None:
        return NotImplemented
    return _first(aten.mm.default(*wide), a.shape[0], b.shape[1])


def addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
    """Computes beta * bias + alpha * a @ b, padded as in `mm`."""
    wide = _filled_up(a, b)
    if wide is None:
        return NotImplemented
    (m, n), (rows, columns) = (a.shape[0], b.shape[1]), (wide[0].shape[0], wide[1].shape[1])
    if bias.dim() and bias.shape[-1] == n:
        bias = aten.constant_pad_nd.default(bias, [0, columns - n])
    if bias.dim() == 2 and bias.shape[0] == m > 1:
        bias = aten.constant_pad_nd.default(bias, [0, 0, 0, rows - m])
    return _first(aten.addmm.default(bias, *wide, beta=beta, alpha=alpha), m, n)


def _first(product: Tensor, m: int, n: int) -> Tensor:
    """Cuts a padded product to m rows and n columns, without gaps as in eager.

    Kernels that read the result read the product itself.
    """
    if product.shape[0] > m:
        product = aten.slice.Tensor(product, 0, 0, m)
    return aten.clone.default(aten.slice.Tensor(product, 1, 0, n), memory_format=torch.contiguous_format)


def _filled_up(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor] | None:
    """Pads the operands so that rows in memory are multiples of ALIGNED long; None where they are, or where it does not pay."""
    if not on_gpu(a) or a.dtype not in (torch.float16, torch.bfloat16):
        return None
    (m, k), n = a.shape, b.shape[1]
    along_m, along_k = (x.stride(0) == 1 and x.stride(1) != 1 for x in (a, b))  # a lies in memory as rows along m, b along k
    rows = -m % ALIGNED if along_m else 0
    inner = -k % ALIGNED if along_k or not along_m else 0
    last = -n % ALIGNED
    if not (rows or inner or last):
        return None
    copied = ((n * k if inner or last else 0) + (m * k if rows or inner else 0) + (m * n if last else 0)) * a.itemsize
    if 2 * m * n * k * (1 / _SLOW - 1 / _FAST) < 2 * copied / _BANDWIDTH:
        return None
    return _padded(a, rows, inner, along_m), _padded(b, inner, last, along_k)


def _padded(x: Tensor, rows: int, columns: int, transposed: bool) -> Tensor:
    """Adds rows and columns of zeros to a matrix, in the order in which it lies in memory."""
    if not (rows or columns):
        return x
    if transposed:
        return aten.t.default(aten.constant_pad_nd.default(aten.t.default(x), [0, rows, 0, columns]))
    return aten.constant_pad_nd.default(x, [0, columns, 0, rows])


def on_gpu(x: Tensor) -> bool:
    """Returns whether a tensor is on a CUDA device."""
    return x.device.type == "cuda"


AROUND_LIBRARIES: dict[Any, Callable[..., Any]] = {
    aten.mm.default: mm,
    aten.addmm.default: addmm,
}
