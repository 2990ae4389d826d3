"""Tests decoding word by word, with one compilation each: a cache of keys and values that grows, and one that is written in
place."""

import copy

import pytest
import torch
from sized_graphs import compilations, dynamic
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.core.program import Program

__all__ = ["compilations"]
WIDTH, HEADS, SHARED, LONGEST = 64, 4, 2, 32
EACH = WIDTH // HEADS


class Layer(nn.Module):
    """A layer like Llama's: rotary positions, heads that share keys, SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.cached = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 2 * SHARED * EACH, bias=False)
        self.out, self.gate = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.first, self.second = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)

    def projected(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, words, _ = x.shape
        x = self.first(x)
        query = self.query(x).view(batch, words, HEADS, EACH).transpose(1, 2)
        key, value = self.cached(x).view(batch, words, 2, SHARED, EACH).permute(2, 0, 3, 1, 4).unbind(0)
        return rotated(query, at), rotated(key, at), value

    def rest(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        normed = self.second(x)
        result: Tensor = x + self.down(F.silu(self.gate(normed)) * self.up(normed))
        return result


class Growing(Layer):
    def forward(self, x: Tensor, keys: Tensor, values: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = self.projected(x, at)
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        return self.rest(x, F.scaled_dot_product_attention(query, keys, values, enable_gqa=True)), keys, values


class InPlace(Layer):
    def forward(self, x: Tensor, keys: Tensor, values: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = self.projected(x, at)
        keys.index_copy_(2, at, key)
        values.index_copy_(2, at, value)
        seen = torch.arange(keys.shape[2])[None, :] <= at[:, None]
        return self.rest(x, F.scaled_dot_product_attention(query, keys, values, seen, enable_gqa=True)), keys, values


def rotated(x: Tensor, at: Tensor) -> Tensor:
    angles = at[:, None].to(x.dtype) / 10000 ** (torch.arange(0, EACH, 2, dtype=x.dtype) / EACH)
    cos, sin = (torch.cat([part, part], -1) for part in (angles.cos(), angles.sin()))
    return x * cos + torch.cat([-x[..., EACH // 2 :], x[..., : EACH // 2]], -1) * sin


@torch.no_grad()
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [Growing, InPlace])
def test_one_compilation_serves_all_lengths(kind: type[Layer], compilations: list[Program]) -> None:
    model = kind().eval()
    exact, compiled = copy.deepcopy(model).double(), dynamic(model)
    length = 5 if kind is Growing else LONGEST
    caches = [torch.randn(2, SHARED, length, EACH) for _ in range(2)]
    states = {run: [c.to(dtype) for c in caches] for run, dtype in ((compiled, torch.float32), (exact, torch.float64))}
    for word in range(5, 20):
        x, at = torch.randn(2, 1, WIDTH), torch.tensor([word])
        results = []
        for run, dtype in ((compiled, torch.float32), (exact, torch.float64)):
            y, *states[run] = run(x.to(dtype), *states[run], at)
            results.append([y, *states[run]])
        for mine, want in zip(*results, strict=True):
            torch.testing.assert_close(mine.double(), want, rtol=1e-5, atol=1e-5)
    assert len(compilations) == 1
