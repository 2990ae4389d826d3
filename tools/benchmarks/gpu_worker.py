"""Measures a workload on the GPU, in a process of its own.

All contestants take the same tensors in one process, in turns. A cold compile is all that a user waits for: tracing, compiling and
the first call, after a throwaway function has paid for what is loaded once.

A hot op is measured with the cost model's choice, with tuning's choice, and with the best of Lamina's own kernels, whatever was
chosen. LAMINA_TUNE_STORE names the store, which must be empty. torch.compile's max-autotune takes long: the figures without it are
said first, in case this process is ended by then.
"""

import importlib.util
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch
import torch._inductor.compile_fx
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

import lamina
import lamina.frontend.entry.export
import lamina.frontend.importing.importer
from lamina.core.options import Tune
from lamina.tools.benchmarks import timing
from lamina.tools.benchmarks.contestants import (
    Run,
    by_lamina,
    choice,
    contestants,
    fastest_of_lamina,
    in_jax,
    pinned,
    start_contestants,
    synchronize,
)
from lamina.tools.benchmarks.gpu_workloads import GPU_WORKLOADS
from lamina.tools.benchmarks.hot_workloads import AUTOTUNED, HOT_WORKLOADS
from lamina.tools.benchmarks.serve import Results, Say
from lamina.tools.benchmarks.timing import Timed
from lamina.tools.benchmarks.worker import call_overhead, in_double, traffic
from lamina.tools.benchmarks.workloads import Workload
from lamina.tune.clocks import one_line
from lamina.tune.store.store import Store

aten = torch.ops.aten

Sizes = tuple[int, ...]
Clock = Callable[[Mapping[str, Run]], Timed]
ATTENTION = (
    aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_efficient_attention,
    aten._scaled_dot_product_cudnn_attention,
)
SECONDS = 1.2  # spent on calls of all contestants together
CALLS, ROWS = 100, 9  # calls in a row, and how many rows, for what a caller sees
BUSY_ROUNDS = 3
UNFINISHED = "did not finish in the time that a workload has"


def answer(asked: dict[str, Any], say: Say) -> None:
    """Measures the workload `name`, with `quick` by fewer calls."""
    torch.manual_seed(0)
    workload, quick = {**GPU_WORKLOADS, **HOT_WORKLOADS}[asked["name"]], asked["quick"]
    with torch.no_grad():
        if workload.kind == "call":
            say(call_overhead(workload, 1.0 if quick else 4.0, "cuda"))
            return
        warm_up(workload.kind)
        if workload.kind == "tuning":
            say(tuning(*workload.make("cuda")))
            return
        roofs = {"bandwidth": timing.copy_bandwidth()}
        if workload.kind != "kernel":
            roofs["flops"] = timing.matmul_rate()
        torch.cuda.empty_cache()
        clocks: dict[str, Clock] = {"times": partial(by_events, seconds=SECONDS / 4 if quick else SECONDS)}
        if "wall" in workload.needs:
            clocks["wall"] = in_rows
        if "busy" in workload.needs and importlib.util.find_spec("jax"):
            clocks["busy"] = busy  # last: it needs the profiler, which slows launches
        measure(workload, *workload.make("cuda"), roofs=roofs, clocks=clocks, say=say)


def warm_up(kind: str) -> None:
    """Compiles a small function by each compiler, so that one-time costs of the process are not measured."""
    x = torch.ones(8, device="cuda")
    by_lamina(throwaway, (x,))()
    torch.compile(throwaway)(x)
    if kind == "kernel" and importlib.util.find_spec("jax"):
        with suppress(Exception):  # a failure recurs in the contestant, and is noted there
            in_jax().compiled("over_sum", (x,))()
    torch.cuda.synchronize()


def throwaway(x: Tensor) -> Tensor:
    """Computes sin(x) + 1, which each compiler compiles first."""
    return torch.sin(x) + 1


def by_events(runs: Mapping[str, Run], seconds: float) -> Timed:
    """Measures seconds on the device, of all but XLA, whose streams torch's events do not see."""
    return timing.call_by_call({name: run for name, run in runs.items() if name != "XLA"}, seconds)


def in_rows(runs: Mapping[str, Run]) -> Timed:
    """Measures what a caller sees: wall-clock seconds, over CALLS calls in a row, until the device has done them."""
    return timing.interleaved(runs, budget=0.0, rounds=ROWS, batch=math.inf, most=CALLS, wait=torch.cuda.synchronize)


