"""Formats the figures of `make bench` as tables."""

from lamina.tools.benchmarks.tables.figures import Figures, Judged, Results, by_kind, call_table, not_run, number, numbers, ratio

_RIVALS = ("torch.compile", "eager")
_TIMES = ("eager ms", "torch.compile ms", "Lamina ms", "of torch.compile", "of eager")
_COMPILE = ("workload", "cold: torch.compile", "Lamina", "ratio", "warm: torch.compile", "Lamina", "tracing")


def tables(results: Results, _goals: list[Judged]) -> list[Figures]:
    """Returns the tables of `results`."""
    kinds = by_kind(results)
    kernels, models = kinds["kernel"], kinds["model"]
    rows = [[n, *_times(f), f"{_bandwidth(f):.0%}" if "alone" in f else "", _error(f)] for n, f in kernels.items()]
    return [
        Figures("Kernels, f32", ("kernel", *_TIMES, "of copy bandwidth", "difference"), rows),
        Figures("Models, f32", ("model", *_TIMES, "difference"), [[n, *_times(f), _error(f)] for n, f in models.items()]),
        Figures("Seconds from AOT graph to first result", _COMPILE, [_compile(n, f) for n, f in {**kernels, **models}.items()]),
        call_table("A call on 64 elements", kinds["call"]),
        not_run(results),
    ]


def _times(f: Results) -> list[str]:
    times = f["times"]
    each = numbers(times, ("eager", "torch.compile", "lamina"), 1e3, 2)
    return [*each, *(ratio(times.get("lamina"), times.get(rival)) for rival in _RIVALS)]


def _bandwidth(f: Results) -> float:
    """Returns the kernels' bytes in and out per second, over those of a copy."""
    return float(f["work"]["bytes"] / f["roofs"]["bandwidth"] / f["alone"]["lamina"])


def _error(f: Results) -> str:
    return f"{f['errors']['lamina']:.0e}" if "lamina" in f["errors"] else ""


def _compile(name: str, f: Results) -> list[str]:
    both, cold = ("torch.compile", "lamina"), f["cold"]
    warm = numbers(f["warm"], both, 1, 3) if "warm" in f else ["", ""]
    part = ratio(cold["lamina"], cold["torch.compile"])
    return [name, *numbers(cold, both, 1, 2), part, *warm, number(f["tracing"]["lamina"], 1, 2)]
