"""Patterns of norms over the last dimension, without weight and bias, which fuse with the norm as ordinary ops."""

import torch
from torch import Tensor

from ..matching.rule import Rule


def layer_norm(x: Tensor, eps: float) -> Tensor:
    """LayerNorm without weight and bias."""
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt((d * d).mean(-1, keepdim=True) + eps)


def rms_norm(x: Tensor, eps: float) -> Tensor:
    """RMSNorm without weight."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)


# A LayerNorm is an RMSNorm of x - mean(x), so it is matched first. Its form is good already, so there is no replacement.
RULES = (Rule(layer_norm, None, "layer_norm"), Rule(rms_norm, rms_norm, "rms_norm"))
