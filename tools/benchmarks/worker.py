"""Measures a workload on the CPU, in a process of its own.

Both compilers work through torch.compile, so that tracing is the same for both. "From AOT graph to first result" is the time inside
the compiler (compile_graph for Lamina, compile_fx_inner for Inductor) plus the first call of its result. The environment names the
caches (LAMINA_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR): empty ones give cold times, a second process gives warm ones.
"""

import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

import lamina
from lamina.frontend.compiling.stages import compile_graph
from lamina.frontend.entry.dynamo import autograd
from lamina.report.roofline import COPY_BYTES
from lamina.tools.benchmarks.serve import Say
from lamina.tools.benchmarks.timing import interleaved
from lamina.tools.benchmarks.workloads import CALL, WORKLOADS, Workload, chain
from lamina.tune.clocks import taken

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

        def compile(gm: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
            start = time.perf_counter()
            run = compiler(gm, inputs, **options)
            self.compile += time.perf_counter() - start
            return self._timed_once(run)

        return compile

    def _timed_once(self, run: Callable[..., Any]) -> Callable[..., Any]:
        called = False

        def boxed(*args: Any) -> Any:  # AOTAutograd passes one list, a direct caller of the graph the tensors
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
        return autograd(gm, inputs, options=options or lamina.Options(), compile=watch.timed(compile_graph))

    return backend


def through_inductor(watch: Watch) -> Callable[..., Any]:
    """Returns a torch.compile backend that compiles by Inductor and adds its time to `watch`."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_fx(gm, inputs, inner_compile=watch.timed(compile_fx_inner))

    return backend


BACKENDS = {"lamina": through_lamina, "torch.compile": through_inductor}


def answer(asked: dict[str, Any], say: Say) -> None:
    """Measures the workload `name` for about `budget` seconds, or with `compile_only` its first call alone."""
    torch.manual_seed(0)
    with torch.no_grad():
        if asked["name"] == CALL:
            say(call_overhead(asked["budget"], torch.randn(64)))
        else:
            say(measure(WORKLOADS[asked["name"]], asked.get("compile_only", False), asked["budget"]))


def measure(workload: Workload, compile_only: bool, budget: float) -> dict[str, Any]:
    """Returns compile times and, unless `compile_only`, errors, times of a call and, for memory-bound kernels, bandwidth."""
    for backend in BACKENDS.values():
        torch.compile(lambda x: torch.sin(x) + 1, backend=backend(Watch()))(torch.ones(8))
    model, inputs = workload.make("cpu")
    memory = workload.share is not None
    found: dict[str, Any] = {"kind": workload.kind, "ratio": workload.goals["torch.compile"], "memory": memory, "compile": {}}
    runs: dict[str, Callable[[], Any]] = {"eager": partial(model, *inputs)}
    for name, backend in BACKENDS.items():
        watch = Watch()
        runs[name] = partial(torch.compile(model, backend=backend(watch)), *inputs)
        total = taken(runs[name])
        aot = watch.compile + watch.first
        found["compile"][name] = {"graph_to_result": aot, "tracing": total - aot}
    if compile_only:
        return found
    expected = runs["eager"]()
    found["errors"] = {name: difference(run(), expected) for name, run in runs.items() if name != "eager"}
    found["call"] = interleaved(runs, budget=budget)
    if memory:
        found["kernel"] = kernel_only(model, inputs, expected)
    return found


def difference(given: Any, expected: Any) -> float:
    """Returns the largest difference from eager's results, relative to the largest value of each."""
    pairs = zip(pytree.tree_leaves(given), pytree.tree_leaves(expected), strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def kernel_only(model: Callable[..., Any], inputs: tuple[Any, ...], results: Any) -> dict[str, float]:
    """Measures the kernels and external calls alone, the bytes that they read and write, and a copy; the least of several runs."""
    x, out = torch.ones(COPY_BYTES // 4), torch.empty(COPY_BYTES // 4)
    copies = [taken(lambda: out.copy_(x)) for _ in range(12)]
    steps = lamina.explain(model, inputs, show=False, measure=True)
    copies += [taken(lambda: out.copy_(x)) for _ in range(12)]
    tensors = [t for t in pytree.tree_leaves((inputs, results)) if isinstance(t, Tensor)]
    return {
        "seconds": sum(k.seconds or 0.0 for k in steps.kernels) + sum(e.seconds or 0.0 for e in steps.externals),
        "kernels": len(steps.kernels),
        "bytes": sum(t.numel() * t.element_size() for t in tensors),
        "copy_seconds": min(copies),
        "copy_bytes": 2 * COPY_BYTES,
    }


def call_overhead(budget: float, x: Tensor) -> dict[str, Any]:
    """Measures seconds of a call on a small tensor, whose work takes no time.

    The calls are eager, through lamina.compile, through torch.compile with each compiler, and through torch.compile with a compiler
    that does nothing ("null").
    """
    from torch._dynamo.backends.common import aot_autograd

    result = torch.empty_like(x)

    def nothing(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        def boxed(args: list[Any]) -> tuple[Tensor, ...]:
            args.clear()
            return (result,)

        boxed._boxed_call = True  # type: ignore[attr-defined]
        return boxed

    ahead = lamina.compile(chain, (x,))
    runs: dict[str, Callable[[], Any]] = {"eager": partial(chain, x), "lamina.compile": partial(ahead, x)}
    backends = {"null": aot_autograd(fw_compiler=nothing), "lamina": "lamina", "torch.compile": "inductor"}
    for name, backend in backends.items():
        runs[name] = partial(torch.compile(dynamo_copy(chain), backend=backend), x)
    return {"kind": "call", "call": interleaved(runs, budget=budget, rounds=30)}


def dynamo_copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Copies a function with its code object, at which Dynamo keeps what it compiles, for all backends."""
    return types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
