"""Judges the cost models by measurements: how well they rank candidates, and how much slower their first is than the fastest."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lamina.schedules.rows import MODEL
from lamina.tools.benchmarks.tables.figures import markdown_table
from lamina.tune.choice import TunedChoice

from .findings import Finding

FINDING = 0.1
"""The regret above which an op is listed."""
_LEAST = 3  # candidates that a rank correlation needs to mean anything


@dataclass(frozen=True)
class Judged:
    """Compares a cost model's ranking of the candidates for one op with their times.

    seed         of the graph
    what         the op
    first        the candidate that is chosen without measuring
    fastest      the candidate that was measured to be the fastest
    regret       the first's time over the fastest's, minus one; infinite if the first does not work
    correlation  Spearman's rank correlation of ranking and times, 1 for the same order; NaN for fewer than three candidates
    seconds      of the fastest
    dropped      why the first does not work; "" if it does
    """

    seed: str
    what: str
    first: str
    fastest: str
    regret: float
    correlation: float
    seconds: float
    dropped: str = ""

    @property
    def kind(self) -> str:
        """The cost model that ranked the op: of attention, convolutions, rows or products."""
        if MODEL in (self.first, self.fastest) or self.first.startswith(f"{MODEL}{{"):
            return "rows"
        return next((kind for kind in ("attention", "convolution") if kind in self.what), "product")


def judged(findings: Sequence[Finding]) -> list[Judged]:
    """Returns one for each op of each graph with more than one measured candidate, the largest regret first.

    An op that occurs in several graphs counts once.
    """
    known: dict[str, Judged] = {}
    for f in findings:
        for choice in map(TunedChoice.from_json, f.choices or ()):
            if len(choice.seconds) > 1:
                known.setdefault(choice.what + " ".join(sorted(choice.order)), _judge(f.seed, choice))
    return sorted(known.values(), key=lambda one: -one.regret)


def _judge(seed: str, choice: TunedChoice) -> Judged:
    times = dict(choice.seconds)
    fastest = min(times, key=times.__getitem__)
    first = choice.order[0]
    regret = times.get(first, math.inf) / times[fastest] - 1
    dropped = dict(choice.dropped).get(first, "")
    return Judged(seed, choice.what, first, fastest, regret, _correlation(choice.order, times), times[fastest], dropped)


def _correlation(order: Sequence[str], times: Mapping[str, float]) -> float:
    measured = [times[name] for name in order if name in times]
    if len(measured) < _LEAST or len(set(measured)) < 2:
        return math.nan
    ranks = np.argsort(np.argsort(measured))
    return float(np.corrcoef(np.arange(len(measured)), ranks)[0, 1])


def regret_table(findings: Sequence[Finding], worst: int = 25) -> str:
    """Formats correlation and regret for each cost model, and the ops with a regret above 10%; "" if none were measured."""
    ops = judged(findings)
    if not ops:
        return ""
    kinds = dict.fromkeys(["all", *sorted({one.kind for one in ops})])
    models = [_row(kind, [one for one in ops if kind in ("all", one.kind)]) for kind in kinds]
    listed = []
    for one in ops[:worst]:
        if one.regret > FINDING:
            why = one.dropped and f" ({one.dropped})".replace("|", "\\|")
            names = f"`{one.first}`{why}", f"`{one.fastest}`"
            listed.append((one.seed, one.what, *names, f"{one.seconds * 1e6:.0f}", f"{one.regret:.0%}"))
    texts = ("op", "unmeasured", "fastest")
    columns = ("ops", "how many", "rank correlation", "mean regret", "above 10%", "worst")
    return f"{markdown_table(columns, models)}\n{markdown_table(('seed', *texts, 'us', 'regret'), listed, texts)}"


def _row(kind: str, ops: Sequence[Judged]) -> tuple[object, ...]:
    correlations = [one.correlation for one in ops if not math.isnan(one.correlation)]
    regrets = [one.regret for one in ops if math.isfinite(one.regret)]
    correlation = f"{statistics.fmean(correlations):.2f}" if correlations else ""
    mean = f"{math.exp(statistics.fmean(map(math.log1p, regrets))) - 1:.1%}" if regrets else ""
    above = sum(one.regret > FINDING for one in ops)
    return kind, len(ops), correlation, mean, above, f"{max(one.regret for one in ops):.0%}"
