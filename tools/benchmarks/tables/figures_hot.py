"""Formats the figures of `bench.py --suite hot` as tables."""

from collections.abc import Sequence

from lamina.tools.benchmarks.hot_workloads import AUTOTUNED, COMPILED
from lamina.tools.benchmarks.tables.figures import (
    NONE,
    OURS,
    Figures,
    Judged,
    Results,
    by_kind,
    chosen,
    fastest,
    floor,
    goal_table,
    largest_error,
    not_run,
    number,
    numbers,
    ratio,
)

_MINE = ("lamina", "lamina tuned", "lamina own")
_RIVALS = ("eager", COMPILED, AUTOTUNED)
_OP_COLUMNS = (
    *("op", "eager", "torch.compile", "max-autotune", "others", "Lamina, cost model", "Lamina, tuned", "own kernel", "floor"),
    *("of the best", "of torch.compile", "own of eager", "chosen", "error", "eager's"),
)
_WALL_COLUMNS = ("op", "eager", "torch.compile", "Lamina, cost model", "Lamina, tuned", "of torch.compile", "of eager")
_TUNING_COLUMNS = ("model", "ops", "quick tuning s", "untuned compile s", "with the store filled s", "of untuned")
_CANDIDATE_COLUMNS = ("workload", "op", "cost model's", "chosen", "us, as tuning measured", "dropped")


def tables(results: Results, goals: list[Judged]) -> list[Figures]:
    """Returns the tables of `results`."""
    kinds = by_kind(results)
    ops, tuned = kinds["op"], kinds["tuning"]
    return [
        Figures("Hot ops, bf16, us on the device", _OP_COLUMNS, [_op(n, f) for n, f in ops.items()]),
        Figures("As a caller sees it, us a call", _WALL_COLUMNS, [_wall(n, f) for n, f in ops.items() if "wall" in f]),
        Figures("Tuning", _TUNING_COLUMNS, [_tuning(n, f) for n, f in tuned.items()]),
        Figures("Candidates", _CANDIDATE_COLUMNS, [each for n, f in {**ops, **tuned}.items() for each in _candidates(n, f)]),
        not_run(results),
        goal_table(goals),
    ]


def _op(name: str, f: Results) -> list[str]:
    times = f["times"]
    others = [f"{n} {number(t, 1e6, 1)}" for n, t in times.items() if n not in (*_RIVALS, *_MINE)]
    tuned, best = times.get("lamina tuned"), fastest(times, times.keys() - OURS)
    ratios = [ratio(tuned, best), ratio(tuned, times.get(COMPILED)), ratio(times.get("lamina own"), times.get("eager"))]
    cells = [*numbers(times, _RIVALS, 1e6, 1), ", ".join(others) or NONE, *numbers(times, _MINE, 1e6, 1)]
    errors = [largest_error(f, *_MINE), largest_error(f, "eager")]
    return [name, *cells, number(floor(f), 1e6, 1), *ratios, chosen(f), *errors]


def _wall(name: str, f: Results) -> list[str]:
    wall = f["wall"]
    times = numbers(wall, ("eager", COMPILED, "lamina", "lamina tuned"), 1e6, 1)
    return [name, *times, *(ratio(wall.get("lamina tuned"), wall.get(n)) for n in (COMPILED, "eager"))]


def _tuning(name: str, f: Results) -> list[str]:
    off, quick, filled = (f["times"][policy] for policy in ("off", "quick", "cached"))
    return [name, str(len(f["choices"])), f"{quick:.1f}", f"{off:.2f}", f"{filled:.2f}", ratio(filled, off)]


def _candidates(name: str, f: Results) -> list[Sequence[str]]:
    lines: list[Sequence[str]] = []
    for asked in f["choices"]:
        times = ", ".join(f"{candidate} {number(seconds, 1e6, 1)}" for candidate, seconds in asked["seconds"].items())
        dropped = ", ".join(f"{candidate}: {why}" for candidate, why in asked["dropped"].items())
        lines.append((name, asked["what"], asked["model"], asked["chosen"], times, dropped or NONE))
    return lines
