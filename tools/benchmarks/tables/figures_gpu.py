"""Formats the figures of `bench.py --target nvvm`: goals, tables, and a line for each workload."""

from collections.abc import Mapping, Sequence

from lamina.tools.benchmarks.tables.figures import Figures, Found, Goal, all_goals, by_kind, call_table

COLD = 1 / 3
AHEAD_SECONDS, ABOVE_NULL_SECONDS = 10e-6, 5e-6
COMPILERS = ("torch.compile", "reduce-overhead")
RIVALS = {"kernel": COMPILERS, "model": ("eager", "torch.compile", "reduce-overhead")}
OURS = ("lamina", "lamina graphs")
NONE = "-"


def ours(f: Found) -> float | None:
    """Returns Lamina's seconds, with CUDA graphs if that is faster; None if it did not run."""
    return min((f["times"][name] for name in OURS if name in f["times"]), default=None)


def rival(f: Found, name: str = "best") -> float | None:
    """Returns the seconds of a contestant, or of the best rival for this kind of workload; None if it did not run."""
    names = RIVALS[f["kind"]] if name == "best" else (name,)
    return min((f["times"][n] for n in names if n in f["times"]), default=None)


def floor(f: Found) -> float:
    """Returns the hardware's least seconds.

    They are bytes over the copy's bandwidth or, if measured and more, operations over cuBLAS's rate.
    """
    roofs, work = f["roofs"], f["work"]
    matrix = work["flops"] / roofs["flops"] if "flops" in roofs else 0.0
    return float(max(work["bytes"] / roofs["bandwidth"], matrix))


def goals(found: Found) -> list[Goal]:
    """Returns every goal and whether it was reached; one without a figure is not."""
    return all_goals(found, lambda f: _call_goals(f["call"]) if f["kind"] == "call" else _goals(f))


def _call_goals(call: Mapping[str, float]) -> list[Goal]:
    above = call["lamina"] - call["null"]
    return [
        (f"lamina.compile: at most 10 us a call (is {call['lamina.compile'] * 1e6:.1f})", call["lamina.compile"] <= AHEAD_SECONDS),
        (f"torch.compile: at most 5 us above null (is {above * 1e6:.1f})", above <= ABOVE_NULL_SECONDS),
    ]


def _goals(f: Found) -> list[tuple[str, bool]]:
    mine = ours(f)
    if mine is None:
        return [("runs", False)]
    made = []
    for of, most in f["goals"].items():
        name = "the best of " + ", ".join(n for n in RIVALS[f["kind"]] if n in f["times"]) if of == "best" else of
        made.append(_at_most(f"{most} of {name}", mine, rival(f, of), most))
    if "XLA" in f["times"] or "XLA" in f["notes"]:
        made.append(
            _at_most("1.0 of XLA, both by how long the device is busy", f["times"].get("lamina busy"), f["times"].get("XLA"), 1.0)
        )
    if f["share"] is not None:
        share = floor(f) / mine
        made.append((f"at least {f['share']:.0%} of copy bandwidth (is {share:.1%})", share >= f["share"]))
    if f["kind"] == "model":
        made.append(_at_most("1/3 of torch.compile's cold compile", f["cold"]["lamina"], f["cold"].get("torch.compile"), COLD))
    return made


def _at_most(what: str, mine: float | None, theirs: float | None, most: float) -> tuple[str, bool]:
    if mine is None or theirs is None:
        return f"at most {what} (not measured)", False
    return f"at most {what} (is {mine / theirs:.2f})", mine <= most * theirs


def row(name: str, f: Found) -> str:
    """Formats the figures of one workload in a line."""
    if "failed" in f:
        return f"{name}: failed: {f['failed']}"
    if f["kind"] == "call":
        return f"{name}: " + ", ".join(f"{key} {value * 1e6:.1f} us" for key, value in f["call"].items())
    parts = [f"{key} {value * 1e6:.1f} us" for key, value in f["times"].items()]
    parts.append(f"floor {floor(f) * 1e6:.1f} us")
    if "made" in f:
        parts.append(f"made {_made(f)}")
    parts += [f"of {of} {ratio(ours(f), rival(f, of))}" for of in f["goals"]]
    parts.append(f"error {largest_error(f, *OURS)} (eager {largest_error(f, 'eager')})")
    return line(name, f, parts)


def line(name: str, f: Found, parts: Sequence[str]) -> str:
    """Joins what is to be said of a workload to one line, with the notes on contestants that did not run."""
    return f"{name}: {', '.join([*parts, *(f'{key}: {why}' for key, why in f['notes'].items())])}"


