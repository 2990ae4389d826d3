"""Tunes which calls of hot ops become Lamina's kernels: asks tuning and writes the answers as `graph.choice`, for
lamina-select-kernels."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypedDict, TypeVar, Unpack

import torch
from torch import Tensor
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.options import Options, Tune
from lamina.passes.families.choice import CHOICE, LIBRARY, Choice
from lamina.passes.families.problem import Problem
from lamina.passes.families.select import FAMILIES
from lamina.targets import Backend

from ..clocks import Clock, CudaClock
from ..decide import decide
from ..question import Answer, Identity, Question
from ..store.store import Store
from ..trial import Candidate, Watch
from .subgraph_extraction import BuiltCandidate, Subgraph, SubgraphPart, random_inputs

T = TypeVar("T")
Heard = Callable[[Question, Answer], None]
Asking = Callable[[Question, int, int], None]
Build = Callable[[str, list[Tensor]], Candidate]
"""Builds a candidate, by its name, on inputs."""
Asked = tuple[Question, Callable[[], list[Tensor]], Build]
"""A question, and what makes the inputs of its candidates and these."""


def ignored(*_: object) -> None:
    """Does nothing: the default of callbacks."""


class Seen(TypedDict, total=False):
    """How tuning is observed.

    asking  is told every question before it is answered, with its number, from 1, and how many there are
    watch   is told the progress in between
    again   also measures what the store knows
    """

    asking: Asking
    watch: Watch
    again: bool


def annotate(
    module: ir.Module, backend: Backend, index: int, options: Options, store: Store, heard: Heard = ignored, **seen: Unpack[Seen]
) -> None:
    """Writes `graph.choice` on the hot ops of a module at the graph level that Lamina's kernels can compute.

    index  of the GPU that measures, where options.tune allows it
    heard  is told every answer once
    """
    winners = chosen(_questions, module, backend, index, options, store, heard, **seen)
    with module.context:
        for problem, winner in winners:
            for op in problem.ops:
                op.attributes[CHOICE] = ir.StringAttr.get(winner)


def chosen(
    questions: Callable[[ir.Module, Gpu, bool], Iterable[tuple[T, SubgraphPart, Question]]],
    module: ir.Module,
    backend: Backend,
    index: int,
    options: Options,
    store: Store,
    heard: Heard,
    **seen: Unpack[Seen],
) -> list[tuple[T, str]]:
    """Returns what `questions` finds in a module, with tuning's choice for each. The other arguments are those of `annotate`."""
    if not may_answer(index, options, store):
        return []
    with module.context, ir.Location.unknown():
        found = list(questions(module, backend.target.gpu, options.round_intermediates))
    context, device = module.context, torch.device("cuda", index)

    def asked(part: SubgraphPart, question: Question) -> Asked:
        def build(name: str, inputs: list[Tensor]) -> BuiltCandidate:
            return BuiltCandidate(part, name, backend, options, context, inputs)

        return question, lambda: random_inputs(part, device), build

    waiting = [asked(part, question) for _, part, question in found]
    known = answers(waiting, index, options.tune, store, heard, CudaClock(index), **seen)
    return [(what, known[question.key].winner) for what, _, question in found]


def may_answer(index: int, options: Options, store: Store) -> bool:
    """Returns whether tuning has more to say than the cost model."""
    return options.tune not in ("off", "cached") or (options.tune == "cached" and bool(store.state(Identity.of_gpu(index))))


def answers(
    asked: Sequence[Asked],
    index: int,
    policy: Tune,
    store: Store,
    heard: Heard,
    clock: Clock,
    *,
    asking: Asking = ignored,
    watch: Watch = ignored,
    again: bool = False,
) -> dict[str, Answer]:
    """Returns answers by key; each question is asked once."""
    identity, known = Identity.of_gpu(index), dict[str, Answer]()
    of = len({question.key for question, _, _ in asked})
    for question, inputs_of, build in asked:
        if question.key in known:
            continue
        asking(question, len(known) + 1, of)
        make = partial(_built, build, inputs_of, [], threading.Lock())
        known[question.key] = decide(question, identity, store, policy, make, clock=clock, again=again, watch=watch)
        heard(question, known[question.key])
    return known


def _built(build: Build, inputs_of: Callable[[], list[Tensor]], inputs: list[Tensor], one: threading.Lock, name: str) -> Candidate:
    """Builds a candidate, in a thread of a pool, on `inputs`, which the first one fills in."""
    with one:
        if not inputs:
            inputs += inputs_of()
    return build(name, inputs)


def _questions(module: ir.Module, gpu: Gpu, rounds: bool) -> Iterator[tuple[Problem, Subgraph, Question]]:
    """Yields the problems of all families without a choice that have candidates."""
    asked: dict[str, Question | None] = {}  # layers repeat
    for family in FAMILIES:
        for problem in family.problems(module):
            if CHOICE in problem.ops[0].attributes:
                continue
            part = Subgraph(problem, rounds=rounds)
            if part.key not in asked:
                candidates = problem.candidates(gpu)
                asked[part.key] = _question(part, candidates, problem.default(gpu)) if candidates else None
            question = asked[part.key]
            if question is not None:
                yield problem, part, question


def _question(part: Subgraph, candidates: Sequence[Choice], default: Choice) -> Question:
    """A question about the library and Lamina's kernels: first what is used if nothing is measured, then the most promising."""
    first = [] if default == LIBRARY else [default]
    names = [*first, LIBRARY, *(c for c in candidates if c != default)]
    return Question(part.key, part.what, tuple(map(str, names)), str(LIBRARY))
