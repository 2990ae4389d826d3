"""Plots the GPU figures as a roofline diagram: operations per second over operations per byte."""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lamina.tools.benchmarks.gpu_workloads import COMPILERS, LAMINA
from lamina.tools.benchmarks.tables.figures import fastest

COLORS = {"eager": "0.6", "torch.compile": "tab:blue", "XLA": "tab:green", "lamina": "tab:red"}
MARKS = {"kernel": "o", "model": "s"}

Point = tuple[str, str, str, float, float]


def points(results: Mapping[str, Any]) -> list[Point]:
    """Returns (workload, its kind, contestant, operations per byte, operations per second) of all that was measured.

    Leaves out workloads without operations. torch.compile and Lamina stand at the better of their modes.
    """
    made: list[Point] = []
    for name, f in results.items():
        work = f.get("work", {})
        if work.get("flops"):
            for contestant, seconds in best_modes(f).items():
                made.append((name, f["kind"], contestant, work["flops"] / work["bytes"], work["flops"] / seconds))
    return made


def best_modes(f: Mapping[str, Any]) -> dict[str, float]:
    """Returns seconds by contestant, each in its fastest mode."""
    times = f["times"]
    modes = {"eager": fastest(times, ["eager"]), "torch.compile": fastest(times, COMPILERS), "XLA": f.get("busy", {}).get("XLA")}
    return {name: seconds for name, seconds in {**modes, "lamina": fastest(times, LAMINA)}.items() if seconds is not None}


def roofs(results: Mapping[str, Any]) -> tuple[float, float | None]:
    """Returns bytes and operations per second: the medians of what the processes measured; None if none measured operations."""
    measured = [f["roofs"] for f in results.values() if "roofs" in f]
    rates = [r["flops"] for r in measured if "flops" in r]
    return statistics.median(r["bandwidth"] for r in measured), statistics.median(rates) if rates else None


def draw(results: Mapping[str, Any], file: Path) -> str:
    """Writes the plot as PNG; returns a line with the path, or with the reason if there is no plot."""
    drawn = points(results)
    if not drawn:
        return "no picture: nothing to draw"
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return "no picture: matplotlib is not installed (pip install 'lamina[bench]')"
    figure = Figure(figsize=(13, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _roof(axes, results, drawn)
    numbers = {name: i for i, name in enumerate(dict.fromkeys(p[0] for p in drawn), 1)}
    for name, kind, contestant, intensity, rate in drawn:
        front = contestant == "lamina"
        axes.plot(intensity, rate, MARKS[kind], color=COLORS[contestant], markersize=8 if front else 6, zorder=3 if front else 2)
        if front:
            axes.annotate(str(numbers[name]), (intensity, rate), (-12, 6), textcoords="offset points", fontsize=9)
    for contestant, color in COLORS.items():
        axes.plot([], [], "o", color=color, label="Lamina" if contestant == "lamina" else contestant)
    axes.set(xscale="log", yscale="log", xlabel="operations a byte", ylabel="operations a second")
    axes.set_title("Circles: kernels, by the operations in them; squares: models, by their products, convolutions and attention")
    axes.grid(which="both", alpha=0.2)
    axes.legend(loc="lower right")
    listed = "\n".join(f"{number:2d}  {name}" for name, number in numbers.items())
    axes.text(1.01, 1.0, listed, transform=axes.transAxes, va="top", fontsize=9)
    figure.savefig(file, dpi=110)
    return f"written: {file}"


def _roof(axes: Any, results: Mapping[str, Any], drawn: list[Point]) -> None:
    bandwidth, rate = roofs(results)
    least, most = min(p[3] for p in drawn) / 2, max(p[3] for p in drawn) * 2
    ends = [least, *([rate / bandwidth] if rate and least < rate / bandwidth < most else []), most]
    axes.plot(ends, [min(bandwidth * x, rate or bandwidth * x) for x in ends], color="black", zorder=1)
    text = f"copy {bandwidth / 1e12:.2f} TB/s" + (f", cuBLAS bf16 {rate / 1e12:.0f} TFLOP/s" if rate else "")
    axes.text(0.01, 0.98, text, transform=axes.transAxes, va="top")
