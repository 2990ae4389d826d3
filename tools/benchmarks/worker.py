"""Measures a workload on the CPU, in a process of its own.

Both compilers work through torch.compile, so that tracing is the same for both. "From AOT graph to first result" is the time inside
the compiler (compile_part for Lamina, compile_fx_inner for Inductor) plus the first call of its result. The environment names the
caches (LAMINA_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR): empty ones give cold times, a second process gives warm ones.
"""

import math
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

import lamina
from lamina.frontend.compiling.stages import compile_part
from lamina.frontend.entry.dynamo import autograd
from lamina.report.roofline import copy_bandwidth
from lamina.tools.benchmarks.serve import Results, Say
from lamina.tools.benchmarks.timing import interleaved
from lamina.tools.benchmarks.workloads import WORKLOADS, Workload, chain
from lamina.tune.clocks import mean_seconds

Compiler = Callable[..., Callable[..., Any]]


@dataclass
class Watch:
    """Adds up the time of a compiler.

    compile  seconds in the compiler
    first    seconds in the first call of each function that it returned
    """

    compile: float = 0.0
    first: float = 0.0

    def timed(self, compiler: Compiler) -> Compiler:
        """Wraps a compiler so that its time, and that of the first calls of its results, is added up."""

        def compile(*graph: Any, **options: Any) -> Callable[..., Any]:
            """Compiles a graph and adds up the seconds."""
            start = time.perf_counter()
            run = compiler(*graph, **options)
            self.compile += time.perf_counter() - start
            return self._timed_once(run)

        return compile

    def _timed_once(self, run: Callable[..., Any]) -> Callable[..., Any]:
        called = False

        def boxed(*args: Any) -> Any:  # AOTAutograd passes one list, a direct caller of the graph the tensors
            """Runs the graph, and times the first run."""
            nonlocal called
            if called:
                return run(*args)
            called = True
            start = time.perf_counter()
            results = run(*args)
            self.first += time.perf_counter() - start
            return results

        boxed._boxed_call = True  # type: ignore[attr-defined]
        return boxed


def through_lamina(watch: Watch, options: lamina.Options | None = None) -> Callable[..., Any]:
    """Returns a torch.compile backend that compiles by Lamina and adds its time to `watch`."""

    def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles a graph by Lamina, watched."""
        return autograd(gm, inputs, options=options or lamina.Options(), compile=watch.timed(compile_part))

    return backend


def through_inductor(watch: Watch) -> Callable[..., Any]:
    """Returns a torch.compile backend that compiles by Inductor and adds its time to `watch`."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles a graph by Inductor, watched."""
        return compile_fx(gm, inputs, inner_compile=watch.timed(compile_fx_inner))

    return backend


BACKENDS = {"lamina": through_lamina, "torch.compile": through_inductor}


def answer(asked: dict[str, Any], say: Say) -> None:
    """Measures the workload `name` for about `budget` seconds, or with `compile_only` its first call alone."""
    torch.manual_seed(0)
    workload = WORKLOADS[asked["name"]]
    with torch.no_grad():
        if workload.kind == "call":
            say(call_overhead(workload, asked["budget"], "cpu"))
        else:
            say(measure(workload, asked.get("compile_only", False), asked["budget"]))


def measure(workload: Workload, compile_only: bool, budget: float) -> Results:
    """Returns compile times and, unless `compile_only`, errors, times of a call and, where a goal asks, of the kernels alone."""
    for backend in BACKENDS.values():
        torch.compile(lambda x: torch.sin(x) + 1, backend=backend(Watch()))(torch.ones(8))
    model, inputs = workload.make("cpu")
    results: Results = {"kind": workload.kind, "cold": {}, "tracing": {}}
    runs: dict[str, Callable[[], Any]] = {"eager": partial(model, *inputs)}
    for name, backend in BACKENDS.items():
        watch = Watch()
        runs[name] = partial(torch.compile(model, backend=backend(watch)), *inputs)
        total = mean_seconds(runs[name])
        results["cold"][name] = watch.compile + watch.first
        results["tracing"][name] = total - results["cold"][name]
    if compile_only:
        return results
    expected = runs["eager"]()
    results["errors"] = {name: largest_difference(run(), expected) for name, run in runs.items() if name != "eager"}
    results["times"], results["notes"] = interleaved(runs, budget=budget)
    if "alone" in workload.needs:
        before = copy_bandwidth()
        steps = lamina.explain(model, inputs, show=False, measure=True)
        results["alone"] = {"lamina": sum(k.seconds or 0.0 for k in steps.kernels) + sum(e.seconds or 0.0 for e in steps.externals)}
        results["work"] = {"bytes": traffic(inputs, expected), "flops": 0}
        results["roofs"] = {"bandwidth": max(before, copy_bandwidth())}
    return results


def traffic(*values: Any) -> int:
    """Returns the bytes of all tensors in the values."""
    return sum(t.nbytes for t in pytree.tree_leaves(values) if isinstance(t, Tensor))


def in_double(model: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """Returns eager's results in float64.

    The parameters are restored to their dtype, unchanged, since bf16 and f32 pass through f64 without loss.
    """
    wide = tuple(x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs)
    if not isinstance(model, nn.Module):
        return model(*wide)
    before = {t.dtype for t in model.parameters()}
    try:
        return model.double()(*wide)
    finally:
        model.to(before.pop())


def largest_difference(actual: Any, expected: Any) -> float:
    """Returns the largest difference from the expected results, relative to its largest value: of all results; infinite for NaN."""
    worst = 0.0
    for result, right in zip(pytree.tree_leaves(actual), pytree.tree_leaves(expected), strict=True):
        if isinstance(right, Tensor) and right.numel():
            scale = right.abs().max().clamp(min=1e-30)
            worst = max(worst, float(((result.detach().to(right) - right).abs().max() / scale).nan_to_num(math.inf)))
    return worst


def call_overhead(workload: Workload, budget: float, device: str) -> Results:
    """Measures seconds of a call on a small tensor, whose work takes no time.

    The calls are eager, through lamina.compile, through torch.compile with each compiler, and through torch.compile with a compiler
    that does nothing ("null").
    """
    from torch._dynamo.backends.common import aot_autograd

    _, (x,) = workload.make(device)
    result = torch.empty_like(x)

    def nothing(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles a graph to nothing: a call measures Dynamo alone."""

        def boxed(args: list[Any]) -> tuple[Tensor, ...]:
            """Returns a constant."""
            args.clear()
            return (result,)

        boxed._boxed_call = True  # type: ignore[attr-defined]
        return boxed

    ahead = lamina.compile(chain, (x,))
    runs: dict[str, Callable[[], Any]] = {"eager": partial(chain, x), "lamina.compile": partial(ahead, x)}
    backends = {"null": aot_autograd(fw_compiler=nothing), "lamina": "lamina", "torch.compile": "inductor"}
    for name, backend in backends.items():
        runs[name] = partial(torch.compile(dynamo_copy(chain), backend=backend), x)
    times, notes = interleaved(runs, budget=budget, rounds=30)
    if {"lamina", "null"} <= times.keys():
        times["lamina above null"] = times["lamina"] - times["null"]
    return {"kind": "call", "times": times, "notes": notes}


def dynamo_copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Copies a function with its code object, at which Dynamo keeps what it compiles, for all backends."""
    return types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
