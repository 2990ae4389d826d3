"""Tunes a program: asks each question once, answered from the store or by measuring, and applies the answer to every problem."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypedDict, Unpack

import torch
from torch import Tensor

from lamina.core.errors import CompileError
from lamina.core.options import Options, Tune

from .clocks import Clock, CudaClock
from .decide import decide
from .question import Answer, Identity, Question
from .store.store import Store
from .trial import Candidate, Watch

Heard = Callable[[Question, Answer], None]
Asking = Callable[[Question, int, int], None]


class Tunable(Protocol):
    """Something with a choice open: an op of a module, a kernel function, a call of a user's kernel."""

    @property
    def question(self) -> Question:
        """The question that is asked about it."""
        ...

    def inputs(self, device: torch.device) -> list[Tensor]:
        """Returns inputs for all candidates."""
        ...

    def build(self, name: str, inputs: list[Tensor]) -> Candidate:
        """Returns the candidate of this name, on these inputs."""
        ...

    def take(self, name: str) -> None:
        """Takes the candidate of this name."""
        ...


class Seen(TypedDict, total=False):
    """Callbacks and options with which the user watches tuning.

    asking  is told every question before it is answered, with its number, from 1, and how many there are
    watch   is told the progress in between
    again   also measures what the store knows
    """

    asking: Asking
    watch: Watch
    again: bool


def ignore(*_: object) -> None:
    """Does nothing: the default of callbacks."""


def may_answer(index: int, options: Options, store: Store) -> bool:
    """Returns whether tuning has more to say than the cost model."""
    return options.tune not in ("off", "cached") or (options.tune == "cached" and bool(store.state(Identity.of_gpu(index))))


def tune(
    problems: Sequence[Tunable],
    index: int,
    policy: Tune,
    store: Store,
    heard: Heard = ignore,
    *,
    clock: Clock | None = None,
    **seen: Unpack[Seen],
) -> None:
    """Lets each problem take the answer to its question; equal questions are asked once.

    index  of the GPU that measures, where the policy allows it
    heard  is told every answer once

    Raises CompileError for an answer that is none of the candidates.
    """
    identity, known = Identity.of_gpu(index), dict[str, Answer]()
    asking, watch, again = seen.get("asking", ignore), seen.get("watch", ignore), seen.get("again", False)
    clock, device = clock or CudaClock(index), torch.device("cuda", index)
    count = len({one.question.key for one in problems})
    for one in problems:
        question = one.question
        if question.key not in known:
            asking(question, len(known) + 1, count)
            make = partial(_built, one, device, [], threading.Lock())
            answer = decide(question, identity, store, policy, make, clock=clock, again=again, watch=watch)
            if answer.winner not in question.candidates:
                some = ", ".join(question.candidates)
                raise CompileError(f"{answer.winner!r} is not a candidate of {question.what}", remedy=f"the candidates are {some}")
            known[question.key] = answer
            heard(question, answer)
        one.take(known[question.key].winner)


def _built(one: Tunable, device: torch.device, inputs: list[Tensor], only: threading.Lock, name: str) -> Candidate:
    """Builds a candidate, in a thread of a pool, on `inputs`, which the first one fills in."""
    with only:
        if not inputs:
            inputs += one.inputs(device)
    return one.build(name, inputs)
