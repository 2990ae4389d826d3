"""Formats the results of `bench.py --suite hot`: goals, tables, and a line for each workload."""

from collections.abc import Sequence

from lamina.tools.benchmarks.hot_workloads import AUTOTUNED, COMPILED, Goal
from lamina.tools.benchmarks.tables.figures import Figures, Found, all_goals, by_kind
from lamina.tools.benchmarks.tables.figures_gpu import NONE, floor, largest_error, line, number, outcome, ratio

OURS = ("lamina", "lamina tuned", "lamina own")
TUNING_SECONDS, FILLED = 60.0, 1.1  # quick tuning at most; compile time with a filled store, as a multiple of untuned, at most
_RIVALS = ("eager", COMPILED, AUTOTUNED)
_MINE = {"lamina tuned": "", "lamina own": "own kernel "}
_CLOCKS = {"times": "", "wall": ", as a caller sees it"}


def goals(found: Found) -> list[tuple[str, bool]]:
    """Returns every goal and whether it was reached; a goal that was not measured counts as missed.

    Ratios are rounded to two digits: where the library's kernel is chosen, Lamina and eager run the same one and differ by noise.
    """
    return all_goals(found, lambda f: _tuning_goals(f) if f["kind"] == "tuning" else _goals(f))


def _goals(f: Found) -> list[tuple[str, bool]]:
    made = [_goal(f, Goal(**{**goal, "of": tuple(goal["of"])})) for goal in f["goals"]]
    if f["share"] is not None:
        share = _of_bandwidth(f)
        text = f"at least {f['share']:.0%} of copy bandwidth"
        made.append((f"{text} (is {share:.1%})", share >= f["share"]) if share is not None else (f"{text} (not measured)", False))
    return made


def _goal(f: Found, goal: Goal) -> tuple[str, bool]:
    times = f.get(goal.clock, {})
    mine, there = times.get(goal.mine), [name for name in goal.of if name in times]
    whom = f"the best of {', '.join(there)}" if len(goal.of) > 1 else goal.of[0]
    text = f"{_MINE[goal.mine]}at {'least' if goal.speed else 'most'} {goal.part:.2f} of {whom}{_CLOCKS[goal.clock]}"
    text += ", by speed" if goal.speed else ""
    if mine is None or not there:
        return f"{text} (not measured)", False
    theirs = min(times[name] for name in there)
    part = round(theirs / mine if goal.speed else mine / theirs, 2)
    return f"{text} (is {part:.2f})", part >= goal.part if goal.speed else part <= goal.part


def _tuning_goals(f: Found) -> list[tuple[str, bool]]:
    seconds = f["seconds"]
    filled = seconds["cached"] / seconds["off"]
    return [
        (f"at most {TUNING_SECONDS:.0f} s (is {seconds['quick']:.1f})", seconds["quick"] <= TUNING_SECONDS),
        (f"compiling with the store filled takes at most {FILLED} of untuned (is {filled:.2f})", filled <= FILLED),
    ]


def _of_bandwidth(f: Found) -> float | None:
    """Returns Lamina's bandwidth, for the bytes that must be moved, as a share of a copy's; None if Lamina did not run."""
    mine = f["times"].get("lamina tuned")
    return None if mine is None else f["work"]["bytes"] / f["roofs"]["bandwidth"] / mine


def row(name: str, f: Found) -> str:
    """Formats the results of one workload as one line."""
    if "failed" in f:
        return f"{name}: failed: {f['failed']}"
    if f["kind"] == "tuning":
        return f"{name}: " + ", ".join(f"{policy} {seconds:.2f} s" for policy, seconds in f["seconds"].items())
    parts = [f"{key} {value * 1e6:.1f} us" for key, value in f["times"].items()]
    parts += [f"{key} {value * 1e6:.1f} us a call" for key, value in f.get("wall", {}).items()]
    parts += [f"chosen {_chosen(f)}", f"error {largest_error(f, *OURS)} (eager {largest_error(f, 'eager')})"]
    parts += [text for text, met in _goals(f) if not met]
    return line(name, f, parts)


