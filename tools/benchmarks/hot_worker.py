"""Measures a hot op on the GPU, in a process of its own.

Roofs and errors are those of gpu_worker. Lamina is measured with the cost model's choice, with tuning's choice, and with the best
of its own kernels, whatever was chosen. LAMINA_TUNE_STORE names the store, which must be empty. torch.compile's max-autotune takes
long: the figures without it are said first, in case this process is ended by then.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
import torch._inductor.compile_fx

import lamina
from lamina.core.options import Tune
from lamina.schedules.rows import MODEL
from lamina.tools.benchmarks import gpu_clock
from lamina.tools.benchmarks.gpu_worker import Run, begun, flops, in_double, synchronize, traffic, warm_up
from lamina.tools.benchmarks.gpu_workloads import GPU_WORKLOADS
from lamina.tools.benchmarks.hot_workloads import AUTOTUNED, COMPILED, HOT_WORKLOADS, TUNED_MODEL, TUNING, HotWorkload
from lamina.tools.benchmarks.serve import Say
from lamina.tune.clocks import taken
from lamina.tune.store.records import Record
from lamina.tune.store.store import Store

SECONDS = 1.2  # spent on calls of all contestants together
CALLS, ROWS = 100, 9  # calls in a row, and how many rows, for what a caller sees
UNFINISHED = "did not finish in the time that a workload has"

Clock = Callable[[dict[str, Run]], tuple[dict[str, float], dict[str, str]]]
"""Returns seconds of a call by contestant, and the reason for each that failed."""


def answer(asked: dict[str, Any], say: Say) -> None:
    """Measures the op `name`, with `quick` by fewer calls, or tuning itself."""
    torch.manual_seed(0)
    with torch.no_grad():
        warm_up("model")
        if asked["name"] == TUNING:
            say(tuning(*GPU_WORKLOADS[TUNED_MODEL].make("cuda")))
        else:
            on_gpu(HOT_WORKLOADS[asked["name"]], asked["quick"], say)


def on_gpu(workload: HotWorkload, quick: bool, say: Say) -> None:
    """Measures the roofs and the workload, and says its figures."""
    roofs = {"bandwidth": gpu_clock.copy_bandwidth(), "flops": gpu_clock.matmul_rate()}
    torch.cuda.empty_cache()
    clocks: dict[str, Clock] = {"times": partial(gpu_clock.call_by_call, seconds=SECONDS / 4 if quick else SECONDS)}
    if workload.wall:
        clocks["wall"] = in_rows
    measure(workload, *workload.make("cuda"), roofs=roofs, clocks=clocks, say=say)


def back_to_back(run: Run) -> list[float]:
    """Returns the mean wall-clock seconds of CALLS calls in a row, until the device has done them, as a list of one."""
    return [taken(run, CALLS, torch.cuda.synchronize)]


def in_rows(runs: dict[str, Run]) -> tuple[dict[str, float], dict[str, str]]:
    """Measures what a caller sees: wall-clock seconds, over CALLS calls in a row."""
    return gpu_clock.in_turns({name: partial(back_to_back, run) for name, run in runs.items()}, ROWS)


def measure(
    workload: HotWorkload,
    model: Callable[..., Any],
    inputs: tuple[Any, ...],
    *,
    roofs: dict[str, float],
    clocks: dict[str, Clock],
    say: Say,
) -> None:
    """Passes the figures of a workload to `say`: once, or if max-autotune is a contestant, again with it.

    A contestant that fails is left out, with its reason in "notes".
    """
    found: dict[str, Any] = {"kind": "op", "goals": [asdict(goal) for goal in workload.goals], "share": workload.share}
    found |= {"roofs": roofs, "cold": {}, "errors": {}, "notes": {}}
    found["work"] = {"bytes": traffic(model, inputs, 1), "flops": flops(model, inputs)}
    exact = in_double(workload.exact or model, inputs)
    runs = begun(contestants(workload, model, inputs), exact, found)
    records = Store().records()
    found["choices"] = [choice(record) for record in records]
    if pins := best_of_ours(records):
        runs |= begun({"lamina own": lambda: pinned(pins, model, inputs)}, exact, found)
    time_all(runs, clocks, found)
    if not workload.autotuned:
        say(found)
        return
    say({**found, "notes": {**found["notes"], AUTOTUNED: UNFINISHED}})
    compiled = {AUTOTUNED: lambda: partial(torch.compile(model, mode="max-autotune-no-cudagraphs"), *inputs)}
    runs |= begun(compiled, exact, found)
    time_all(runs, clocks, found)
    say(found)


def contestants(workload: HotWorkload, model: Callable[..., Any], inputs: tuple[Any, ...]) -> dict[str, Callable[[], Run]]:
    """Returns functions by name that compile a contestant and return its call."""
    others = {name: partial(partial, call, *inputs) for name, call in workload.others.items()}
    return {
        "eager": lambda: partial(model, *inputs),
        **others,
        "lamina": lambda: by_lamina(model, inputs, "off"),
        "lamina tuned": lambda: by_lamina(model, inputs, workload.policy),
        COMPILED: lambda: partial(torch.compile(model), *inputs),
    }


def by_lamina(model: Callable[..., Any], inputs: tuple[Any, ...], policy: Tune) -> Run:
    """Compiles the model by Lamina with this policy of tuning; returns its call."""
    return partial(lamina.compile(model, inputs, options=lamina.Options(cache=False, tune=policy)), *inputs)


def time_all(runs: dict[str, Run], clocks: dict[str, Clock], found: dict[str, Any]) -> None:
    """Adds the seconds of all contestants by each clock to `found`."""
    for name, clock in clocks.items():
        found[name], failed = clock(runs)
        found["notes"] |= failed


def choice(record: Record) -> dict[str, Any]:
    """Returns tuning's answer to one question: seconds by candidate, the fastest first, and what was chosen and dropped."""
    times = sorted(record.answer.times, key=lambda pair: pair[1])
    asked = {"what": record.question.what, "model": record.question.candidates[0]}
    return {**asked, "chosen": record.answer.winner, "seconds": dict(times), "dropped": dict(record.answer.dropped)}


