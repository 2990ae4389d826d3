"""Norms over the last dimension, without the weight: what follows them fuses as it is."""

import torch
from torch import Tensor

from ..rewrite_patterns import Rule


def layer_norm(x: Tensor, eps: float) -> Tensor:
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt((d * d).mean(-1, keepdim=True) + eps)


def rms_norm(x: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)


# A LayerNorm is an RMSNorm of x - mean(x), so it has to be looked for first. It is written well already.
RULES = (Rule(layer_norm, None, "layer_norm"), Rule(rms_norm, rms_norm, "rms_norm"))
