"""Compiles the contestants of a workload on the GPU, and checks their results."""

import importlib
import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import lamina
from lamina.core.options import Tune
from lamina.schedules.rows import MODEL
from lamina.tools.benchmarks.hot_workloads import COMPILED
from lamina.tools.benchmarks.serve import Results
from lamina.tools.benchmarks.workloads import Workload
from lamina.tune.clocks import one_line
from lamina.tune.store.records import Record
from lamina.tune.store.store import Store

Run = Callable[[], Any]
SETTLED = 4  # calls after which CUDA graphs are recorded


def contestants(workload: Workload, model: Callable[..., Any], inputs: tuple[Any, ...]) -> dict[str, Callable[[], Run]]:
    """Returns functions by name that compile a contestant and return its call.

    Lamina comes before other compilers, since what tracing warms up in torch helps those after it.
    """
    compiled = {COMPILED: lambda: partial(torch.compile(model), *inputs)}
    overhead = {"reduce-overhead": lambda: partial(torch.compile(model, mode="reduce-overhead"), *inputs)}
    xla = {"XLA": lambda: in_jax().compiled(model.__name__, inputs)} if importlib.util.find_spec("jax") else {}
    kinds: dict[str, dict[str, Callable[[], Run]]] = {
        "kernel": {**compiled, **overhead, **xla},
        "model": {"lamina graphs": lambda: by_lamina(model, inputs, cuda_graphs=True), **compiled, **overhead},
        "op": {"lamina tuned": lambda: by_lamina(model, inputs, workload.policy), **compiled},
    }
    return {
        "eager": lambda: partial(model, *inputs),
        **{name: partial(partial, call, *inputs) for name, call in workload.others.items()},
        "lamina": lambda: by_lamina(model, inputs, "off" if workload.kind == "op" else "cached"),
        **kinds[workload.kind],
    }


def by_lamina(model: Callable[..., Any], inputs: tuple[Any, ...], policy: Tune = "cached", **options: Any) -> Run:
    """Compiles the model by Lamina with this policy of tuning; returns its call."""
    return partial(lamina.compile(model, inputs, options=lamina.Options(cache=False, tune=policy, **options)), *inputs)


def start_contestants(makers: Mapping[str, Callable[[], Run]], exact: Any, results: Results) -> dict[str, Run]:
    """Compiles the contestants; returns the calls of those that work. Adds compile times, errors and failures to `results`."""
    runs: dict[str, Run] = {}
    for name, make in makers.items():
        try:
            runs[name], results["cold"][name], results["errors"][name] = cold(make, exact)
        except Exception as error:
            results["notes"][name] = one_line(error)
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


def difference(actual: Any, exact: Any) -> float:
    """Returns the norm of the difference from float64's results, relative to their norm: the largest of all results."""
    if not all(isinstance(t, Tensor) for t in pytree.tree_leaves(actual)):
        actual = in_jax().as_tensors(actual)
    pairs = zip(pytree.tree_leaves(actual), pytree.tree_leaves(exact), strict=True)
    return max(float((a.double() - b).norm() / b.norm()) for a, b in pairs)


def synchronize() -> None:
    """Waits for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def in_jax() -> Any:
    """Returns the module for XLA, which needs jax."""
    return importlib.import_module("lamina.tools.benchmarks.xla")


def choice(record: Record) -> dict[str, Any]:
    """Returns tuning's answer to one question: seconds by candidate, the fastest first, and what was chosen and dropped."""
    times = sorted(record.answer.times, key=lambda pair: pair[1])
    asked = {"what": record.question.what, "model": record.question.candidates[0]}
    return {**asked, "chosen": record.answer.winner, "seconds": dict(times), "dropped": dict(record.answer.dropped)}


def fastest_of_lamina(records: Iterable[Record]) -> dict[str, str]:
    """Returns Lamina's fastest kernel for each question that has one, by the record's id.

    Names of Lamina's schedules have parameters, "triton{m=128 ...}", except the cost model's for rows; libraries' names are words.
    """
    best = {}
    for record in records:
        times = {name: seconds for name, seconds in record.answer.times if "=" in name or name == MODEL}
        if times:
            best[record.id] = min(times, key=lambda name: times[name])
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
