"""Measures one compilation for all sizes against static ones: `python tools/sizes.py --help`.

`encode`: a BERT of random weights, called with random batches and lengths. `decode`: tokens of a model shaped like Llama, with a
cache that grows and one of fixed length. `workloads`: those of the figures' tables. `kernels`: small graphs at random sizes, on a
GPU by the time of their kernels. Lamina and TorchInductor compile each once with dynamic=True; a static Lamina compilation of each
size is listed with them. Prints tables; --store writes them to docs/figures-sizes-DEVICE.md.
"""

import argparse
import random
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console

from lamina.core.device import host
from lamina.tools.benchmarks.gpu_workloads import GPU_WORKLOADS
from lamina.tools.benchmarks.hot_workloads import HOT_WORKLOADS
from lamina.tools.benchmarks.symbolic_sizes.comparison import workloads_table
from lamina.tools.benchmarks.symbolic_sizes.decoding import decoding_table
from lamina.tools.benchmarks.symbolic_sizes.encoding import MOST, encoding_table
from lamina.tools.benchmarks.symbolic_sizes.kernel_sizes import kernels_table
from lamina.tools.benchmarks.tables.figures import Figures, markdown_table, show
from lamina.tools.benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
MODES = ("encode", "decode", "workloads", "kernels")


def main() -> int:
    """Parses the command line, measures, prints and stores."""
    parser = argparse.ArgumentParser(description="Measures symbolic sizes against static ones.")
    parser.add_argument("what", nargs="*", choices=MODES, default=["encode"], help="what to measure (default: encode)")
    parser.add_argument("--device", choices=tuple(MOST), default="cpu")
    parser.add_argument("--layers", type=int, default=12, help="layers of the models (default: 12)")
    parser.add_argument("--sizes", type=int, default=8, help="how many pairs of sizes (default: 8)")
    parser.add_argument("--seed", type=int, help="seed of the drawn sizes (default: a new one, printed)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="workloads or kernels whose names contain this")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="CPU threads; with 1, the thread's CPU time is measured"
    )
    parser.add_argument("--store", action="store_true", help="write docs/figures-sizes-DEVICE.md")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 16) if args.seed is None else args.seed
    warnings.filterwarnings("ignore")
    torch.set_num_threads(args.threads)
    cores = f"{args.threads} of {host().cores} cores"
    machine = torch.cuda.get_device_name() if args.device == "cuda" else f"{host().processor}, {cores}"
    lines = ["# Symbolic sizes", "", f"{machine}, torch {torch.__version__}, by `python tools/sizes.py`."]
    with torch.no_grad():
        for table in tables(args, seed):
            show([table], Console(width=160))
            lines += ["", f"## {table.title}", "", markdown_table(table.columns, table.rows)]
    if args.store:
        (ROOT / "docs" / f"figures-sizes-{args.device}.md").write_text("\n".join(lines))
    return 0


def tables(args: argparse.Namespace, seed: int) -> Iterator[Figures]:
    """Yields the tables that were asked for."""
    device, layers = args.device, args.layers
    if "encode" in args.what:
        yield encoding_table(device, layers, args.sizes, seed)
    if "decode" in args.what:
        yield decoding_table(device, layers, grows=True)
        yield decoding_table(device, layers, grows=False)
    if "kernels" in args.what:
        yield kernels_table(device, args.sizes, seed, args.only or [""])
    if "workloads" in args.what:
        known = WORKLOADS if device == "cpu" else GPU_WORKLOADS | HOT_WORKLOADS
        only = args.only or [""]
        yield workloads_table(
            {n: w for n, w in known.items() if w.kind not in ("call", "tuning") and any(o in n for o in only)}, device
        )


if __name__ == "__main__":
    raise SystemExit(main())
