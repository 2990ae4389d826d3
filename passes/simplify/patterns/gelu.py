"""GELU patterns: x * Phi(x), as written out by hand, and its tanh approximation."""

import torch
from torch import Tensor

from ..matching.rule import Rule

ROOT_HALF = 0.7071067811865476
ROOT_TWO_OVER_PI = 0.7978845608028654


def erf(x: Tensor) -> Tensor:
    """Exact GELU, with erf."""
    return 0.5 * x * (1 + torch.erf(x * ROOT_HALF))


def tanh(x: Tensor) -> Tensor:
    """Tanh approximation of GELU, with x**3."""
    return 0.5 * x * (1 + torch.tanh(ROOT_TWO_OVER_PI * (x + 0.044715 * x**3)))


def tanh_factored(x: Tensor) -> Tensor:
    """Tanh approximation of GELU, with x factored out of the polynomial."""
    return 0.5 * x * (1 + torch.tanh(ROOT_TWO_OVER_PI * x * (1 + 0.044715 * x * x)))


def tanh_by_exp(x: Tensor) -> Tensor:
    """Replacement by 1 + tanh(u) = 2 / (1 + exp(-2u)): one exp, and no cancellation where tanh(u) is near -1."""
    return x / (1 + torch.exp(x * (-2 * ROOT_TWO_OVER_PI - 2 * ROOT_TWO_OVER_PI * 0.044715 * (x * x))))


RULES = (Rule(erf, erf, "gelu_erf"), Rule(tanh, tanh_by_exp, "gelu_tanh"), Rule(tanh_factored, tanh_by_exp, "gelu_tanh"))
