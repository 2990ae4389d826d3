"""Which matrix products of a module are kernels of ours: asked of tuning, and answered as `graph.choice`, for lamina-choose."""

import threading
from collections.abc import Callable

import torch
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.passes.choose import LIBRARY
from lamina.passes.product_groups import CHOICE, bundles, work_of
from lamina.schedules.product_cost import Work, candidates, unmeasured
from lamina.targets import Target

from .clocks import CudaClock
from .cut import Built, Cut, random_inputs
from .decide import decide
from .question import Answer, Identity, Question
from .store import Store
from .trial import Watch

Heard = Callable[[Question, Answer], None]
Asking = Callable[[Question, int, int], None]


def annotate(
    module: ir.Module,
    target: Target,
    index: int,
    options: Options,
    store: Store,
    heard: Heard = lambda question, answer: None,
    *,
    asking: Asking = lambda question, number, of: None,
    watch: Watch = lambda stage, share: None,
    again: bool = False,
) -> None:
    """Puts `graph.choice` on the products of a module at the graph level that kernels of ours can compute.

    index   of the GPU that measures, where options.tune lets it
    heard   is told every answer once
    asking  is told every question before, with its number, from 1, and how many there are
    watch   is told what goes on between
    again   what the store knows is measured, too
    """
    identity = Identity.of_gpu(index)
    if options.tune == "off" or (options.tune == "cached" and not store.state(identity)):
        return
    clock = CudaClock(index)
    known: dict[str, Answer] = {}
    gpu = Gpu.named(target.name.partition(":")[2])
    read = [bundle for bundle in bundles(module) if CHOICE not in bundle.ops[0].attributes]
    cuts = [(bundle, work, Cut(bundle)) for bundle in read if (work := work_of(bundle)) is not None]
    of = len({cut.key for _, _, cut in cuts})
    for bundle, work, cut in cuts:
        if cut.key not in known:
            question = question_of(cut, work, gpu)
            asking(question, len(known) + 1, of)
            inputs: list[torch.Tensor] = []
            one = threading.Lock()  # candidates are made in threads of a pool

            def make(name: str, cut: Cut = cut, inputs: list[torch.Tensor] = inputs, one: threading.Lock = one) -> Built:
                with one:
                    if not inputs:
                        inputs += random_inputs(cut, torch.device("cuda", index))
                return Built(cut, name, target, options, module.context, inputs)

            known[cut.key] = decide(question, identity, store, options.tune, make, clock=clock, again=again, watch=watch)
            heard(question, known[cut.key])
        with module.context:
            for op in bundle.ops:
                op.attributes[CHOICE] = ir.StringAttr.get(known[cut.key].winner)


def question_of(cut: Cut, work: Work, gpu: Gpu) -> Question:
    """The library and our schedules for these sizes: first what is taken unmeasured, then the most promising."""
    ours = tuple(str(c) for c in candidates(work, gpu))
    names = (ours[0], LIBRARY, *ours[1:]) if unmeasured(work, gpu) else (LIBRARY, *ours)
    return Question(cut.key, cut.what, names, LIBRARY)
