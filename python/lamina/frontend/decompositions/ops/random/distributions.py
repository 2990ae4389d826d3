"""Decomposes normal, exponential and other distributions, and random integers, into functions of random bits (see uniform).

As there, numbers differ from eager's and their statistics do not, and f64 and generators of their own stay calls of torch.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ....fx.ops.check_op import CHECK
from .uniform import DIGITS, draw_words, memory_order, permuted_back, rand_like

aten = torch.ops.aten

Size = Sequence[int]


def _open_uniform(size: Size, device: torch.device | None) -> Tensor:
    """Draws f32 above 0, the finer the nearer to 0, and at most 1."""
    return ((draw_words(size, device) & 2**31 - 1).float() + 0.5) * 2.0**-31


def _normal(size: Size, device: torch.device | None) -> Tensor:
    """Draws f32 of the standard normal distribution from two words each, after Box and Muller ("A note on the generation of random
    normal deviates", 1958), as far as 6.6 from 0."""
    radius = (-2 * _open_uniform(size, device).log()).sqrt()
    return radius * (draw_words(size, device).float() * (math.pi * 2.0**-31)).cos()


def _exponential(size: Size, device: torch.device | None) -> Tensor:
    """Draws f32 of the exponential distribution, none of them 0: its logarithm is finite, as eager's is."""
    return (-_open_uniform(size, device).log()).clamp_min(torch.finfo(torch.float32).eps / 2)


def _fits(dtype: torch.dtype | None, generator: Any) -> bool:
    return generator is None and (dtype or torch.get_default_dtype()) in DIGITS


def randn(size: Size, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Any:
    """Draws standard normal numbers."""
    return _normal(size, device).to(dtype or torch.get_default_dtype()) if _fits(dtype, None) else NotImplemented


def randn_like(
    x: Tensor, *, dtype: torch.dtype | None = None, device: Any = None, memory_format: torch.memory_format | None = None, **_: Any
) -> Any:
    """Draws standard normal numbers in the shape and memory order of x."""
    if not _fits(dtype or x.dtype, None):
        return NotImplemented
    order = memory_order(torch.empty_like(x, memory_format=memory_format or torch.preserve_format))
    return permuted_back(_normal([x.shape[d] for d in order], device or x.device).to(dtype or x.dtype), order)


def normal_of_size(
    mean: float, std: float, size: Size, *, generator: Any = None, dtype: torch.dtype | None = None, device: Any = None, **_: Any
) -> Any:
    """Draws normal numbers of one mean and one deviation."""
    if not _fits(dtype, generator) or std < 0:
        return NotImplemented
    return (_normal(size, device) * std + mean).to(dtype or torch.get_default_dtype())


def normal_of_tensors(mean: Any, std: Any = 1.0, *, generator: Any = None, **_: Any) -> Any:
    """Draws normal numbers with these means and deviations, one of which may be a number, and the other's dtype. Deviations below 0
    raise RuntimeError."""
    like = mean if isinstance(mean, Tensor) else std
    if not _fits(like.dtype, generator) or (not isinstance(std, Tensor) and std < 0):
        return NotImplemented
    size = torch.broadcast_shapes(*(t.shape for t in (mean, std) if isinstance(t, Tensor)))
    if isinstance(std, Tensor):
        std = torch.where(CHECK(std >= 0, "normal expects all elements of std >= 0.0"), std.float(), 0.0)
    return (_normal(size, like.device) * std + mean).to(like.dtype)


def _filled(draw: Callable[..., Tensor]) -> Callable[..., Any]:
    """Returns the decomposition of an op that fills a tensor with random numbers: `draw(size, device, *parameters)` in f32."""

    def fill(x: Tensor, *parameters: float, generator: Any = None) -> Any:
        """Draws numbers in the shape of x."""
        if not _fits(x.dtype, generator):
            return NotImplemented
        made = draw(list(x.shape), x.device, *parameters)
        return made if made is NotImplemented else made.to(x.dtype)

    return fill


def _scaled_normal(size: Size, device: Any, mean: float = 0.0, std: float = 1.0) -> Any:
    return _normal(size, device) * std + mean if std >= 0 else NotImplemented


def _log_normal(size: Size, device: Any, mean: float = 1.0, std: float = 2.0) -> Any:
    return (_normal(size, device) * std + mean).exp() if std > 0 else NotImplemented


def _scaled_exponential(size: Size, device: Any, rate: float = 1.0) -> Any:
    return _exponential(size, device) / rate if rate > 0 else NotImplemented


def uniform(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    """Draws uniform numbers between two bounds in the shape of x."""
    if not _fits(x.dtype, generator) or low > high:
        return NotImplemented
    return (rand_like(x, memory_format=torch.contiguous_format).float() * (high - low) + low).to(x.dtype)


def randint(low: Any, high: Any, size: Size, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Any:
    """Draws integers from `low` to below `high`; NotImplemented if there are more values than a word has."""
    if not all(isinstance(n, int) for n in (low, high)) or not 0 < high - low <= 2**24 or max(abs(low), abs(high)) >= 2**62:
        return NotImplemented
    words = draw_words(size, device).long() & 2**32 - 1
    return ((words * (high - low) >> 32) + low).to(torch.int64 if dtype is None else dtype)


def randint_like(x: Tensor, low: Any, high: Any, *, dtype: torch.dtype | None = None, device: Any = None, **rest: Any) -> Any:
    """Draws integers in the shape and memory order of x."""
    order = memory_order(torch.empty_like(x, memory_format=rest.get("memory_format") or torch.preserve_format))
    found = randint(low, high, [x.shape[d] for d in order], dtype=dtype or x.dtype, device=device or x.device)
    return found if found is NotImplemented else permuted_back(found, order)


DISTRIBUTIONS: dict[Any, Callable[..., Any]] = {
    aten.randn.default: randn,
    aten.randn_like.default: randn_like,
    aten.normal.float_float: normal_of_size,
    aten.normal.Tensor_float: normal_of_tensors,
    aten.normal.float_Tensor: normal_of_tensors,
    aten.normal.Tensor_Tensor: normal_of_tensors,
    aten.normal_functional.default: _filled(_scaled_normal),
    aten.log_normal.default: _filled(_log_normal),
    aten.exponential.default: _filled(_scaled_exponential),
    aten.uniform.default: uniform,
    aten.randint.default: lambda high, size, **kwargs: randint(0, high, size, **kwargs),
    aten.randint.low: randint,
    aten.randint_like.default: lambda x, high, **kwargs: randint_like(x, 0, high, **kwargs),
    aten.randint_like.low_dtype: randint_like,
}