def tables(found: Found) -> list[Figures]:
    """Returns the tables of `found`: what the workers printed, by workload; {"failed": text} for one that failed."""
    kinds = by_kind(found)
    kernels, models = kinds["kernel"], kinds["model"]
    made = [
        Figures("Kernels", _KERNEL_COLUMNS, [_kernel(n, f) for n, f in kernels.items()]),
        Figures("Models, bf16", _MODEL_COLUMNS, [_model(n, f) for n, f in models.items()]),
        Figures("Cold compile to the first result", _COLD_COLUMNS, [_cold(n, f) for n, f in {**kernels, **models}.items()]),
        call_table("A call on 64x64", kinds["call"]),
        *outcome(found, goals(found)),
    ]
    return [table for table in made if table.rows]


_KERNEL_COLUMNS = (
    *("kernel", "eager us", "torch.compile us", "reduce-overhead us", "Lamina us", "floor us", "of floor", "of the best"),
    *("of torch.compile", "error", "eager's", "kernels + calls", "XLA busy us", "Lamina busy us", "of XLA"),
)
_MODEL_COLUMNS = (
    *("model", "eager ms", "torch.compile ms", "reduce-overhead ms", "Lamina ms", "with graphs ms", "floor ms", "of floor"),
    *("of the best", "of reduce-overhead", "error", "eager's", "kernels + calls"),
)
_COLD_COLUMNS = ("workload", "torch.compile s", "XLA s", "Lamina s", "of torch.compile")


def _kernel(name: str, f: Found) -> list[str]:
    times = [number(f["times"].get(n), 1e6, 1) for n in ("eager", *COMPILERS, "lamina")]
    busy = f["times"].get("lamina busy"), f["times"].get("XLA")
    against_xla = [number(busy[1], 1e6, 1), number(busy[0], 1e6, 1), ratio(*busy)]
    return [name, *times, *_against(f, 1e6, 1, "torch.compile"), _made(f), *against_xla]


def _model(name: str, f: Found) -> list[str]:
    times = [number(f["times"].get(n), 1e3, 3) for n in ("eager", "torch.compile", "reduce-overhead", *OURS)]
    return [name, *times, *_against(f, 1e3, 3, "reduce-overhead"), _made(f)]


def _against(f: Found, scale: float, digits: int, of: str) -> list[str]:
    """Returns cells: the floor, its share of Lamina's time, ratios to the best rival and to one other, errors."""
    mine, least = ours(f), floor(f)
    share = f"{least / mine:.0%}" if mine else NONE
    ratios = [ratio(mine, rival(f)), ratio(mine, rival(f, of))]
    return [number(least, scale, digits), share, *ratios, largest_error(f, *OURS), largest_error(f, "eager")]


def _cold(name: str, f: Found) -> list[str]:
    cold = f["cold"]
    times = [number(cold.get(n), 1.0, 2) for n in ("torch.compile", "XLA", "lamina")]
    return [name, *times, ratio(cold.get("lamina"), cold.get("torch.compile"))]


def outcome(found: Found, goals: Sequence[Goal]) -> tuple[Figures, Figures]:
    """Returns the tables of what did not run, with the reasons, and of the goals."""
    rows = [(name, "all", f["failed"]) for name, f in found.items() if "failed" in f]
    rows += [(name, key, why) for name, f in found.items() for key, why in f.get("notes", {}).items()]
    rows += [(name, "explain", f["made"]["failed"]) for name, f in found.items() if "failed" in f.get("made", {})]
    reached = [(text, "reached" if met else "missed") for text, met in goals]
    return Figures("What did not run", ("workload", "contestant", "why"), rows), Figures("Goals", ("goal", ""), reached)


def _made(f: Found) -> str:
    made = f.get("made", {})
    if "kernels" not in made:
        return NONE
    fallbacks = f" + {made['fallbacks']} fallbacks ({', '.join(made['fallback_ops'])})" if made["fallbacks"] else ""
    return f"{made['kernels']} + {made['calls']}{fallbacks}"


def largest_error(f: Found, *names: str) -> str:
    """Returns the largest error of these contestants as text; NONE if none ran."""
    errors = [f["errors"][name] for name in names if name in f["errors"]]
    return f"{max(errors):.1e}" if errors else NONE


def number(seconds: float | None, scale: float, digits: int) -> str:
    """Formats seconds, multiplied by `scale`; NONE if there are none."""
    return NONE if seconds is None else f"{seconds * scale:.{digits}f}"


def ratio(mine: float | None, theirs: float | None) -> str:
    """Formats the ratio of two times; NONE if one is missing."""
    return NONE if mine is None or theirs is None else f"{mine / theirs:.2f}"
