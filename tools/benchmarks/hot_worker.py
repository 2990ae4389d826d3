"""One hot op in a process of its own: `python -m lamina.tools.benchmarks.hot_worker NAME`, which prints its figures as JSON.

Roofs and errors are those of gpu_worker. Lamina is measured as the cost model has it, as tuning has it, and with the
best kernel of its own, whatever was chosen. The store is the one that LAMINA_TUNE_STORE names, which must be empty. torch.compile's
max-autotune takes long: the figures without it are printed before, for the case that this process is ended by then.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
import warnings
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
from lamina.tune.store.records import Record
from lamina.tune.store.store import Store

SECONDS = 1.2  # of calls of all contestants together
CALLS, ROWS = 100, 9  # in a row, and rows, for what a caller sees
UNFINISHED = "did not finish in the time that a workload has"

Say = Callable[[dict[str, Any]], None]
Clock = Callable[[dict[str, Run]], tuple[dict[str, float], dict[str, str]]]
"""Seconds of a call of each contestant; why, of those that failed."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures one hot op on the GPU and prints JSON.")
    parser.add_argument("name", choices=[*HOT_WORKLOADS, TUNING])
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    parser.add_argument("--wait", action="store_true", help="import, then wait for a line")
    arguments = parser.parse_args()
    if arguments.name == TUNING:
        importlib.import_module("transformers")
    if arguments.wait and not sys.stdin.readline():
        return 1  # whoever started this has ended
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    with torch.no_grad():
        warm_up("model")
        if arguments.name == TUNING:
            say(tuning(*GPU_WORKLOADS[TUNED_MODEL].make("cuda")))
        else:
            on_gpu(HOT_WORKLOADS[arguments.name], arguments.quick)
    return 0


def say(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


def on_gpu(workload: HotWorkload, quick: bool) -> None:
    roofs = {"bandwidth": gpu_clock.copy_bandwidth(), "flops": gpu_clock.matmul_rate()}
    torch.cuda.empty_cache()
    clocks: dict[str, Clock] = {"times": partial(gpu_clock.call_by_call, seconds=SECONDS / 4 if quick else SECONDS)}
    if workload.wall:
        clocks["wall"] = in_rows
    measure(workload, *workload.make("cuda"), roofs=roofs, clocks=clocks, say=say)


def in_rows(runs: dict[str, Run]) -> tuple[dict[str, float], dict[str, str]]:
    """What a caller sees."""
    return gpu_clock.in_turns({name: partial(gpu_clock.back_to_back, run, CALLS) for name, run in runs.items()}, ROWS)


def measure(
    workload: HotWorkload,
    model: Callable[..., Any],
    inputs: tuple[Any, ...],
    *,
    roofs: dict[str, float],
    clocks: dict[str, Clock],
    say: Say,
) -> None:
    """Says the figures of a workload: once, or again with max-autotune where it is compared with that. A contestant that fails is
    missing, with its reason in "notes"."""
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
    """What compiles each contestant and gives its call."""
    others = {name: partial(partial, call, *inputs) for name, call in workload.others.items()}
    return {
        "eager": lambda: partial(model, *inputs),
        **others,
        "lamina": lambda: by_lamina(model, inputs, "off"),
        "lamina tuned": lambda: by_lamina(model, inputs, workload.policy),
        COMPILED: lambda: partial(torch.compile(model), *inputs),
    }


def by_lamina(model: Callable[..., Any], inputs: tuple[Any, ...], policy: Tune) -> Run:
    return partial(lamina.compile(model, inputs, options=lamina.Options(cache=False, tune=policy)), *inputs)


def time_all(runs: dict[str, Run], clocks: dict[str, Clock], found: dict[str, Any]) -> None:
    """Seconds of all contestants by each clock."""
    for name, clock in clocks.items():
        found[name], failed = clock(runs)
        found["notes"] |= failed


def choice(record: Record) -> dict[str, Any]:
    """What tuning found: seconds by candidate, the fastest first."""
    times = sorted(record.answer.times, key=lambda pair: pair[1])
    asked = {"what": record.question.what, "model": record.question.candidates[0]}
    return {**asked, "chosen": record.answer.winner, "seconds": dict(times), "dropped": dict(record.answer.dropped)}


def best_of_ours(records: Iterable[Record]) -> dict[str, str]:
    """Our best kernel for each question that has one, by the record's id. Schedules of ours are written with their numbers,
    "triton{m=128 ...}", but for the cost model's of rows; libraries are words."""
    best = {}
    for record in records:
        ours = {name: seconds for name, seconds in record.answer.times if "=" in name or name == MODEL}
        if ours:
            best[record.id] = min(ours, key=lambda name: ours[name])
    return best


def pinned(pins: dict[str, str], model: Callable[..., Any], inputs: tuple[Any, ...]) -> Run:
    """The model compiled with these candidates, whatever was chosen. The store stays as it was."""
    store = Store()
    for which, candidate in pins.items():
        store.pin(which, candidate)
    try:
        return by_lamina(model, inputs, "cached")
    finally:
        for which in pins:
            store.unpin(which)


def tuning(model: Callable[..., Any], inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Seconds to the first results: untuned, while it is tuned, and with the store filled. The lesser of two for what takes
    seconds."""
    taken: dict[str, list[float]] = {}
    for policy in ("off", "quick", "cached", "off", "cached"):
        taken.setdefault(policy, []).append(compile_seconds(model, inputs, policy))  # type: ignore[arg-type]
    found = {"kind": "tuning", "seconds": {policy: min(times) for policy, times in taken.items()}, "notes": {}}
    return {**found, "choices": [choice(record) for record in Store().records()]}


def compile_seconds(model: Callable[..., Any], inputs: tuple[Any, ...], policy: Tune) -> float:
    """Without what Triton keeps of compilations before."""
    with tempfile.TemporaryDirectory(prefix="lamina-triton-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        start = time.perf_counter()
        by_lamina(model, inputs, policy)()
        synchronize()
        return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
