"""Reports how hot ops are computed, and why: tuning's measurements, or the default and how to tune."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from lamina.core.options import Tune
from lamina.core.program import Call, Launch, Program, Ref
from lamina.tune.choice import TunedChoice

from .amounts import counted, duration
from .plain import plain_table

if TYPE_CHECKING:
    from lamina.passes.families.problem import Reported

RUNNERS_UP = 2  # shown for each op; all are in the data
_HOW = 'tune="quick" or `lamina tune FILE.py:FACTORY` measures them'


def table(choices: Iterable[TunedChoice]) -> Table:
    """Returns a table of each op with its candidates: the chosen one, the fastest others, and why some were dropped."""
    rows = [(choice.what if not i else "", *row) for choice in choices for i, row in enumerate(_rows(choice))]
    return plain_table(("hot op", "candidate", "time", ""), rows)


def _rows(tuned: TunedChoice) -> Iterator[tuple[str, str, str]]:
    """Yields (candidate, time, note)."""
    times = dict(tuned.seconds)
    notes = ["chosen", *(["pinned"] if tuned.pinned else []), *([] if times else ["not measured"])]
    yield tuned.chosen, duration(times[tuned.chosen]) if tuned.chosen in times else "", ", ".join(notes)
    others = [(name, seconds) for name, seconds in tuned.seconds if name != tuned.chosen]
    yield from ((name, duration(seconds), "") for name, seconds in others[:RUNNERS_UP])
    if left := others[RUNNERS_UP:]:
        yield f"{len(left)} more", f"to {duration(left[-1][1])}", ""
    by_reason: dict[str, list[str]] = {}
    for name, why in tuned.dropped:
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more}", "", f"dropped: {why}"


def untuned_note(program: Program, tune: Tune) -> str:
    """Returns a text about the hot ops of a program that tuning has no answer for, and how to tune them; "" if there are none."""
    from lamina.passes.families.select import FAMILIES
    from lamina.passes.space.contraction import FACTORS  # imports MLIR

    kinds = [family.reported for family in FAMILIES if family.reported is not None]
    calls = {kind.noun: [s for s in program.steps if isinstance(s, Call) and s.callee in kind.callees] for kind in kinds}
    launches = {kind.noun: sum(isinstance(s, Launch) and _is_one(s, kind) for s in program.steps) for kind in kinds}
    known = [kind for kind in kinds if calls[kind.noun] or launches[kind.noun]]
    if not known:
        return ""
    parts = []
    for kind in known:
        left = calls[kind.noun]
        text = f"{counted(len(left) + launches[kind.noun], kind.noun)}, {len(left)} by the library"
        stay = sum(map(kind.stays, left))
        parts.append(f"{text} ({stay} {kind.why})" if stay else text)
    head = ", ".join(parts)
    if program.device == "cpu":
        return f"{head}: on a CPU there is no other choice; on NVIDIA GPUs tuning chooses for f16 and bf16"
    if not any(launches.values()) and not any(_dtypes(call, kind) <= set(FACTORS) for kind in known for call in calls[kind.noun]):
        return f"{head}: tuning chooses for f16 and bf16 alone"
    if tune in ("quick", "full"):
        return f"{head}: no kernel of Lamina computes these"
    why = "tune=off" if tune == "off" else "untuned"
    return f"{head}, by the cost model ({why}); {_HOW}"


def _is_one(step: Launch, kind: "Reported") -> bool:
    """Returns whether a launch computes a call of this kind, by its only or first kernel."""
    return not set(kind.callees).isdisjoint(step.ops) and step.name not in kind.further_kernels


def _dtypes(call: Call, kind: "Reported") -> set[str]:
    """Returns the dtypes that a call is computed in."""
    refs: Sequence[Ref] = [arg for arg in call.args if isinstance(arg, Ref)]
    return {ref.dtype for ref in refs[kind.factors]}
