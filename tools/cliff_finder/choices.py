"""Measures every tuning candidate for the hot ops of a graph, to judge the cost models, which choose without measuring."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import fx

import lamina
from lamina.frontend.compiling import stages
from lamina.frontend.compiling.tuning import Session
from lamina.frontend.entry.dynamo import autograd
from lamina.tune.choice import TunedChoice
from lamina.tune.store.store import Store

from .graph import DrawnGraph
from .turns import Turns

_TIMING = "timing"  # the stage of lamina.tune.trial.Watch in which nothing else may use the GPU


def choices_of(graph: DrawnGraph, seed: int, runner: Callable[..., Callable[[], Any]], turns: Turns) -> list[dict[str, Any]]:
    """Returns the measurements for each hot op of a graph on the GPU, as JSON of lamina.tune.choice.TunedChoice.

    Returns [] for a graph without ops that are tuned. Compiled code is discarded: the graph runs op by op.

    runner  worker.runner
    turns   lock that is held shared while compiling, and alone while candidates are timed
    """
    found: list[TunedChoice] = []
    timing = False

    def watch(stage: str, share: float) -> None:
        """Takes the processor for itself while tuning measures."""
        nonlocal timing
        if stage == _TIMING and timing != (share < 1):
            timing = share < 1
            turns.switch(alone=timing)

    with tempfile.TemporaryDirectory(prefix="lamina-cliffs-") as folder:
        session = Session(Store(Path(folder) / "tuning.json"), watch=watch, answered=found.append)

        def compile(gm: fx.GraphModule, *, options: lamina.Options, **given: Any) -> Callable[..., Any]:
            """Compiles a graph for its choices, and runs it by eager."""
            stages.build(gm, options=options, session=session)

            def run(*arguments: Any) -> Any:  # AOTAutograd passes one list, a direct caller of the graph the tensors
                """Runs the graph by eager."""
                return gm(*(arguments[0] if isinstance(arguments[0], list) else arguments))

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        options = lamina.Options(cache=False, tune="full")
        backend = lambda gm, inputs: autograd(gm, inputs, options=options, compile=compile)  # noqa: E731
        torch._dynamo.reset()
        model, arguments = graph.model(seed, "cuda"), graph.arguments(seed, "cuda")
        runner(torch.compile(model, backend=backend, dynamic=False), model, arguments, graph.mode)()
    return [choice.to_json() for choice in found if choice.seconds]
