"""Answers a tuning question: which candidate computes an op best. The answer comes from the store, or from measurements as far as
the policy allows them."""

from dataclasses import replace

from lamina.core.errors import CompileError
from lamina.core.options import Tune

from .clocks import Clock, DeviceLost
from .measure import choose
from .question import Answer, Identity, Question
from .store.store import Store
from .trial import Make, Trial, Watch

BUDGET_SECONDS = 1.0  # of timing, per question
_QUICK = 3  # candidates that "quick" measures at a time


def decide(
    question: Question,
    identity: Identity,
    store: Store,
    policy: Tune,
    make: Make,
    *,
    clock: Clock,
    again: bool = False,
    watch: Watch = lambda stage, share: None,
) -> Answer:
    """Returns which candidate to use; the answer's winner is always one of the question's candidates.

    Policies:

    "off"     the first candidate, whatever the store says
    "cached"  the store's choice; else the first candidate that was not dropped
    "quick"   the store's choice; else the best of the first three candidates that work, which is stored
    "full"    the best of all candidates, which is stored; they are measured unless the store has a result for each

    All policies except "off" follow a pin, a choice that the user made. A candidate that was dropped, because it failed, is not
    tried again.

    make    creates a candidate by its name, on a thread of its own
    again   measures even if the store has an answer
    watch   is called with the progress

    An interrupted call stores nothing, and leaves stored answers as they are. Raises CompileError if a candidate makes the device
    unusable, which is stored first, or if no candidate works.
    """
    if policy == "off":
        return Answer(question.candidates[0])
    known = store.get(question.key, identity) or Answer("")
    chosen = _chosen(question, known)
    followed = policy == "cached" or (known.pinned and chosen == known.pin)
    if followed or not (again or _is_open(question, known, chosen, policy)):
        return _using(question, known, chosen)
    if not clock.alive():
        raise CompileError("the device takes no more work from this process", remedy="start the program again")
    trial = Trial(make, lambda name: store.trying(question.key, identity, name), clock, watch, dict(known.dropped))
    try:
        _measure(question, trial, _QUICK if policy == "quick" else len(question.candidates))
    except DeviceLost as lost:
        trial.dropped[lost.candidate] = f"cost the device: {lost.reason}"
        store.put(question, identity, _without_dropped(question, known, trial))
        raise CompileError(
            f"candidate {lost.candidate!r} of {question.what} cost the device: {lost.reason}",
            remedy="start the program again: the candidate will not be tried any more",
        ) from lost
    winner = choose(question.candidates, trial.measured, incumbent=chosen)
    if not winner:
        reasons = "; ".join(f"{name}: {why}" for name, why in trial.dropped.items())
        raise CompileError(f"no candidate of {question.what} works: {reasons}", remedy="lamina tune clear forgets what was dropped")
    times = {name: s for name, s in {**dict(known.times), **trial.seconds}.items() if name in question.candidates}
    answer = _answer(winner, times, trial.dropped)
    store.put(question, identity, answer)
    return answer


def _is_open(question: Question, known: Answer, chosen: str, policy: Tune) -> bool:
    """Returns whether the policy needs measurements that the store does not have."""
    tried = {name for name, _ in (*known.times, *known.dropped)}
    return not chosen or (policy == "full" and not tried.issuperset(question.candidates))


def _measure(question: Question, trial: Trial, count: int) -> None:
    """Measures the candidates that were not dropped before, `count` at a time until one works."""
    names = [name for name in question.candidates if name not in trial.dropped]
    while names and not trial.seconds:
        batch, names = names[:count], names[count:]
        if question.reference in names:
            batch.append(question.reference)
            names.remove(question.reference)
        trial.attempt(batch, question.reference, BUDGET_SECONDS)


def _chosen(question: Question, known: Answer) -> str:
    """Returns the store's choice, the pin first; "" if there is none, or none that is still a candidate and was not dropped."""
    dropped = dict(known.dropped)
    return next((name for name in (known.pin, known.measured) if name in question.candidates and name not in dropped), "")


def _using(question: Question, known: Answer, chosen: str) -> Answer:
    """Returns the stored answer with `chosen` as its winner or, if nothing was chosen, the first candidate that was not dropped."""
    if chosen:
        return known if chosen == known.winner else replace(known, pin="")
    dropped = dict(known.dropped)
    first = next((name for name in question.candidates if name not in dropped), question.candidates[0])
    return replace(known, measured=first, pin="")


def _without_dropped(question: Question, known: Answer, trial: Trial) -> Answer:
    """Returns the stored answer without the candidates that `trial` dropped."""
    measured = known.measured if known.measured in question.candidates and known.measured not in trial.dropped else ""
    return _answer(measured, dict(known.times), trial.dropped)


def _answer(measured: str, times: dict[str, float], dropped: dict[str, str]) -> Answer:
    kept = {name: seconds for name, seconds in times.items() if name not in dropped}
    return Answer(measured, tuple(kept.items()), tuple(dropped.items()))
