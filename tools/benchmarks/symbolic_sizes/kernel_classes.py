"""Small graphs, a kernel or a few each, for tensors of any size: what `tools/sizes.py kernels` measures."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from lamina.tools.benchmarks.symbolic_sizes.kernel_class import Arguments, KernelClass
from lamina.tools.benchmarks.symbolic_sizes.known_features import KNOWN_FEATURES

HEAD, HEADS = 64, 12
"""The elements of a head of attention, and how many there are."""


def _f32(m: int, n: int) -> Arguments:
    return (torch.randn(m, n),)


def _bf16(m: int, n: int) -> Arguments:
    return (torch.randn(m, n).bfloat16(),)


def _image(m: int, n: int) -> Arguments:
    side = max(int(n**0.5), 3)
    return (torch.randn(max(m // 32, 1), 32, side, side + 4),)


def _three(m: int, n: int) -> Arguments:
    return (torch.randn(max(m // 12, 1), 12, n),)


def _classified(m: int, n: int) -> Arguments:
    return torch.randn(m, n), torch.randint(n, (m,))


def _points(m: int, n: int) -> Arguments:
    return torch.randn(min(m, 4096), HEAD), torch.randn(min(n, 4096), HEAD)


def _rotated_arguments(m: int, n: int) -> Arguments:
    length = max(m * n // (2 * HEADS * HEAD), 2)
    return (torch.randn(2, HEADS, length, HEAD).bfloat16(), *(torch.randn(length, HEAD).bfloat16() for _ in range(2)))


def _attended(m: int, n: int) -> Arguments:
    length = min(max(m * n // (8 * HEADS * HEAD), 2), 2048)
    return tuple(torch.randn(4, HEADS, length, HEAD).bfloat16() for _ in range(3))


def _linear(dtype: torch.dtype) -> Callable[[int, int], Arguments]:
    return lambda m, n: (torch.randn(min(m, 16384), 768).to(dtype), torch.randn(768, 768).to(dtype), torch.randn(768).to(dtype))


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def _glu(gate: Callable[[Tensor], Tensor]) -> KernelClass:
    def gated(x: Tensor) -> Tensor:
        """Multiplies one half of each row by the gate of the other."""
        a, b = x.chunk(2, 1)
        return gate(a) * b

    return KernelClass(gated, lambda m, n: _bf16(m, 2 * n))


def _layer_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[1:])


def _batch_norm(x: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, training=True)


def _with_bias(m: int, n: int) -> Arguments:
    return (*_bf16(m, n), torch.randn(n).bfloat16())


ELEMENTWISE: Mapping[str, KernelClass] = {
    "add and ReLU, f32": KernelClass(lambda x: (x + 1).relu(), _f32),
    "bias and GELU, bf16": KernelClass(lambda x, b: F.gelu(x + b), _with_bias),
    "bias for each row, bf16": KernelClass(lambda x, b: x * b[:, None], lambda m, n: (*_bf16(m, n), torch.randn(m).bfloat16())),
    "GLU, bf16": _glu(torch.sigmoid),
    "SwiGLU, bf16": _glu(F.silu),
    "rotary embedding, bf16": KernelClass(_rotated, _rotated_arguments),
    "transpose, bf16": KernelClass(lambda x: (x.t() * 2).contiguous(), _bf16),
    "heads apart, bf16": KernelClass(
        lambda x: x.view(x.shape[0], x.shape[1], HEADS, HEAD).transpose(1, 2).contiguous() * 2,
        lambda m, n: (torch.randn(2, max(m * n // (2 * HEADS * HEAD), 2), HEADS * HEAD).bfloat16(),),
    ),
    "concatenation, bf16": KernelClass(lambda x: torch.cat((x, x[:, :8]), 1) * 2, _bf16),
    "padding, f32": KernelClass(lambda x: F.pad(x, (3, 5)).cos(), _f32),
    "embedding, bf16": KernelClass(lambda i, w: w[i] * 2, lambda m, n: (torch.randint(500, (m,)), *_bf16(500, n))),
    "max pooling, f32": KernelClass(lambda x: F.max_pool2d(x, 3, 2, 1), _image),
    "bilinear upsampling, f32": KernelClass(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), _image),
}

REDUCTIONS: Mapping[str, KernelClass] = {
    "softmax, f32": KernelClass(lambda x: x.softmax(1), _f32),
    "softmax, bf16": KernelClass(lambda x: x.softmax(1), _bf16),
    "layer norm, bf16": KernelClass(_layer_norm, _bf16),
    "RMS norm, bf16": KernelClass(lambda x: F.rms_norm(x, x.shape[1:]), _bf16),
    "norm of heads, bf16": KernelClass(
        lambda x: F.rms_norm(x, (HEAD,)), lambda m, n: (torch.randn(max(m * n // HEAD, 1), HEAD).bfloat16(),)
    ),
    "cross-entropy, f32": KernelClass(F.cross_entropy, _classified),
    "argmax of rows, f32": KernelClass(lambda x: x.argmax(1), _f32),
    "argmax along the middle": KernelClass(lambda x: x.argmax(1), _three),
    "logsumexp along the middle": KernelClass(lambda x: x.logsumexp(1), _three),
    "sum of columns, f32": KernelClass(lambda x: x.sum(0), _f32),
    "mean of columns, bf16": KernelClass(lambda x: x.mean(0), _bf16),
    "sum of all, f32": KernelClass(lambda x: x.sum(), _f32),
    "masked sum of rows, f32": KernelClass(lambda x: torch.where(x > 0, x, 0).sum(1), _f32),
    "deviation of rows, f32": KernelClass(lambda x: x.std(1), _f32),
    "group norm, f32": KernelClass(lambda x: F.group_norm(x, 8), _image),
    "instance norm, f32": KernelClass(lambda x: F.instance_norm(x), _image),
    "batch norm in training, f32": KernelClass(_batch_norm, _image),
    "deviation of an image, f32": KernelClass(lambda x: x.std((1, 2, 3)), _image),
    "global pooling, f32": KernelClass(lambda x: x.mean((2, 3)), _image),
    "running sums of rows, f32": KernelClass(lambda x: x.cumsum(1), _f32),
    "running sums of columns, f32": KernelClass(lambda x: x.cumsum(0), _f32),
    "distances by broadcasting, f32": KernelClass(lambda x, y: (x[:, None] - y[None]).pow(2).sum(-1), _points),
    "index_add, f32": KernelClass(
        lambda x, i, v: x.index_add(0, i, v), lambda m, n: (torch.zeros(300, n), torch.randint(300, (m,)), torch.randn(m, n))
    ),
    "topk, f32": KernelClass(lambda x: x.topk(5, 1), lambda m, n: _f32(m, max(n, 16))),
}

PRODUCTS: Mapping[str, KernelClass] = {
    "linear and GELU, bf16": KernelClass(lambda x, w, b: F.gelu(F.linear(x, w, b)), _linear(torch.bfloat16), 1),
    "linear and ReLU, f32": KernelClass(lambda x, w, b: F.linear(x, w, b).relu(), _linear(torch.float32), 1),
    "batched product and softmax, bf16": KernelClass(lambda q, k, v: (q @ k.mT / 8).softmax(-1), _attended),
    "causal attention, bf16": KernelClass(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), _attended),
    "convolution and ReLU, bf16": KernelClass(
        lambda x, w: F.conv2d(x, w, padding=1).relu(),
        lambda m, n: (_image(m, n)[0].bfloat16(), torch.randn(64, 32, 3, 3).bfloat16()),
        1,
    ),
}

TRAINING: Mapping[str, KernelClass] = {
    "layer norm, trained, bf16": KernelClass(_layer_norm, _bf16, trains=True),
    "softmax, trained, bf16": KernelClass(lambda x: x.softmax(1), _bf16, trains=True),
    "batch norm, trained, f32": KernelClass(_batch_norm, _image, trains=True),
    "bias and GELU, trained, bf16": KernelClass(lambda x, b: F.gelu(x + b), _with_bias, trains=True),
    "cross-entropy, trained, f32": KernelClass(F.cross_entropy, _classified, trains=True),
}

CLASSES: Mapping[str, KernelClass] = {**ELEMENTWISE, **REDUCTIONS, **PRODUCTS, **TRAINING, **KNOWN_FEATURES}
