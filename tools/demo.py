"""Compiles real models and reports their speed and errors: `make demo`, or `python tools/demo.py [--only NAME] [--out FOLDER]`.

Reports for every model: the time of a call in eager, through torch.compile and through Lamina; the time to compile with empty
caches, tracing included; kernels and external calls; the largest error against float64, relative to the largest result. Then writes
the IR of every level and the output of lamina.explain to a folder.
"""

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

import lamina
from lamina.frontend.entry.levels import write_levels
from lamina.report.explanation import Explanation
from lamina.report.plain import wide_console
from lamina.tools.benchmarks.tables.figures import Figures, numbers, show
from lamina.tools.benchmarks.timing import interleaved
from lamina.tools.benchmarks.worker import in_double, largest_difference
from lamina.tools.benchmarks.workloads import MODELS, Made, indices, transformer
from lamina.tools.driver.model import build
from lamina.tune.clocks import mean_seconds

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = {"MLP with LayerNorm": "mlp.py:mlp", "GPT-2 shape": "gpt2.py:gpt2", "ResNet-18": "resnet.py:resnet18"}
COLUMNS = (
    *("model", "eager", "torch.compile", "Lamina", "compile: torch", "Lamina", "kernels", "library calls", "fallbacks"),
    "error (eager's)",
)


def main() -> int:
    """Compiles and measures the chosen models, prints their table and writes their IR."""
    parser = argparse.ArgumentParser(description="Compiles the example models and shows what came of it.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "demo", help="folder for the IR (build/demo)")
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--no-torch-compile", action="store_true", help="leave torch.compile out, which takes most of the time")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")  # torch warns about its own code
    chosen = {name: make for name, make in models() if arguments.only.lower() in name.lower()}
    if not chosen:
        parser.error(f"no model is called {arguments.only!r}: {', '.join(name for name, _ in models())}")
    torch.set_grad_enabled(False)
    throwaway(not arguments.no_torch_compile)
    rows, folders = [], []
    for name, make in chosen.items():
        Console().print(f"compiling {name} ...", highlight=False)
        model, inputs = make()
        explanation = lamina.explain(model, inputs, show=False, measure=True)
        rows.append([name, *measure(model, inputs, explanation, with_inductor=not arguments.no_torch_compile)])
        folders.append(write(arguments.out / re.sub(r"[^a-z0-9]+", "-", name.lower()), model, inputs, explanation))
    show([Figures("time of a call in ms, compilation in s, error against float64", COLUMNS, rows)], wide_console())
    print("\nThe IR of every level, and what lamina.explain says, are in", *folders, sep="\n  ")
    return 0


def models() -> Iterator[tuple[str, Callable[[], Made]]]:
    """Yields names of models with functions that make them; those of transformers only if it is installed."""
    for name, place in EXAMPLES.items():
        file, _, factory = place.partition(":")
        yield name, partial(build, str(MODELS / file), factory)
    try:
        import transformers
    except ImportError:
        return
    transformers.logging.set_verbosity_error()
    makers = {
        "GPT-2": transformer(lambda t: t.GPT2LMHeadModel(t.GPT2Config(n_layer=4, use_cache=False)), indices(50257, 1, 128)),
        "BERT": transformer(lambda t: t.BertModel(t.BertConfig(num_hidden_layers=4)), indices(30522, 1, 128)),
    }
    for name, make in makers.items():
        yield f"transformers' {name}, 4 layers", partial(make, "cpu")  # random weights do not change the work


def throwaway(with_inductor: bool) -> None:
    """Runs both compilers once on a small function, so that one-time costs of the process are not the first model's."""
    lamina.compile(torch.sin, torch.ones(8), options=lamina.Options(cache=False))(torch.ones(8))
    if with_inductor:
        torch._inductor.config.force_disable_caches = True
        torch.compile(lambda x: torch.sin(x))(torch.ones(8))


def measure(model: nn.Module, inputs: tuple[Any, ...], found: Explanation, *, with_inductor: bool) -> list[str]:
    """Compiles and times a model in eager, through torch.compile and through Lamina; returns the cells of its row.

    found  its explanation
    """
    runs: dict[str, Callable[[], Any]] = {"eager": partial(model, *inputs)}
    compile: dict[str, float] = {}
    if with_inductor:
        torch._dynamo.reset()
        runs["torch.compile"] = partial(torch.compile(model), *inputs)
        compile["torch.compile"] = mean_seconds(runs["torch.compile"])

    def by_lamina() -> None:
        """Compiles the model by Lamina and calls it once."""
        runs["lamina"] = partial(lamina.compile(model, inputs, options=lamina.Options(cache=False)), *inputs)
        runs["lamina"]()

    compile["lamina"] = mean_seconds(by_lamina)
    exact = in_double(model, inputs)
    errors = {key: largest_difference(run(), exact) for key, run in runs.items()}
    times, _ = interleaved(runs)
    library = sum(e.reason == "library" for e in found.externals)
    counts = len(found.kernels), library, len(found.externals) - library
    cells = numbers(times, ("eager", "torch.compile", "lamina"), 1e3, 2) + numbers(compile, ("torch.compile", "lamina"), 1, 2)
    return [*cells, *map(str, counts), f"{errors['lamina']:.1e} ({errors['eager']:.1e})"]


def write(folder: Path, model: nn.Module, inputs: tuple[Any, ...], found: Explanation) -> Path:
    """Writes the IR of every level and the explanation to a folder, which it returns."""
    write_levels(model, inputs, folder)
    (folder / "explain.txt").write_text(f"{found}\n")
    (folder / "explain.json").write_text(found.to_json())
    return folder


if __name__ == "__main__":
    sys.exit(main())
