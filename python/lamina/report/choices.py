"""Reports how matrix products, attention and large row reductions are computed, and why: tuning's measurements, or the default and
how to tune."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.table import Table

from lamina.core.options import Tune
from lamina.core.program import Call, Launch, Program, Ref
from lamina.kernels.library import ATTENTION, PRODUCTS, VENDORS_ATTENTION
from lamina.runtime.resolve import arguments_of
from lamina.tune.choice import TunedChoice

from .amounts import counted, duration
from .plain import plain_table

RUNNERS_UP = 2  # shown for each op; all are in the data
_HOW = 'tune="quick" or `lamina tune FILE.py:FACTORY` measures them'


def table(choices: Iterable[TunedChoice]) -> Table:
    """Returns a table of each op with its candidates: the chosen one, the fastest others, and why some were dropped."""
    rows = [(choice.what if not i else "", *row) for choice in choices for i, row in enumerate(_rows(choice))]
    return plain_table(("hot op", "candidate", "time", ""), rows)


def _rows(choice: TunedChoice) -> Iterator[tuple[str, str, str]]:
    """Yields (candidate, time, note)."""
    times = dict(choice.seconds)
    notes = ["chosen", *(["pinned"] if choice.pinned else []), *([] if times else ["not measured"])]
    yield choice.chosen, duration(times[choice.chosen]) if choice.chosen in times else "", ", ".join(notes)
    others = [(name, seconds) for name, seconds in choice.seconds if name != choice.chosen]
    yield from ((name, duration(seconds), "") for name, seconds in others[:RUNNERS_UP])
    if left := others[RUNNERS_UP:]:
        yield f"{len(left)} more", f"to {duration(left[-1][1])}", ""
    by_reason: dict[str, list[str]] = {}
    for name, why in choice.dropped:
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more}", "", f"dropped: {why}"


def default(program: Program, tune: Tune) -> str:
    """Returns what became of a program's matrix products and, on a GPU, its attention ops, where tuning has no answer for them, and
    how to tune them; "" without any."""
    from lamina.passes.space.contraction import FACTORS  # imports MLIR

    attention = (*ATTENTION, *VENDORS_ATTENTION) if program.device == "cuda" else ()
    kinds = {"matrix product": PRODUCTS, "attention op": attention}
    calls = {kind: [s for s in program.steps if isinstance(s, Call) and s.callee in names] for kind, names in kinds.items()}
    ours = {kind: sum(isinstance(s, Launch) and _is_one(s, names) for s in program.steps) for kind, names in kinds.items()}
    known = [kind for kind in kinds if calls[kind] or ours[kind]]
    if not known:
        return ""
    head = ", ".join(f"{counted(len(calls[kind]) + ours[kind], kind)}, {len(calls[kind])} by the library" for kind in known)
    if dropping := sum(map(_drops, calls["attention op"])):
        head += f" ({dropping} with dropout, whose random numbers only that knows: both passes are its own)"
    if program.device == "cpu":
        return f"{head}: on a CPU there is no other choice; on NVIDIA GPUs tuning chooses for f16 and bf16"
    if not any(ours.values()) and not any(_dtypes(step) <= set(FACTORS) for steps in calls.values() for step in steps):
        return f"{head}: tuning chooses for f16 and bf16 alone"
    if tune in ("quick", "full"):
        return f"{head}: no kernel of Lamina computes these"
    why = "tune=off" if tune == "off" else "untuned"
    return f"{head}, by the cost model ({why}); {_HOW}"


def _is_one(step: Launch, names: Collection[str]) -> bool:
    """Whether a launch computes one of these ops. The second kernels of split attention and of its gradients do not count."""
    return not set(names).isdisjoint(step.ops) and step.name not in ("attention_join", "attention_backward_keys")


def _drops(step: Call) -> bool:
    """Returns whether an attention call has dropout."""
    given = arguments_of(step)
    return bool(given.get("dropout_p", given.get("dropout")))


def _dtypes(step: Call) -> set[str]:
    """The dtypes of the factors: the first two tensors of attention; the last two of a product, as its addend comes first."""
    refs: Sequence[Ref] = [arg for arg in step.args if isinstance(arg, Ref)]
    return {ref.dtype for ref in (refs[:2] if "attention" in step.callee else refs[-2:])}
