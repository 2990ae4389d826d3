"""A transformer of GPT-2's shape: learned positions, pre-norm blocks with causal attention, weights tied with the head.

opt-driver examples/models/gpt2.py:gpt2 --emit=plan
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention


@dataclass(frozen=True)
class Config:
    """The published small model has vocabulary 50257, context 1024, width 768, 12 heads and 12 layers."""

    vocabulary: int = 8192
    context: int = 256
    width: int = 256
    heads: int = 4
    layers: int = 4


class Attention(nn.Module):
    """Causal attention with several heads."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (batch, length, width) to the same shape."""
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).unbind(2)
        q, k, v = (part.transpose(1, 2) for part in parts)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a perceptron, each after a LayerNorm and with a residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (batch, length, width) to the same shape."""
        x = x + self.attention(self.norm1(x))
        return x + self.down(gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """The whole model."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (batch, length, vocabulary) of tokens (batch, length)."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt2(length: int = 128, config: Config | None = None) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns the model and tokens (1, length)."""
    torch.manual_seed(0)
    config = config or Config()
    return Gpt2(config).eval(), (torch.randint(config.vocabulary, (1, length)),)
