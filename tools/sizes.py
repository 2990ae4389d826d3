"""Measures one compilation for all sizes against static ones: `python tools/sizes.py --help`.

A BERT of random weights is compiled once with dynamic=True by Lamina and by TorchInductor, then called with random batches and
lengths, beside a static Lamina compilation of each size. Prints a table; --store writes it to docs/figures-sizes-DEVICE.md.
"""

import argparse
import math
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from lamina.core.device import host
from lamina.tools.benchmarks.timing import interleaved

ROOT = Path(__file__).resolve().parents[1]
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


def main() -> int:
    """Parses the command line, measures, prints and stores."""
    parser = argparse.ArgumentParser(description="Measures symbolic sizes against static ones.")
    parser.add_argument("--device", choices=tuple(MOST), default="cpu")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--sizes", type=int, default=8, help="how many pairs of batch and length (default: 8)")
    parser.add_argument("--seed", type=int, help="of the sizes (default: a new one, printed)")
    parser.add_argument("--store", action="store_true", help="write docs/figures-sizes-DEVICE.md")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 16) if given.seed is None else given.seed
    warnings.filterwarnings("ignore")
    with torch.no_grad():
        header, rows = measured(given.device, given.layers, given.sizes, random.Random(seed))
    table = Table(*header, title=f"BERT, {given.layers} layers, {given.device}, seed {seed}")
    for row in rows:
        table.add_row(*row)
    Console(width=160).print(table)
    if given.store:
        machine = torch.cuda.get_device_name() if given.device == "cuda" else f"{host().processor}, {host().cores} cores"
        command = f"python tools/sizes.py --device {given.device} --layers {given.layers} --sizes {given.sizes} --seed {seed}"
        lines = ["# Symbolic sizes", "", f"{table.title}, {machine}, torch {torch.__version__}, by `{command}`.", ""]
        lines += [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]
        (ROOT / "docs" / f"figures-sizes-{given.device}.md").write_text("\n".join(lines) + "\n")
    return 0


def measured(device: str, layers: int, count: int, rng: random.Random) -> tuple[list[str], list[list[str]]]:
    """Returns the table's header and rows: milliseconds of a call for each size, then geometric means and compilation."""
    model = Bert(layers).eval().to(device, torch.bfloat16 if device == "cuda" else torch.float32)
    batch, length = MOST[device]
    sizes = [(rng.randint(2, batch), rng.randint(2, length)) for _ in range(count)]
    dynamic = {name: torch.compile(model, backend=name, dynamic=True) for name in ("lamina", "inductor")}
    first = [_seconds(lambda run=run: run(_words(sizes[0], device))) for run in dynamic.values()]  # type: ignore[misc]
    rows, ratios = [], []
    for size in sizes:
        words = _words(size, device)
        static = torch.compile(_apart(model), backend="lamina", dynamic=False)
        runs = {"lamina": dynamic["lamina"], "static": static, "inductor": dynamic["inductor"]}
        wait = torch.cuda.synchronize if device == "cuda" else lambda: None
        times, failed = interleaved({name: _calling(run, words) for name, run in runs.items()}, wait=wait)
        if failed:
            raise SystemExit(f"{size}: {failed}")
        mine = times["lamina"]
        ratios.append((mine / times["static"], mine / times["inductor"]))
        rows.append([f"{size[0]} x {size[1]}", *(f"{times[name] * 1e3:.2f}" for name in runs), *(f"{r:.3f}" for r in ratios[-1])])
    means = [math.exp(sum(map(math.log, column)) / count) for column in zip(*ratios, strict=True)]
    rows.append(["geometric mean", "", "", "", *(f"{mean:.3f}" for mean in means)])
    rows.append(["seconds of the first call", f"{first[0]:.1f}", "", f"{first[1]:.1f}", "", f"{first[0] / first[1]:.3f}"])
    return ["batch x length", "Lamina, ms", "static Lamina", "TorchInductor", "to static", "to TorchInductor"], rows


def _apart(model: nn.Module) -> Callable[[Tensor], Any]:
    """Returns a function that calls the model, with code of its own: Dynamo keeps few compilations of one."""

    def call(words: Tensor) -> Any:
        return model(words)

    call.__code__ = call.__code__.replace()
    return call


def _words(size: tuple[int, int], device: str) -> Tensor:
    return torch.randint(WORDS, size, device=device)


def _calling(run: Callable[..., Any], words: Tensor) -> Callable[[], Any]:
    return lambda: run(words)


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    raise SystemExit(main())