def best_of_ours(records: Iterable[Record]) -> dict[str, str]:
    """Returns Lamina's fastest kernel for each question that has one, by the record's id.

    Names of Lamina's schedules have parameters, "triton{m=128 ...}", except the cost model's for rows; libraries' names are words.
    """
    best = {}
    for record in records:
        ours = {name: seconds for name, seconds in record.answer.times if "=" in name or name == MODEL}
        if ours:
            best[record.id] = min(ours, key=lambda name: ours[name])
    return best


def pinned(pins: dict[str, str], model: Callable[..., Any], inputs: tuple[Any, ...]) -> Run:
    """Compiles the model with these candidates, whatever was chosen; returns its call. The store is left as it was."""
    store = Store()
    for which, candidate in pins.items():
        store.pin(which, candidate)
    try:
        return by_lamina(model, inputs, "cached")
    finally:
        for which in pins:
            store.unpin(which)


def tuning(model: Callable[..., Any], inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Returns seconds to a model's first results: untuned, while it is tuned, and with the store filled.

    Untuned and with the store filled, it takes the lesser of two runs, since these take seconds.
    """
    taken: dict[str, list[float]] = {}
    for policy in ("off", "quick", "cached", "off", "cached"):
        taken.setdefault(policy, []).append(compile_seconds(model, inputs, policy))  # type: ignore[arg-type]
    found = {"kind": "tuning", "seconds": {policy: min(times) for policy, times in taken.items()}, "notes": {}}
    return {**found, "choices": [choice(record) for record in Store().records()]}


def compile_seconds(model: Callable[..., Any], inputs: tuple[Any, ...], policy: Tune) -> float:
    """Returns seconds to compile and make the first call, with an empty Triton cache."""
    with tempfile.TemporaryDirectory(prefix="lamina-triton-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        start = time.perf_counter()
        by_lamina(model, inputs, policy)()
        synchronize()
        return time.perf_counter() - start
