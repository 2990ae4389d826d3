"""Formats the figures of `bench.py --target nvvm` as tables."""

from lamina.tools.benchmarks.gpu_workloads import COMPILERS, LAMINA
from lamina.tools.benchmarks.tables.figures import (
    NONE,
    Figures,
    Judged,
    Results,
    by_kind,
    call_table,
    fastest,
    floor,
    goal_table,
    largest_error,
    launch_count,
    not_run,
    number,
    numbers,
    ratio,
)

_RIVALS = {"kernel": COMPILERS, "model": ("eager", *COMPILERS)}
_KERNEL_COLUMNS = (
    *("kernel", "eager us", "torch.compile us", "reduce-overhead us", "Lamina us", "floor us", "of floor", "of the best"),
    *("of torch.compile", "error", "eager's", "kernels + calls", "XLA busy us", "Lamina busy us", "of XLA"),
)
_MODEL_COLUMNS = (
    *("model", "eager ms", "torch.compile ms", "reduce-overhead ms", "Lamina ms", "with graphs ms", "floor ms", "of floor"),
    *("of the best", "of reduce-overhead", "error", "eager's", "kernels + calls"),
)
_COLD_COLUMNS = ("workload", "torch.compile s", "XLA s", "Lamina s", "of torch.compile")


def tables(results: Results, goals: list[Judged]) -> list[Figures]:
    """Returns the tables of `results`."""
    kinds = by_kind(results)
    kernels, models = kinds["kernel"], kinds["model"]
    return [
        Figures("Kernels", _KERNEL_COLUMNS, [_kernel(n, f) for n, f in kernels.items()]),
        Figures("Models, bf16", _MODEL_COLUMNS, [_model(n, f) for n, f in models.items()]),
        Figures("Cold compile to the first result", _COLD_COLUMNS, [_cold(n, f) for n, f in {**kernels, **models}.items()]),
        call_table("A call on 64x64", kinds["call"]),
        not_run(results),
        goal_table(goals),
    ]


def _kernel(name: str, f: Results) -> list[str]:
    times, busy = numbers(f["times"], ("eager", *COMPILERS, "lamina"), 1e6, 1), f.get("busy", {})
    against_xla = [*numbers(busy, ("XLA", "lamina"), 1e6, 1), ratio(busy.get("lamina"), busy.get("XLA"))]
    return [name, *times, *_against(f, 1e6, 1, "torch.compile"), launch_count(f), *against_xla]


def _model(name: str, f: Results) -> list[str]:
    times = numbers(f["times"], ("eager", *COMPILERS, *LAMINA), 1e3, 3)
    return [name, *times, *_against(f, 1e3, 3, "reduce-overhead"), launch_count(f)]


def _against(f: Results, scale: float, digits: int, compiler: str) -> list[str]:
    """Returns cells: the floor, its share of Lamina's time, ratios to the best rival and to one other, errors."""
    lamina, least = fastest(f["times"], LAMINA), floor(f)
    share = f"{least / lamina:.0%}" if lamina else NONE
    ratios = [ratio(lamina, fastest(f["times"], _RIVALS[f["kind"]])), ratio(lamina, f["times"].get(compiler))]
    return [number(least, scale, digits), share, *ratios, largest_error(f, *LAMINA), largest_error(f, "eager")]


def _cold(name: str, f: Results) -> list[str]:
    cold = f["cold"]
    return [name, *numbers(cold, ("torch.compile", "XLA", "lamina"), 1, 2), ratio(cold.get("lamina"), cold.get("torch.compile"))]
