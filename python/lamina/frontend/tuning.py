"""Tuning as compilations use it: what decides between implementations of hot ops, and what is told of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lamina.core.options import Options

if TYPE_CHECKING:
    from torch_mlir import ir

    from lamina.targets.base import Target


@dataclass(frozen=True)
class Choice:
    """How one hot op is computed.

    what     the op with its sizes
    chosen   the candidate
    seconds  median time of each candidate that was measured, the fastest first
    dropped  why, by candidate that failed or was wrong
    """

    what: str
    chosen: str
    seconds: tuple[tuple[str, float], ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "chosen": self.chosen, "seconds": dict(self.seconds), "dropped": dict(self.dropped)}

    @staticmethod
    def from_json(d: Mapping[str, Any]) -> "Choice":
        seconds = tuple((str(name), float(s)) for name, s in d["seconds"].items())
        return Choice(str(d["what"]), str(d["chosen"]), seconds, tuple((str(n), str(why)) for n, why in d["dropped"].items()))


def tuning_state(options: Options, gpu: int | None) -> str:
    """What of the store of tuning a program for this GPU depends on; "" where it depends on none."""
    if gpu is None or options.tune == "off":
        return ""
    from lamina.tune.question import Identity
    from lamina.tune.store import Store

    return Store().state(Identity.of_gpu(gpu))


def choose_products(module: "ir.Module", target: "Target", gpu: int | None, options: Options) -> tuple[Choice, ...]:
    """Puts what tuning says on a module at the graph level. gpu: its number; None where the program is not for one that is here."""
    if gpu is None or options.tune == "off":
        return ()
    from lamina.tune.products import annotate
    from lamina.tune.question import Answer, Question
    from lamina.tune.store import Store

    made: list[Choice] = []

    def heard(question: Question, answer: Answer) -> None:
        times = tuple(sorted(answer.times, key=lambda pair: pair[1]))
        made.append(Choice(question.what, answer.winner, times, answer.dropped))

    annotate(module, target, gpu, options, Store(), heard)
    return tuple(made)
