"""Decomposes random ops into functions of a seed, which kernels compute where they are used (passes/lower/philox.py).

A seed is drawn from torch's generator, one number for each op and call, so torch.manual_seed repeats a run. The numbers differ from
eager's, their statistics do not. Ops that draw f64 numbers or name a generator stay calls of torch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ....fx.random_bits import bits, draw_seed
from ...half import in_f32
from ...undecided import guess, surely

aten = torch.ops.aten

DIGITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}  # bits of a significand: 2**-bits is eager's step


def draw_words(shape: Sequence[int], device: torch.device | None) -> Tensor:
    """Draws i32 words of this shape from a seed of their own."""
    return bits(draw_seed(device), list(shape))


def _kept(x: Tensor, probability: float) -> Tensor:
    """Draws a mask in the shape and memory order of `x` that is true with this probability, in steps of 2**-32."""
    limit = round(probability * 2**32)
    if limit in (0, 2**32):
        return torch.full_like(x, bool(limit), dtype=torch.bool)
    order = memory_order(x)
    words = draw_words([x.shape[d] for d in order], x.device)
    mask = words < torch.full((), limit - 2**31, dtype=torch.int32, device=x.device)
    return permuted_back(mask, order)


def memory_order(x: Tensor) -> list[int]:
    """Returns the dimensions, the slowest in memory first; in their own order where elements share memory."""
    dims = range(x.dim())
    if any(surely(s == 0) for s in x.stride()):
        return list(dims)
    return sorted(dims, key=lambda d: guess(x.stride(d)), reverse=True)


def permuted_back(x: Tensor, order: Sequence[int]) -> Tensor:
    """Permutes a tensor whose dimension i is `order[i]` back to the original order."""
    return x if [*order] == sorted(order) else x.permute([order.index(d) for d in range(x.dim())])


@in_f32
def _scaled(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Computes x * scale where the mask holds, else x * 0, which keeps NaN as eager does."""
    number = torch.full((), scale, dtype=x.dtype, device=x.device)
    return x * torch.where(mask, number, torch.zeros_like(number))


def native_dropout(x: Tensor, p: float, train: bool | None) -> Any:
    """Returns the dropped-out tensor and its mask; a copy and a mask of ones in evaluation."""
    if train is not None and not train:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if not x.dtype.is_floating_point:
        return NotImplemented
    mask = _kept(x, 1 - p)
    return _scaled(x, mask, 1 / (1 - p) if p < 1 else 0.0), mask


def native_dropout_backward(grad: Tensor, mask: Tensor, scale: float) -> Any:
    """Scales the gradient by the mask."""
    return _scaled(grad, mask, scale) if grad.dtype.is_floating_point and mask.dtype is torch.bool else NotImplemented


def dropout(x: Tensor, p: float, train: bool) -> Tensor:
    """Drops elements; returns the argument itself where nothing is dropped, as in eager."""
    if not train or p == 0 or surely(x.numel() == 0):
        return x
    return aten.native_dropout.default(x, p, train)[0]


def rrelu(
    x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: torch.Generator | None = None
) -> Tensor:
    """Computes rrelu_with_noise_functional without returning the noise."""
    noise = torch.empty_like(x, memory_format=torch.contiguous_format)
    return aten.rrelu_with_noise_functional.default(x, noise, lower, upper, training, generator)[0]


def rrelu_with_noise_functional(
    x: Tensor,
    noise: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Any:
    """Computes x times the noise, which is uniform between the bounds where x is at most 0, and 1 elsewhere."""
    if not training:
        return aten.leaky_relu.default(x, (lower + upper) / 2), noise.clone()
    if generator is None and x.dtype in DIGITS:
        slope = (_uniform(list(x.shape), torch.float32, x.device) * (upper - lower) + lower).to(x.dtype)
        noise = torch.where(x <= 0, slope, torch.ones_like(slope))
        return x * noise, noise
    if x.is_contiguous():
        return NotImplemented
    return aten.rrelu_with_noise_functional.default(x.contiguous(), noise, lower, upper, training, generator)


def bernoulli(x: Tensor, *, generator: Any = None) -> Any:
    """Draws 1 with the probability that x holds, else 0."""
    if generator is not None or x.dtype not in DIGITS:
        return NotImplemented
    return (_uniform(list(x.shape), torch.float32, x.device) < x.float()).to(x.dtype)


def bernoulli_p(x: Tensor, p: float = 0.5, *, generator: Any = None) -> Any:
    """Draws 1 with probability p, else 0, in the shape of x."""
    if generator is not None:
        return NotImplemented
    return _kept(torch.empty_like(x, memory_format=torch.contiguous_format), p).to(x.dtype)


def rand(size: Sequence[int], *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Any:
    """Draws uniform numbers in [0, 1); NotImplemented for dtypes other than f32, f16 and bf16."""
    dtype = dtype or torch.get_default_dtype()
    return _uniform(size, dtype, device) if dtype in DIGITS else NotImplemented


def rand_like(
    x: Tensor, *, dtype: torch.dtype | None = None, device: Any = None, memory_format: torch.memory_format | None = None, **_: Any
) -> Any:
    """Draws uniform numbers in the shape and memory order of x."""
    order = memory_order(torch.empty_like(x, memory_format=memory_format or torch.preserve_format))
    made = rand([x.shape[d] for d in order], dtype=dtype or x.dtype, device=device or x.device)
    return made if made is NotImplemented else permuted_back(made, order)


def _uniform(size: Sequence[int], dtype: torch.dtype, device: torch.device | None) -> Tensor:
    """Draws multiples of 2**-bits in [0, 1), with as many bits as the dtype's significand."""
    digits = DIGITS[dtype]
    return ((draw_words(size, device) & (1 << digits) - 1).float() * 2.0**-digits).to(dtype)


RANDOM: dict[Any, Callable[..., Any]] = {
    aten.native_dropout.default: native_dropout,
    aten.native_dropout_backward.default: native_dropout_backward,
    aten.dropout.default: dropout,
    aten.rrelu.default: rrelu,
    aten.rrelu_with_noise_functional.default: rrelu_with_noise_functional,
    aten.bernoulli.default: bernoulli,
    aten.bernoulli.p: bernoulli_p,
    aten.rand.default: rand,
    aten.rand_like.default: rand_like,
}
