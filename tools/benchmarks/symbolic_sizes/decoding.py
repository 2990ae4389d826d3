"""Times a Llama-like model as it decodes tokens, compiled once for all lengths, with a KV cache that grows or one of fixed
length."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lamina.tools.benchmarks.symbolic_sizes.comparison import Comparison, compiled
from lamina.tools.benchmarks.tables.figures import Figures
from lamina.tune.clocks import mean_seconds

WIDTH, HEADS, KV_HEADS, INNER = 2048, 32, 8, 8192
SIZE = WIDTH // HEADS  # elements of a head
TOKENS = 1000
SAMPLED = (50, 200, 400, 700, 1000)
"""Lengths at which the compilation for all lengths is compared with a static one."""

Cache = list[tuple[Tensor, Tensor]]


class DecoderLayer(nn.Module):
    """Grouped-query attention with rotary embeddings, and a gated MLP, each with an RMS norm before it and a residual connection.

    grows  whether keys and values are appended to the cache; else they overwrite it at the token's position
    """

    def __init__(self, grows: bool) -> None:
        super().__init__()
        self.grows = grows
        self.query, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(WIDTH, KV_HEADS * SIZE, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH) for _ in range(2)])

    def forward(
        self, x: Tensor, cache: tuple[Tensor, Tensor], at: Tensor, turn: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Takes tokens (batch, new, WIDTH), cached keys and values (batch, KV_HEADS, length, SIZE), positions (new,), and the
        cosines and sines of the rotations. Returns tokens and the new cache."""
        batch, new, _ = x.shape
        h = self.norms[0](x)
        query, key, value = (made(h).view(batch, new, -1, SIZE).transpose(1, 2) for made in (self.query, self.key, self.value))
        query, key = (_rotated(t, *turn) for t in (query, key))
        if self.grows:
            keys, values = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
            attended = F.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
        else:
            keys, values = (held.index_copy_(2, at, t) for held, t in zip(cache, (key, value), strict=True))
            seen = torch.arange(keys.shape[2], device=x.device) <= at[:, None]
            attended = F.scaled_dot_product_attention(query, keys, values, attn_mask=seen, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, new, WIDTH))
        h = self.norms[1](x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), (keys, values)


class Decoder(nn.Module):
    """Decoder layers, which share the cosines and sines of their rotary embeddings."""

    def __init__(self, layers: int, grows: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer(grows) for _ in range(layers)])

    def forward(self, x: Tensor, cache: Cache, at: Tensor) -> tuple[Tensor, Cache]:
        """Takes tokens (batch, new, WIDTH), a cache for each layer and positions (new,); returns tokens and caches."""
        pairs = torch.arange(0, SIZE, 2, device=x.device, dtype=torch.float32)
        angles = (at[:, None].float() * 10000.0 ** (-pairs / SIZE)).repeat(1, 2)
        turn = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        caches = []
        for layer, held in zip(self.layers, cache, strict=True):
            x, kept = layer(x, held, at, turn)
            caches.append(kept)
        return x, caches


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat((-high, low), -1) * sine


def decoding_table(device: str, layers: int, grows: bool) -> Figures:
    """Returns a table of the milliseconds per token at the SAMPLED lengths, and the seconds for TOKENS tokens, compilation
    included.

    grows  whether the cache grows with each token
    """
    table = Comparison(f"Decoding, {layers} layers, {'a growing' if grows else 'a fixed'} cache", "length", device)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = Decoder(layers, grows).eval().to(device, dtype)
    runs = {kind: compiled(model, kind) for kind in ("lamina", "inductor")}
    seconds = [mean_seconds(partial(_decode, run, _at(3, layers, device, dtype, grows), grows)) for run in runs.values()]
    for length in SAMPLED:
        inputs = _at(length, layers, device, dtype, grows)
        table.add(str(length), {**runs, "static": compiled(model, "static")}, inputs)
    table.seconds(f"seconds of {TOKENS} tokens", *seconds)
    return table.figures()


def _at(length: int, layers: int, device: str, dtype: torch.dtype, grows: bool) -> tuple[Tensor, Cache, Tensor]:
    """Makes the arguments of a call for token `length`, counted from 0."""
    held = length if grows else TOKENS + 1
    cache = [tuple(torch.randn(1, KV_HEADS, held, SIZE, device=device, dtype=dtype) for _ in range(2)) for _ in range(layers)]
    return torch.randn(1, 1, WIDTH, device=device, dtype=dtype), cache, torch.tensor([length], device=device)  # type: ignore[return-value]


def _decode(run: Callable[..., Any], inputs: tuple[Tensor, Cache, Tensor], grows: bool) -> None:
    """Decodes TOKENS tokens, starting with the given arguments."""
    x, cache, at = inputs
    for _ in range(TOKENS):
        x, cache = run(x, cache, at)
        at = at + 1 if grows else (at + 1) % TOKENS
    float(x.sum())
