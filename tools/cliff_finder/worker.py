"""Measures graphs, one for each line of JSON on standard input, in one line of JSON each on standard output.

    {"seed": "7 12", "device": "cpu"}            draws the graph
    {"graph": {...}, "device": "cuda"}           measures a given one

A line of the answer has `graph` and either `failed` or `seconds`, `errors` and `compile_seconds` by contender. Contenders run the
same module on the same arguments, in turns. Others may compile at the same time; one alone measures, by a lock that all share.
A question with `"kernels": true` is answered with the GPU kernels of a call by contender, too; one with `"compile": true` with
`graph_seconds` alone: how long each compiler takes from AOTAutograd's graph to the first result; one with `"choices": true` with
`choices` alone: the times of all candidates for the graph's hot ops.
"""

import gc
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import lamina
from lamina.tools.benchmarks.serve import Say
from lamina.tools.benchmarks.timing import interleaved
from lamina.tools.benchmarks.worker import Watch, largest_difference, through_inductor, through_lamina
from lamina.tune.clocks import one_line

from .blocks import draw_block
from .choices import choices_of
from .grammar import draw
from .graph import DrawnGraph
from .turns import Turns

PEERS = {
    "eager": None,
    "torch.compile": {"backend": "inductor"},
    "reduce-overhead": {"backend": "inductor", "mode": "reduce-overhead"},
    "lamina": {"backend": "lamina", "options": {"cache": False}},
}
"""Maps a contender to the arguments of torch.compile; None for eager."""
AHEAD = "lamina.compile"
"""Names the contender that is compiled ahead of time, without Dynamo. It computes no gradients."""
SETTLED = 24  # calls after which CUDA graphs are recorded and judged
SETTLING = 4.0  # seconds after which these calls stop

Run = Callable[[], Any]


def answer(asked: dict[str, Any], say: Say) -> None:
    """Answers a question; `lock` names the file that all workers lock, `seconds` how long the calls of a graph are measured."""
    device, seed = asked["device"], asked["seed"]
    number = sum(map(ord, seed))
    with closing(Turns(Path(asked["lock"]))) as turns:
        with turns.compiling():
            if "graph" in asked:
                graph = DrawnGraph.from_json(asked["graph"])
            else:
                graph = (draw_block if asked["blocks"] else draw)(seed, device)
        found: dict[str, Any] = {"graph": graph.to_json(), "text": str(graph)}
        try:
            if "compile" in asked:
                found["graph_seconds"] = compile_times(graph, number, device)
            elif "choices" in asked:
                with turns.compiling():
                    found["choices"] = choices_of(graph, number, runner, turns)
            else:
                found |= measure(graph, number, device, turns, asked["seconds"], kernels="kernels" in asked)
        except Exception as error:
            found["failed"] = one_line(error)
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    say(found)


def measure(graph: DrawnGraph, number: int, device: str, turns: Turns, budget: float, *, kernels: bool = False) -> dict[str, Any]:
    """Compiles, checks and times every contender; with `kernels`, lists the GPU kernels of a call. `number` seeds the inputs.

    Raises what eager raises. Any other contender that fails is in `failures`, with the reason, and has no time.
    """
    torch._dynamo.reset()
    cuda = device == "cuda"
    exact = exact_results(graph, number, device)
    runs: dict[str, Run] = {}
    found: dict[str, Any] = {"errors": {}, "compile_seconds": {}, "failures": {}, "peak": {}}
    for name in [*PEERS, AHEAD]:
        if (name == "reduce-overhead" and not cuda) or (name == AHEAD and graph.mode == "gradients"):
            continue
        held = torch.cuda.memory_allocated() if cuda else 0
        model, arguments = graph.model(number, device), graph.arguments(number, device)
        try:
            with turns.compiling():
                start = time.perf_counter()
                run = runner(_compiled(name, model, arguments), model, arguments, graph.mode)
                found["errors"][name] = largest_difference(run(), exact)
                found["compile_seconds"][name] = time.perf_counter() - start
                if cuda:
                    torch.cuda.reset_peak_memory_stats()
                _settle(run)
                if cuda:
                    found["peak"][name] = torch.cuda.max_memory_allocated() - held
        except Exception as error:
            if name == "eager":
                raise
            found["failures"][name] = one_line(error)
        else:
            runs[name] = run
    del exact
    with turns.measuring():
        how: dict[str, Any] = {"rounds": 7, "batch": 4e-3, "most": 200, "wait": torch.cuda.synchronize} if cuda else {"rounds": 9}
        found["seconds"], failed = interleaved(runs, budget=budget, **how)
        found["failures"] |= failed
        if kernels and cuda:
            found["kernels"] = {name: kernels_of(run) for name, run in runs.items()}
    return found


def _settle(run: Run) -> None:
    end = time.perf_counter() + SETTLING
    for _ in range(SETTLED):
        run()
        if time.perf_counter() > end:
            break


def _compiled(name: str, model: nn.Module, arguments: tuple[Tensor, ...]) -> Callable[..., Any]:
    if name == AHEAD:
        with torch.no_grad():
            return lamina.compile(model, arguments, options=lamina.Options(cache=False))
    options = PEERS[name]
    return model if options is None else torch.compile(model, dynamic=False, **options)  # type: ignore[call-overload,no-any-return]


def runner(compiled: Callable[..., Any], model: nn.Module, arguments: tuple[Tensor, ...], mode: str) -> Run:
    """Returns a function without arguments that runs the forward pass, or with mode "gradients" the forward and backward pass.

    `model` holds the parameters of `compiled`.
    """
    if mode != "gradients":

        def forward() -> Any:
            """Runs the model without gradients."""
            with torch.no_grad():
                return compiled(*arguments)

        return forward
    leaves = [t.requires_grad_() for t in arguments if t.is_floating_point()]
    leaves += [p for p in model.parameters() if p.requires_grad]
    weights: list[Tensor] = []

    def both() -> Any:
        """Runs the model and its gradients."""
        result = compiled(*arguments)
        if not weights:
            generator = torch.Generator().manual_seed(0)
            weights.append(torch.randn(result.shape, generator=generator).to(result))
        return result, *torch.autograd.grad(result, leaves, weights[0], allow_unused=True)

    return both


def exact_results(graph: DrawnGraph, seed: int, device: str) -> Any:
    """Returns the results, and gradients if the mode asks for them, in float64; in float32 if an op has no float64."""
    try:
        return _results_in(torch.float64, graph, seed, device)
    except (RuntimeError, NotImplementedError):
        return _results_in(torch.float32, graph, seed, device)


def _results_in(dtype: torch.dtype, graph: DrawnGraph, seed: int, device: str) -> Any:
    model = graph.model(seed, device).to(dtype)
    arguments = tuple(t.to(dtype) if t.is_floating_point() else t for t in graph.arguments(seed, device))
    return pytree.tree_map_only(Tensor, lambda t: t.detach(), runner(model, model, arguments, graph.mode)())


def kernels_of(run: Run, calls: int = 5) -> list[tuple[str, float, float]]:
    """Lists the GPU kernels and copies of a call: name, count, microseconds in total; the longest first."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
    rows = [
        (event.key, event.count / calls, event.self_device_time_total / calls)
        for event in profile.key_averages()
        if event.self_device_time_total and not event.key.startswith("cuda")
    ]
    return sorted(rows, key=lambda row: -row[2])


def compile_times(graph: DrawnGraph, seed: int, device: str) -> dict[str, float]:
    """Returns seconds by compiler; for a graph with gradients, of the forward and the backward pass.

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
