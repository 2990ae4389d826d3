"""The part of a tuning answer that a compilation records."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lamina.schedules.rows import MODEL

from .question import Answer, Question


@dataclass(frozen=True)
class TunedChoice:
    """The choice for one hot op, and the measurements behind it.

    what     the op with its sizes
    chosen   the candidate
    seconds  median time of each candidate that was measured, fastest first
    dropped  reason, by candidate that failed or was wrong
    pinned   the user chose, whatever was measured
    order    the candidates, best first by the cost model: the first is used if nothing was measured
    """

    what: str
    chosen: str
    seconds: tuple[tuple[str, float], ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    pinned: bool = False
    order: tuple[str, ...] = ()

    @staticmethod
    def of(question: Question, answer: Answer) -> "TunedChoice":
        """Returns the choice that an answer makes."""
        times = tuple(sorted(answer.times, key=lambda pair: pair[1]))
        return TunedChoice(question.what, answer.winner, times, answer.dropped, answer.pinned, question.candidates)

    @property
    def of_rows(self) -> bool:
        """Whether the question was about the schedule of a row program alone, with no library call among the candidates."""
        return MODEL in {self.chosen, *dict(self.seconds), *dict(self.dropped)}

    def to_json(self) -> dict[str, Any]:
        """Returns a dict that `from_json` reads."""
        return asdict(self) | {"seconds": dict(self.seconds), "dropped": dict(self.dropped)}

    @staticmethod
    def from_json(d: Mapping[str, Any]) -> "TunedChoice":
        """Reads the data of `to_json`."""
        pairs = {name: tuple(d[name].items()) for name in ("seconds", "dropped")}
        return TunedChoice(**{**d, **pairs, "order": tuple(d["order"])})
