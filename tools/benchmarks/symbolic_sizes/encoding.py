"""Times BERT on random batches and lengths, compiled once for all of them."""

import random
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lamina.tools.benchmarks.symbolic_sizes.comparison import Comparison, compiled
from lamina.tools.benchmarks.tables.figures import Figures
from lamina.tune.clocks import mean_seconds

WORDS, LONGEST, WIDTH, HEADS = 30522, 512, 768, 12
MOST = {"cpu": (8, 128), "cuda": (64, 512)}
"""The largest batch and length, by device."""


class EncoderLayer(nn.Module):
    """A layer of BERT: attention from one projection, then a GELU network, each with a residual and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.projection, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        """Takes and returns (batch, length, WIDTH)."""
        batch, length, _ = x.shape
        parts = self.projection(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*parts.unbind(0)).transpose(1, 2).reshape(batch, length, WIDTH)
        x = self.norms[0](x + self.out(attended))
        return self.norms[1](x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Embeddings and layers of BERT-base."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(WORDS, WIDTH), nn.Embedding(LONGEST, WIDTH), nn.LayerNorm(WIDTH)
        self.layers = nn.Sequential(*[EncoderLayer() for _ in range(layers)])

    def forward(self, words: Tensor) -> Tensor:
        """Takes word numbers (batch, length); returns (batch, length, WIDTH)."""
        places = torch.arange(words.shape[1], device=words.device)
        return self.layers(self.norm(self.words(words) + self.places(places)))


def encoding_table(device: str, layers: int, count: int, seed: int) -> Figures:
    """Returns the table of `count` sizes drawn from a seed: milliseconds of a call, and the seconds of the first one."""
    table = Comparison(f"BERT, {layers} layers, seed {seed}", "batch x length", device)
    model = Bert(layers).eval().to(device, torch.bfloat16 if device == "cuda" else torch.float32)
    rng, (batch, length) = random.Random(seed), MOST[device]
    sizes = [(rng.randint(2, batch), rng.randint(2, length)) for _ in range(count)]
    words = [torch.randint(WORDS, size, device=device) for size in sizes]
    runs = {kind: compiled(model, kind) for kind in ("lamina", "inductor")}
    first = [mean_seconds(partial(run, words[0])) for run in runs.values()]
    for size, given in zip(sizes, words, strict=True):
        table.add(f"{size[0]} x {size[1]}", {**runs, "static": compiled(model, "static")}, (given,))
    table.seconds("seconds of the first call", *first)
    return table.figures()
