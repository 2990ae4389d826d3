"""SiLU (swish) patterns: x * sigmoid(x)."""

import torch
from torch import Tensor

from ..matching.rule import Rule


def product(x: Tensor) -> Tensor:
    """SiLU as a product with a reciprocal."""
    return x * (1 / (1 + torch.exp(-x)))


def by_tanh(x: Tensor) -> Tensor:
    """SiLU with sigmoid as a tanh."""
    return x * (0.5 * (1 + torch.tanh(0.5 * x)))


def by_tanh_distributed(x: Tensor) -> Tensor:
    """SiLU with sigmoid as a tanh, the factor 0.5 distributed."""
    return x * (0.5 + 0.5 * torch.tanh(0.5 * x))


def quotient(x: Tensor) -> Tensor:
    """Replacement: one division instead of a division and a product."""
    return x / (1 + torch.exp(-x))


RULES = (Rule(product, quotient, "silu"), Rule(by_tanh, quotient, "silu"), Rule(by_tanh_distributed, quotient, "silu"))
