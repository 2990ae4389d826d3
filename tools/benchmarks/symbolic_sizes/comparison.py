"""Compares workloads compiled once for all sizes with static compilations, and with TorchInductor's dynamic ones."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lamina.tools.benchmarks.tables.figures import NONE, Figures, number, numbers
from lamina.tools.benchmarks.timing import Sampler, Timed, call_by_call, in_turns, interleaved
from lamina.tools.benchmarks.workloads import Workload
from lamina.tune.clocks import one_line

SECONDS = 0.6
"""The time for which a workload's contestants are timed on a GPU."""
ROUNDS = 11
"""The number of times that they are called on one thread of a CPU."""
KINDS = {"lamina": ("lamina", True), "static": ("lamina", False), "inductor": ("inductor", True)}
"""The backend of each contestant, and whether one compilation is for all sizes."""
COLUMNS = ("Lamina, ms", "static Lamina", "TorchInductor", "to static", "to TorchInductor", "failed")


Clock = Callable[[Mapping[str, Callable[[], Any]]], Timed]
"""Returns the seconds of a call of each, and why others failed."""


def timed(runs: Mapping[str, Callable[[], Any]], device: str) -> Timed:
    """Returns the median seconds of a call of each, and why others failed. On a CPU with one thread these are the thread's own
    seconds, which other load disturbs less than the wall clock's."""
    if device == "cuda":
        return call_by_call(runs, SECONDS)
    if torch.get_num_threads() > 1:
        return interleaved(runs)
    return in_turns({name: _own_time(run) for name, run in runs.items()}, ROUNDS)


def _own_time(run: Callable[[], Any]) -> Sampler:
    """Returns a function that samples the CPU time of a call on this thread. Calls it once before."""
    run()

    def sample() -> Sequence[float]:
        """Returns the thread's seconds of one call."""
        start = time.thread_time()
        run()
        return [time.thread_time() - start]

    return sample


class Comparison:
    """A table of calls through one compilation for all sizes, compared with static compilations and TorchInductor's dynamic one."""

    def __init__(self, title: str, noun: str, device: str, clock: Clock | None = None) -> None:
        """Takes what the rows are of, where calls run ("cpu" or "cuda"), and what times them instead of `timed`."""
        self._title, self._of = title, noun
        self._clock = clock or partial(timed, device=device)
        self._rows: list[list[str]] = []
        self._ratios: list[list[float | None]] = []

    def add(self, name: str, runs: Mapping[str, Callable[..., Any]], inputs: Sequence[Any]) -> None:
        """Times calls with these inputs and adds a row. runs: what to call, by kind; one that fails has no time, but the reason."""
        calls, failed = {kind: partial(run, *inputs) for kind, run in runs.items()}, dict[str, str]()
        for kind, call in list(calls.items()):
            try:
                call()
            except Exception as error:
                failed[kind] = one_line(error)
                del calls[kind]
        times, more = self._clock(calls)
        ratios = [times["lamina"] / times[k] if {"lamina", k} <= times.keys() else None for k in ("static", "inductor")]
        self._ratios.append(ratios)
        cells = [*numbers(times, KINDS, 1e3, 3), *(number(r, 1, 3) for r in ratios)]
        self.note(name, *cells, "; ".join(f"{kind}: {why}"[:60] for kind, why in (failed | more).items()))

    def note(self, *cells: str) -> None:
        """Adds a row of text."""
        self._rows.append([*cells, *[""] * (len(COLUMNS) + 1 - len(cells))])

    def seconds(self, name: str, lamina: float, inductor: float) -> None:
        """Adds a row of seconds, of Lamina and of TorchInductor, that are not calls."""
        self.note(name, f"{lamina:.1f}", "", f"{inductor:.1f}", "", number(lamina / inductor, 1, 3))

    def figures(self) -> Figures:
        """Returns the table, with geometric means of the ratios in the last row."""
        known = [[r for r in column if r is not None] for column in zip(*self._ratios, strict=True)]
        means = [f"{statistics.geometric_mean(column):.3f}" if column else NONE for column in known]
        return Figures(self._title, (self._of, *COLUMNS), [*self._rows, ["geometric mean", "", "", "", *means, ""]])


def compiled(model: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """Compiles a model as one of KINDS. It has code of its own: Dynamo keeps few compilations of one function."""

    def call(*inputs: Any) -> Any:
        """Calls the model, as a function of its own for Dynamo."""
        return model(*inputs)

    call.__code__ = call.__code__.replace()
    backend, dynamic = KINDS[kind]
    return torch.compile(call, backend=backend, dynamic=dynamic)


def workloads_table(workloads: Mapping[str, Workload], device: str) -> Figures:
    """Returns the table of these workloads."""
    table = Comparison("Workloads of the figures", "workload", device)
    for name, workload in workloads.items():
        try:
            model, inputs = workload.make(device)
        except ImportError as error:
            table.note(name, *[NONE] * (len(COLUMNS) - 1), str(error))
            continue
        _mark(inputs)
        table.add(name, {kind: compiled(model, kind) for kind in KINDS}, inputs)
        torch._dynamo.reset()
    return table.figures()


def _mark(inputs: Sequence[Any]) -> None:
    """Makes static what a model would fix: tensors with another first size than the first argument, as parameters have, and heads
    and their elements, the second and last dimension of four."""
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    for x in tensors:
        if not x.dim() or x.shape[0] != tensors[0].shape[0]:
            torch._dynamo.mark_static(x)
        elif x.dim() == 4:
            torch._dynamo.mark_static(x, [1, 3])
