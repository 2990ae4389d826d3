"""Helpers of the tests of `lamina.compile`."""

from collections.abc import Callable
from typing import Any

import torch
from entry_points import NO_CACHE
from torch import Tensor

import lamina


def x(*shape: int) -> Tensor:
    return torch.randn(*shape)


def ahead(model: Callable[..., Any], *args: Any) -> Any:
    return lamina.compile(model, args, options=NO_CACHE)


def gradients(model: Callable[..., Any], *args: Tensor) -> tuple[Tensor, ...]:
    args = tuple(a.detach().clone().requires_grad_() for a in args)
    model(*args).sin().sum().backward()
    return tuple(a.grad for a in args)
