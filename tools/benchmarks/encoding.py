"""Times BERT on random batches and lengths, compiled once for all of them."""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lamina.tools.benchmarks.symbolic import apart, timed

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
        result: Tensor = self.norms[1](x + self.down(F.gelu(self.up(x))))
        return result


class Bert(nn.Module):
    """Embeddings and layers of BERT-base."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(WORDS, WIDTH), nn.Embedding(LONGEST, WIDTH), nn.LayerNorm(WIDTH)
        self.layers = nn.Sequential(*[EncoderLayer() for _ in range(layers)])

    def forward(self, words: Tensor) -> Tensor:
        """Takes word numbers (batch, length); returns (batch, length, WIDTH)."""
        places = torch.arange(words.shape[1], device=words.device)
        result: Tensor = self.layers(self.norm(self.words(words) + self.places(places)))
        return result


def encoding(device: str, layers: int, count: int, rng: random.Random) -> tuple[list[str], list[list[str]]]:
    """Returns the table's header and rows: milliseconds of a call for each size, then geometric means and compilation."""
    model = Bert(layers).eval().to(device, torch.bfloat16 if device == "cuda" else torch.float32)
    batch, length = MOST[device]
    sizes = [(rng.randint(2, batch), rng.randint(2, length)) for _ in range(count)]
    dynamic = {name: torch.compile(apart(model), backend=name, dynamic=True) for name in ("lamina", "inductor")}
    first = [_seconds(lambda run=run: run(_words(sizes[0], device))) for run in dynamic.values()]  # type: ignore[misc]
    rows, ratios = [], []
    for size in sizes:
        words = _words(size, device)
        static = torch.compile(apart(model), backend="lamina", dynamic=False)
        runs = {"lamina": dynamic["lamina"], "static": static, "inductor": dynamic["inductor"]}
        times, failed = timed({name: _calling(run, words) for name, run in runs.items()}, device)
        if failed:
            raise SystemExit(f"{size}: {failed}")
        mine = times["lamina"]
        ratios.append((mine / times["static"], mine / times["inductor"]))
        rows.append([f"{size[0]} x {size[1]}", *(f"{times[name] * 1e3:.2f}" for name in runs), *(f"{r:.3f}" for r in ratios[-1])])
    means = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
    rows.append(["geometric mean", "", "", "", *(f"{mean:.3f}" for mean in means)])
    rows.append(["seconds of the first call", f"{first[0]:.1f}", "", f"{first[1]:.1f}", "", f"{first[0] / first[1]:.3f}"])
    return ["batch x length", "Lamina, ms", "static Lamina", "TorchInductor", "to static", "to TorchInductor"], rows


def _words(size: tuple[int, int], device: str) -> Tensor:
    return torch.randint(WORDS, size, device=device)


def _calling(run: Callable[..., Any], words: Tensor) -> Callable[[], Any]:
    return lambda: run(words)


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
