"""Tunes which matrix products and attention calls of a module become Lamina's kernels: asks tuning and writes the answers as
`graph.choice`, for lamina-select-kernels and lamina-select-attention."""

import threading
from collections.abc import Callable, Iterator, Sequence

import torch
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.passes.families.attention.backward import Gradients
from lamina.passes.families.attention.forward import Attention
from lamina.passes.families.attention.mask_operands import Masks
from lamina.passes.families.gemm.library_epilogues import CUBLASLT, has_activation
from lamina.passes.families.gemm.prologues import feeding
from lamina.passes.families.grouped_products import Grouped
from lamina.passes.families.select import LIBRARY, kernels_of
from lamina.passes.families.surroundings import CHOICE, Problem, bundles, calls, reader
from lamina.passes.ir.reading import shape_of
from lamina.schedules import attention_backward_cost, attention_cost
from lamina.targets import Backend

from ..clocks import CudaClock
from ..decide import decide
from ..question import Answer, Identity, Question
from ..store.store import Store
from ..trial import Watch
from .gradient_inputs import forward_first
from .mask_inputs import hide_squares, squares_hidden
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
    """Writes `graph.choice` on the products and attention of a module at the graph level that Lamina's kernels can compute.

    index   of the GPU that measures, where options.tune allows it
    heard   is told every answer once
    asking  is told every question before it is answered, with its number, from 1, and how many there are
    watch   is told the progress in between
    again   also measures what the store knows
    """
    if not may_answer(index, options, store):
        return
    gpu = backend.target.gpu
    rounds = options.round_intermediates
    with module.context, ir.Location.unknown():
        found = [
            *_products(module, gpu, rounds),
            *_attention(module, gpu, rounds),
            *_gradients(module, gpu, rounds),
            *_grouped(module, rounds),
        ]
    asked = [(cut, question) for _, cut, question in found]
    answers = ask(asked, module.context, backend, index, options, store, heard, asking=asking, watch=watch, again=again)
    with module.context:
        for bundle, cut, _ in found:
            for op in bundle.ops:
                op.attributes[CHOICE] = ir.StringAttr.get(answers[cut.key].winner)


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


def _products(module: ir.Module, gpu: Gpu, rounds: bool) -> Iterator[tuple[Problem, Subgraph, Question]]:
    asked: dict[str, Question | None] = {}  # layers repeat
    for bundle in bundles(module):
        if CHOICE in bundle.ops[0].attributes:
            continue
        cut = Subgraph(bundle, before=feeding(bundle.ops), rounds=rounds)
        if cut.key not in asked:
            ours, default = kernels_of(bundle, gpu)
            libraries = (LIBRARY, CUBLASLT) if has_activation(bundle) else (LIBRARY,)
            first = sorted(ours, key=lambda name: name != default)
            asked[cut.key] = _question(cut, first, default or None, libraries) if ours else None
        question = asked[cut.key]
        if question is not None:
            yield bundle, cut, question


def _attention(module: ir.Module, gpu: Gpu, rounds: bool) -> Iterator[tuple[Problem, Subgraph, Question]]:
    masks = Masks()
    for op in calls(module):
        if CHOICE not in op.attributes and (attention := Attention.read(op, masks)) is not None:
            bundle, work = Problem((op,), None), attention.work
            kept = [v for v in (attention.result, attention.sums) if v is not None]
            ours = attention_cost.candidates(work, gpu)
            settle = {"settle": squares_hidden(op, attention)} if any(getattr(c, "blocks", 0) for c in ours) else {}
            cut = Subgraph(bundle, attention.what, before=attention.before, rounds=rounds, kept=kept, **settle)
            yield bundle, cut, _question(cut, ours, attention_cost.unmeasured(work, gpu))


def _gradients(module: ir.Module, gpu: Gpu, rounds: bool) -> Iterator[tuple[Problem, Subgraph, Question]]:
    masks = Masks()
    for op in calls(module):
        if CHOICE not in op.attributes and (gradients := Gradients.read(op, masks)) is not None:
            bundle, work = Problem((op,), None), gradients.work
            ours = attention_backward_cost.candidates(work, gpu)
            settle = forward_first(op, gradients, *([hide_squares] if any(c.blocks for c in ours) else []))
            cut = Subgraph(bundle, gradients.what, rounds=rounds, kept=gradients.read_results, settle=settle)
            yield bundle, cut, _question(cut, ours, attention_backward_cost.unmeasured(work, gpu))


def _grouped(module: ir.Module, rounds: bool) -> Iterator[tuple[Problem, Subgraph, Question]]:
    for op in calls(module):
        if CHOICE not in op.attributes and (grouped := Grouped.read(op)) is not None:
            bundle, number = Problem((op,), reader(op)), list(dict.fromkeys(op.operands)).index(grouped.ends)

            def settle(inputs: Sequence[torch.Tensor], number: int = number, rows: int = shape_of(grouped.x)[0]) -> None:
                ends = inputs[number]
                ends.copy_(torch.arange(1, len(ends) + 1, device=ends.device) * rows // len(ends))

            cut = Subgraph(bundle, rounds=rounds, settle=settle)
            yield bundle, cut, _question(cut, grouped.candidates, None)


def _question(
    cut: Subgraph, candidates: Sequence[object], unmeasured: object | None, libraries: tuple[str, ...] = (LIBRARY,)
) -> Question:
    """A question about libraries and Lamina's schedules: first the candidate that is used if nothing is measured, then the most
    promising."""
    ours = tuple(map(str, candidates))
    names = (*libraries, *ours) if unmeasured is None else (ours[0], *libraries, *ours[1:])
    return Question(cut.key, cut.what, names, LIBRARY)
