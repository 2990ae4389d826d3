"""Times cold compiles by Lamina and torch.compile, from AOTAutograd's graphs to the first result."""

import time
from collections.abc import Callable
from typing import Any

import torch

import lamina
from lamina.tools.benchmarks.worker import Watch, through_inductor, through_lamina

from .graph import DrawnGraph


def compile_times(graph: DrawnGraph, seed: int, device: str, runner: Callable[..., Callable[[], Any]]) -> dict[str, float]:
    """Returns seconds by compiler; for a graph with gradients, of the forward and the backward pass. `runner`: worker.runner.

    Nothing is read from a cache on disk. What a compiler imports for its first graph is imported before.
    """
    found: dict[str, float] = {}
    options = lamina.Options(cache=False)
    backends = {"lamina": lambda watch: through_lamina(watch, options), "torch.compile": through_inductor}
    with torch._inductor.config.patch(force_disable_caches=True):  # type: ignore[attr-defined]
        for name, through in backends.items():
            torch._dynamo.reset()
            torch.compile(lambda x: torch.sin(x) + 1, backend=through(Watch()))(torch.ones(8, device=device))
            model, arguments = graph.model(seed, device), graph.arguments(seed, device)
            watch = Watch()
            run = runner(torch.compile(model, backend=through(watch), dynamic=False), model, arguments, graph.mode)
            run()
            start = time.perf_counter()
            if device == "cuda":
                torch.cuda.synchronize()
            found[name] = watch.compile + watch.first + time.perf_counter() - start
    return found