def busy(runs: Mapping[str, Run]) -> Timed:
    """Measures how long the device is busy with a call by XLA, and by Lamina."""
    flush = timing.flusher()
    return timing.in_turns(
        {name: partial(in_jax().samples, runs[name], flush) for name in ("XLA", "lamina") if name in runs}, BUSY_ROUNDS
    )


def measure(
    workload: Workload,
    model: Callable[..., Any],
    inputs: tuple[Any, ...],
    *,
    roofs: dict[str, float],
    clocks: Mapping[str, Clock],
    say: Say,
) -> None:
    """Passes the figures of a workload to `say`: once, or if max-autotune is a contestant, again with it.

    A contestant that fails is left out, with its reason in "notes".
    """
    results: Results = {"kind": workload.kind, "roofs": roofs, "cold": {}, "errors": {}, "notes": {}}
    given = (*inputs, *(model.parameters() if isinstance(model, nn.Module) else ()))
    results["work"] = {"bytes": workload.reads * traffic(given) + traffic(model(*inputs)), "flops": flops(model, inputs)}
    exact = in_double(workload.exact or model, inputs)
    runs = start_contestants(contestants(workload, model, inputs), exact, results)
    if workload.kind == "op":
        records = Store().records()
        results["choices"] = [choice(record) for record in records]
        if pins := fastest_of_lamina(records):
            runs |= start_contestants({"lamina own": lambda: pinned(pins, model, inputs)}, exact, results)
    time_all(runs, clocks, results)
    if workload.kind != "op" and "lamina" in runs:
        results["made"] = explained(model, inputs)
        results["work"]["flops"] = results["work"]["flops"] or results["made"].get("flops", 0)
    if AUTOTUNED in workload.needs:
        say({**results, "notes": {**results["notes"], AUTOTUNED: UNFINISHED}})
        compiled = {AUTOTUNED: lambda: partial(torch.compile(model, mode="max-autotune-no-cudagraphs"), *inputs)}
        runs |= start_contestants(compiled, exact, results)
        time_all(runs, clocks, results)
    say(results)


def time_all(runs: Mapping[str, Run], clocks: Mapping[str, Clock], results: Results) -> None:
    """Adds the seconds of all contestants by each clock to `results`."""
    for name, clock in clocks.items():
        results[name], failed = clock(runs)
        results["notes"] |= failed


def flops(model: Callable[..., Any], inputs: tuple[Any, ...]) -> int:
    """Returns the operations of a model's matrix products, convolutions and attention, by torch's counter."""
    with FlopCounterMode(display=False, custom_mapping=dict.fromkeys(ATTENTION, attention_flops)) as counter:
        model(*inputs)
    return counter.get_total_flops()


def attention_flops(query: Sizes, key: Sizes, value: Sizes, *_: Any, **__: Any) -> int:
    """Returns the operations of attention whose key and value may have fewer heads than its query.

    torch's own counter refuses those.
    """
    heads = query[1]
    return sdpa_flop_count(query, (key[0], heads, *key[2:]), (value[0], heads, *value[2:]))


def explained(model: Callable[..., Any], inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Returns a description of the compiled model: its kernels with their operations, library calls, and fallbacks."""
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


def tuning(model: Callable[..., Any], inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Returns seconds to a model's first results: untuned, while it is tuned, and with the store filled.

    Untuned and with the store filled, it takes the lesser of two runs, since these take seconds.
    """
    times: dict[str, float] = {}
    order: tuple[Tune, ...] = ("off", "quick", "cached", "off", "cached")
    for policy in order:
        times[policy] = min(times.get(policy, math.inf), compile_seconds(model, inputs, policy))
    return {"kind": "tuning", "times": times, "notes": {}, "choices": [choice(record) for record in Store().records()]}


def compile_seconds(model: Callable[..., Any], inputs: tuple[Any, ...], policy: Tune) -> float:
    """Returns seconds to compile and make the first call, with an empty Triton cache."""
    with tempfile.TemporaryDirectory(prefix="lamina-triton-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        start = time.perf_counter()
        by_lamina(model, inputs, policy)()
        synchronize()
        return time.perf_counter() - start