def tables(found: Found) -> list[Figures]:
    """Returns all tables. found: what the workers printed, by workload; {"failed": text} for a workload that failed."""
    kinds = by_kind(found)
    ops, tuned = kinds["op"], kinds["tuning"]
    made = [
        Figures("Hot ops, bf16, us on the device", _OP_COLUMNS, [_op(n, f) for n, f in ops.items()]),
        Figures("As a caller sees it, us a call", _WALL_COLUMNS, [_wall(n, f) for n, f in ops.items() if "wall" in f]),
        Figures("Tuning", _TUNING_COLUMNS, [_tuning(n, f) for n, f in tuned.items()]),
        Figures("Candidates", _CANDIDATE_COLUMNS, [each for n, f in {**ops, **tuned}.items() for each in _candidates(n, f)]),
        *outcome(found, goals(found)),
    ]
    return [table for table in made if table.rows]


_OP_COLUMNS = (
    *("op", "eager", "torch.compile", "max-autotune", "others", "Lamina, cost model", "Lamina, tuned", "own kernel", "floor"),
    *("of the best", "of torch.compile", "own of eager", "chosen", "error", "eager's"),
)
_WALL_COLUMNS = ("op", "eager", "torch.compile", "Lamina, cost model", "Lamina, tuned", "of torch.compile", "of eager")
_TUNING_COLUMNS = ("model", "ops", "quick tuning s", "untuned compile s", "with the store filled s", "of untuned")
_CANDIDATE_COLUMNS = ("workload", "op", "cost model's", "chosen", "us, as tuning measured", "dropped")


def _op(name: str, f: Found) -> list[str]:
    times = f["times"]
    others = {n: t for n, t in times.items() if n not in (*_RIVALS, *OURS)}
    listed = ", ".join(f"{n} {number(t, 1e6, 1)}" for n, t in others.items()) or NONE
    tuned, best = times.get("lamina tuned"), min((t for n, t in times.items() if n not in OURS), default=None)
    ratios = [ratio(tuned, best), ratio(tuned, times.get(COMPILED)), ratio(times.get("lamina own"), times.get("eager"))]
    mine = [number(times.get(n), 1e6, 1) for n in OURS]
    rivals = [number(times.get(n), 1e6, 1) for n in _RIVALS]
    errors = [largest_error(f, *OURS), largest_error(f, "eager")]
    return [name, *rivals, listed, *mine, number(floor(f), 1e6, 1), *ratios, _chosen(f), *errors]


def _wall(name: str, f: Found) -> list[str]:
    wall = f["wall"]
    times = [number(wall.get(n), 1e6, 1) for n in ("eager", COMPILED, "lamina", "lamina tuned")]
    return [name, *times, *(ratio(wall.get("lamina tuned"), wall.get(n)) for n in (COMPILED, "eager"))]


def _tuning(name: str, f: Found) -> list[str]:
    off, quick, filled = (f["seconds"][policy] for policy in ("off", "quick", "cached"))
    return [name, str(len(f["choices"])), f"{quick:.1f}", f"{off:.2f}", f"{filled:.2f}", ratio(filled, off)]


def _candidates(name: str, f: Found) -> list[Sequence[str]]:
    lines: list[Sequence[str]] = []
    for asked in f["choices"]:
        times = ", ".join(f"{candidate} {number(seconds, 1e6, 1)}" for candidate, seconds in asked["seconds"].items())
        dropped = ", ".join(f"{candidate}: {why}" for candidate, why in asked["dropped"].items())
        lines.append((name, asked["what"], asked["model"], asked["chosen"], times, dropped or NONE))
    return lines


def _chosen(f: Found) -> str:
    return ", ".join(asked["chosen"] for asked in f["choices"]) or NONE
