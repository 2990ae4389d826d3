"""Measures a workload on the GPU, in a process of its own.

All contestants take the same tensors in one process, interleaved. A cold compile is all that a user waits for: tracing, compiling
and the first call, after a throwaway function has paid for what is loaded once.
"""

import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch
import torch._inductor.compile_fx
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

import lamina
import lamina.frontend.entry.export
import lamina.frontend.importing.importer
from lamina.tools.benchmarks import gpu_clock
from lamina.tools.benchmarks.gpu_clock import Sampler
from lamina.tools.benchmarks.gpu_workloads import GPU_CALL, GPU_WORKLOADS
from lamina.tools.benchmarks.serve import Say
from lamina.tools.benchmarks.worker import call_overhead
from lamina.tools.benchmarks.workloads import Workload
from lamina.tune.clocks import one_line

aten = torch.ops.aten

Run = Callable[[], Any]
Sizes = tuple[int, ...]
ATTENTION = (
    aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_efficient_attention,
    aten._scaled_dot_product_cudnn_attention,
)
BUSY = ("XLA", "lamina busy")  # for these, measures how long the device is busy, not how long a call takes
SETTLED = 4  # calls after which CUDA graphs are recorded
COLD = lamina.Options(cache=False)
GRAPHS = lamina.Options(cache=False, cuda_graphs=True)


def answer(asked: dict[str, Any], say: Say) -> None:
    """Measures the workload `name`, with `quick` in one round."""
    torch.manual_seed(0)
    with torch.no_grad():
        if asked["name"] == GPU_CALL:
            say(call_overhead(1.0 if asked["quick"] else 4.0, torch.randn(64, 64, device="cuda")))
        else:
            say(on_gpu(GPU_WORKLOADS[asked["name"]], asked["quick"]))


def on_gpu(workload: Workload, quick: bool) -> dict[str, Any]:
    """Warms up, measures the roofs, and returns the figures of a workload."""
    warm_up(workload.kind)
    roofs = {"bandwidth": gpu_clock.copy_bandwidth()}
    if workload.kind == "model":
        roofs["flops"] = gpu_clock.matmul_rate()
    torch.cuda.empty_cache()
    model, inputs = workload.make("cuda")
    return measure(workload, model, inputs, roofs=roofs, sampler=sampler(workload.kind), rounds=1 if quick else 3)


def warm_up(kind: str) -> None:
    """Compiles a small function by each compiler, so that one-time costs of the process are not measured."""
    x = torch.ones(8, device="cuda")
    lamina.compile(throwaway, (x,), options=COLD)(x)
    torch.compile(throwaway)(x)
    if "XLA" in contestants(kind, throwaway, (x,)):
        with suppress(Exception):  # a failure recurs in the contestant, and is noted there
            in_jax().compiled("over_sum", (x,))()
    torch.cuda.synchronize()


def throwaway(x: Tensor) -> Tensor:
    """Computes sin(x) + 1, which each compiler compiles first."""
    return torch.sin(x) + 1


def sampler(kind: str) -> Callable[[str, Run], Sampler]:
    """Returns a function that makes the Sampler of a contestant, given by name and call."""
    flush = gpu_clock.flusher()

    def of(name: str, run: Run) -> Sampler:
        if name in BUSY:
            return partial(in_jax().samples, run, flush)
        return partial(gpu_clock.samples, run, 120 if kind == "model" else 25)

    return of


def measure(
    workload: Workload,
    model: Callable[..., Any],
    inputs: tuple[Any, ...],
    *,
    roofs: dict[str, float],
    sampler: Callable[[str, Run], Sampler],
    rounds: int,
) -> dict[str, Any]:
    """Returns the figures of a workload. A contestant that fails is left out, with its reason in "notes"."""
    found: dict[str, Any] = {"kind": workload.kind, "goals": dict(workload.goals), "share": workload.share, "roofs": roofs}
    found |= {"cold": {}, "errors": {}, "notes": {}}
    found["work"] = {"bytes": traffic(model, inputs, workload.reads), "flops": flops(model, inputs)}
    exact = in_double(model, inputs)
    runs = begun(contestants(workload.kind, model, inputs), exact, found)
    del exact
    samplers = {name: sampler(name, run) for name, run in runs.items()}
    if {"XLA", "lamina"} <= runs.keys():
        samplers["lamina busy"] = sampler("lamina busy", runs["lamina"])
    apart = {name: samplers.pop(name) for name in BUSY if name in samplers}  # they need the profiler, which slows others' launches
    found["times"] = {}
    for group in (samplers, apart):
        times, failed = gpu_clock.in_turns(group, rounds)
        found["times"] |= times
        found["notes"] |= failed
    if "lamina" in runs:
        found["made"] = explained(model, inputs)
        found["work"]["flops"] = found["work"]["flops"] or found["made"].get("flops", 0)
    return found


