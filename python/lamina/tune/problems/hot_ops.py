"""Tunes which calls of hot ops become Lamina's kernels: asks tuning and writes the answers as `graph.choice`, for
lamina-select-kernels."""

import threading
from collections.abc import Callable, Iterator, Sequence

import torch
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.passes.families.choice import CHOICE, LIBRARY, Choice
from lamina.passes.families.problem import Problem
from lamina.passes.families.select import FAMILIES
from lamina.targets import Backend

from ..clocks import CudaClock
from ..decide import decide
from ..question import Answer, Identity, Question
from ..store.store import Store
from ..trial import Watch
from .subgraph_extraction import BuiltCandidate, Subgraph, SubgraphPart, random_inputs

Heard = Callable[[Question, Answer], None]
Asking = Callable[[Question, int, int], None]


def annotate(
    module: ir.Module,
    backend: Backend,
    index: int,
    options: Options,
    store: Store,
    heard: Heard = lambda question, answer: None,
    *,
    asking: Asking = lambda question, number, of: None,
    watch: Watch = lambda stage, share: None,
    again: bool = False,
) -> None:
    """Writes `graph.choice` on the hot ops of a module at the graph level that Lamina's kernels can compute.

    index   of the GPU that measures, where options.tune allows it
    heard   is told every answer once
    asking  is told every question before it is answered, with its number, from 1, and how many there are
    watch   is told the progress in between
    again   also measures what the store knows
    """
    if not may_answer(index, options, store):
        return
    gpu = backend.target.gpu
    with module.context, ir.Location.unknown():
        found = list(_questions(module, gpu, options.round_intermediates))
    asked = [(part, question) for _, part, question in found]
    answers = ask(asked, module.context, backend, index, options, store, heard, asking=asking, watch=watch, again=again)
    with module.context:
        for problem, part, _ in found:
            for op in problem.ops:
                op.attributes[CHOICE] = ir.StringAttr.get(answers[part.key].winner)


def may_answer(index: int, options: Options, store: Store) -> bool:
    """Returns whether tuning has more to say than the cost model."""
    return options.tune not in ("off", "cached") or (options.tune == "cached" and bool(store.state(Identity.of_gpu(index))))


def ask(
    found: Sequence[tuple[SubgraphPart, Question]],
    context: ir.Context,
    backend: Backend,
    index: int,
    options: Options,
    store: Store,
    heard: Heard,
    *,
    asking: Asking,
    watch: Watch,
    again: bool,
) -> dict[str, Answer]:
    """Returns answers by key; each question is asked once. The other arguments are those of `annotate`."""
    identity, clock = Identity.of_gpu(index), CudaClock(index)
    known: dict[str, Answer] = {}
    of = len({question.key for _, question in found})
    for part, question in found:
        if question.key in known:
            continue
        asking(question, len(known) + 1, of)
        inputs: list[torch.Tensor] = []
        one = threading.Lock()  # candidates are made in threads of a pool

        def make(
            name: str, part: SubgraphPart = part, inputs: list[torch.Tensor] = inputs, one: threading.Lock = one
        ) -> BuiltCandidate:
            with one:
                if not inputs:
                    inputs += random_inputs(part, torch.device("cuda", index))
            return BuiltCandidate(part, name, backend, options, context, inputs)

        known[question.key] = decide(question, identity, store, options.tune, make, clock=clock, again=again, watch=watch)
        heard(question, known[question.key])
    return known


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
