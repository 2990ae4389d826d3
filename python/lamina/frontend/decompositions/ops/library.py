"""What surrounds the calls of libraries on GPUs: sizes and epilogues that cuBLAS and cuDNN are slow with."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...rewrites.convolutions import across, in_another_form, is_of_rows, of_rows

aten = torch.ops.aten

ALIGNED = 8  # half numbers of 16 bytes, which tensor cores are fed by
_SLOW, _FAST = 95e12, 700e12  # operations a second of cuBLAS's products with and without odd sizes, on an H200
_BANDWIDTH = 4e12  # bytes a second


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Any:
    """Torch adds the bias of a convolution in a kernel of its own; as an addition it is a part of what follows. On images of one
    pixel (squeeze and excitation) it is a product of matrices, which cuBLAS adds the bias to."""
    if not on_gpu(x):
        return NotImplemented
    if _of_pixels(x, weight, *rest):
        a, b = x.flatten(1), aten.t.default(weight.flatten(1))
        product = aten.mm.default(a, b) if bias is None else aten.addmm.default(bias, a, b)
        return product.view(*product.shape, 1, 1)
    if is_of_rows(x, weight, *rest):
        return of_rows(x, weight, bias, *rest)
    other = in_another_form(x, weight, bias, *rest)
    if other is not None:
        return other
    if bias is None:
        return NotImplemented
    out = aten.convolution.default(x, weight, None, *rest)
    return (out + bias.reshape(-1, *(1,) * (out.dim() - 2))).to(out.dtype)


def convolution_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias_sizes: list[int] | None, *rest: Any
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Take the gradient of the bias, which torch sums up in a kernel of its own, out of the call, and make gradients of 1-D
    convolutions those of images of one row. Returns NotImplemented where nothing is gained."""
    *how, mask = rest
    if not on_gpu(x) or 0 in (*x.shape, *weight.shape, *grad.shape):
        return NotImplemented
    rows = is_of_rows(x, weight, *how)
    if not mask[2] and not rows:
        return NotImplemented
    bias = grad.sum([0, *range(2, grad.dim())]) if mask[2] else None
    if not mask[0] and not mask[1]:
        return None, None, bias
    if rows:
        grad, x, weight = (t.contiguous().unsqueeze(2) for t in (grad, x, weight))
        how = across(*how)
    found = aten.convolution_backward.default(grad, x, weight, None, *how, [*mask[:2], False])
    to_x, to_weight = (g.squeeze(2) if rows and g is not None else g for g in found[:2])
    return to_x, to_weight, bias


def _of_pixels(
    x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int
) -> bool:
    """Whether a convolution has images and weights of one pixel."""
    plain = not any(padding) and not transposed and groups == 1 and x.dim() == 4
    return plain and x.numel() > 0 and tuple(x.shape[2:]) == tuple(weight.shape[2:]) == (1, 1)


def mm(a: Tensor, b: Tensor) -> Any:
    """a: (m, k), b: (k, n). Rows in memory that do not begin at multiples of 16 bytes (a vocabulary of 50257 words) keep a product
    from tensor cores' fast path: where it pays, it is done on rows filled up with zeros."""
    wide = _filled_up(a, b)
    if wide is None:
        return NotImplemented
    return _first(aten.mm.default(*wide), a.shape[0], b.shape[1])


def addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
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
    """Its first rows, and its first columns without gaps, as eager gives them; kernels that read it read the product."""
    if product.shape[0] > m:
        product = aten.slice.Tensor(product, 0, 0, m)
    return aten.clone.default(aten.slice.Tensor(product, 1, 0, n), memory_format=torch.contiguous_format)


def _filled_up(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor] | None:
    """The factors with sizes along rows in memory that are multiples of ALIGNED; None where they are, or where it does not pay."""
    if not on_gpu(a) or a.dtype not in (torch.float16, torch.bfloat16):
        return None
    (m, k), n = a.shape, b.shape[1]
    along_m, along_k = (x.stride(0) == 1 and x.stride(1) != 1 for x in (a, b))  # a's rows in memory are of m, b's of k
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
    """A matrix with so many more rows and columns of zeros, filled up as it lies in memory."""
    if not (rows or columns):
        return x
    if transposed:
        return aten.t.default(aten.constant_pad_nd.default(aten.t.default(x), [0, rows, 0, columns]))
    return aten.constant_pad_nd.default(x, [0, columns, 0, rows])


def on_gpu(x: Tensor) -> bool:
    return x.device.type == "cuda"


AROUND_LIBRARIES: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: convolution,
    aten.convolution_backward.default: convolution_backward,
    aten.mm.default: mm,
    aten.addmm.default: addmm,
}