def begun(made: Mapping[str, Callable[[], Run]], exact: Any, found: dict[str, Any]) -> dict[str, Run]:
    """Compiles the contestants; returns the calls of those that work. Adds compile times, errors and failures to `found`."""
    runs: dict[str, Run] = {}
    for name, make in made.items():
        try:
            runs[name], found["cold"][name], found["errors"][name] = cold(make, exact)
        except Exception as error:
            found["notes"][name] = one_line(error)
    return runs


def cold(make: Callable[[], Run], exact: Any) -> tuple[Run, float, float]:
    """Compiles a contestant and checks its results.

    Returns its call, the seconds until its first results, and the difference from float64 of later results, after SETTLED calls.
    """
    start = time.perf_counter()
    run = make()
    run()
    synchronize()
    taken = time.perf_counter() - start
    for _ in range(SETTLED):
        run()
    return run, taken, difference(run(), exact)


def contestants(kind: str, model: Callable[..., Any], inputs: tuple[Any, ...]) -> dict[str, Callable[[], Run]]:
    """Returns functions by name that compile a contestant and return its call.

    Lamina comes before other compilers, since what tracing warms up in torch helps those after it.
    """
    made: dict[str, Callable[[], Run]] = {
        "eager": lambda: partial(model, *inputs),
        "lamina": lambda: partial(lamina.compile(model, inputs, options=COLD), *inputs),
        "lamina graphs": lambda: partial(lamina.compile(model, inputs, options=GRAPHS), *inputs),
        "torch.compile": lambda: partial(torch.compile(model), *inputs),
        "reduce-overhead": lambda: partial(torch.compile(model, mode="reduce-overhead"), *inputs),
        "XLA": lambda: in_jax().compiled(model.__name__, inputs),
    }
    left_out = {"lamina graphs"} if kind == "kernel" else {"XLA"}
    if not importlib.util.find_spec("jax"):
        left_out.add("XLA")
    return {name: make for name, make in made.items() if name not in left_out}


def in_jax() -> Any:
    """Returns the module for XLA, which needs jax."""
    return importlib.import_module("lamina.tools.benchmarks.xla")


def synchronize() -> None:
    """Waits for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


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


def difference(given: Any, exact: Any) -> float:
    """Returns the norm of the difference from float64's results, relative to their norm: the largest of all results."""
    if not all(isinstance(t, Tensor) for t in pytree.tree_leaves(given)):
        given = in_jax().as_tensors(given)
    pairs = zip(pytree.tree_leaves(given), pytree.tree_leaves(exact), strict=True)
    return max(float((a.double() - b).norm() / b.norm()) for a, b in pairs)


def traffic(model: Callable[..., Any], inputs: tuple[Any, ...], reads: int) -> int:
    """Returns the bytes of inputs and parameters, times `reads`, and of results."""
    given = [*pytree.tree_leaves(inputs), *(model.parameters() if isinstance(model, nn.Module) else ())]
    return reads * sum(t.nbytes for t in given) + sum(t.nbytes for t in pytree.tree_leaves(model(*inputs)))


def flops(model: Callable[..., Any], inputs: tuple[Any, ...]) -> int:
    """Returns the operations of a model's matrix products, convolutions and attention, by torch's counter."""
    with FlopCounterMode(display=False, custom_mapping=dict.fromkeys(ATTENTION, attention_flops)) as counter:
        model(*inputs)
    total: int = counter.get_total_flops()
    return total


def attention_flops(query: Sizes, key: Sizes, value: Sizes, *_: Any, **__: Any) -> int:
    """Returns the operations of attention whose key and value may have fewer heads than its query.

    torch's own counter refuses those.
    """
    heads = query[1]
    return sdpa_flop_count(query, (key[0], heads, *key[2:]), (value[0], heads, *value[2:]))


def explained(model: Callable[..., Any], inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Returns what Lamina makes of the model: its kernels with their operations, library calls, and fallbacks."""
    try:
        steps = lamina.explain(model, inputs, show=False)
    except Exception as error:
        return {"failed": one_line(error)}
    fallbacks = [f for graph in steps.graphs for f in graph.fallbacks]
    return {
        "kernels": len(steps.kernels),
        "flops": sum(k.flops for k in steps.kernels),
        "calls": len(steps.externals) - len(fallbacks),
        "fallbacks": len(fallbacks),
        "fallback_ops": sorted({f.callee for f in fallbacks}),
    }
