"""Times small graphs, a kernel or a few each, at sizes drawn at random: one compilation for all of them, compared with static
ones."""

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from lamina.frontend.compiling.worker import finish
from lamina.tools.benchmarks.symbolic_sizes.comparison import compiled, timed
from lamina.tools.benchmarks.symbolic_sizes.kernel_class import KernelClass
from lamina.tools.benchmarks.symbolic_sizes.kernel_classes import CLASSES
from lamina.tools.benchmarks.tables.figures import NONE, Figures
from lamina.tools.benchmarks.timing import Timed
from lamina.tune.clocks import one_line

MOST = {"cpu": 1 << 20, "cuda": 1 << 24}
"""The most elements of a drawn tensor, by device."""
CALLS, ROUNDS = 8, 3
TRACED = (48, 40)
"""The rows and columns of the first call, which compiles."""
COLUMNS = ("graph", "sizes", "Lamina, us", "to static Lamina", "at most", "at", "to TorchInductor", "failed")


@dataclass
class ClassTimes:
    """The measurements of one class.

    seconds  of Lamina's calls, at each size
    ratios   to the other contestants, by name, with the size each
    failed   why contestants failed
    """

    seconds: list[float] = field(default_factory=list)
    ratios: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: {"static": [], "inductor": []})
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, size: str, times: Mapping[str, float], failed: Mapping[str, str]) -> None:
        """Adds the seconds of a call by each contestant, and why others failed."""
        self.failed.update(failed)
        if "lamina" in times:
            self.seconds.append(times["lamina"])
            for kind in self.ratios.keys() & times.keys():
                self.ratios[kind].append((times["lamina"] / times[kind], size))

    def row(self, name: str) -> list[str]:
        """Returns the cells of COLUMNS."""
        us = [f"{1e6 * s:.1f}" for s in (min(self.seconds), max(self.seconds))] if self.seconds else [NONE, NONE]
        worst = max(self.ratios["static"], default=None)
        largest = [f"{worst[0]:.2f}", worst[1]] if worst else [NONE, ""]
        failed = "; ".join(f"{kind}: {why}"[:60] for kind, why in self.failed.items())
        static, inductor = (_mean(self.ratios[kind]) for kind in ("static", "inductor"))
        return [name, str(len(self.seconds)), " to ".join(us), static, *largest, inductor, failed]


def kernels_table(device: str, count: int, seed: int, only: Sequence[str]) -> Figures:
    """Returns the table of each class whose name contains one of `only`, measured at `count` sizes drawn from a seed: on a GPU the
    time of kernels, else that of calls."""
    clock = kernel_seconds if device == "cuda" else partial(timed, device=device)
    rows, all_ratios = [], ClassTimes()
    for name, kernel_class in CLASSES.items():
        if not any(part in name for part in only):
            continue
        found = _measured(kernel_class, device, list(draw_sizes(random.Random(f"{seed} {name}"), count, MOST[device])), clock)
        rows.append(found.row(name))
        for kind, ratios in found.ratios.items():
            all_ratios.ratios[kind] += ratios
        torch._dynamo.reset()
    total = ["geometric mean", str(len(all_ratios.ratios["static"])), "", _mean(all_ratios.ratios["static"]), "", ""]
    return Figures(f"Kernels, seed {seed}", COLUMNS, [*rows, [*total, _mean(all_ratios.ratios["inductor"]), ""]])


def _measured(
    kernel_class: KernelClass,
    device: str,
    sizes: Sequence[tuple[int, int]],
    clock: Callable[[Mapping[str, Callable[[], Any]]], Timed],
) -> ClassTimes:
    found = ClassTimes()
    inputs = [_arguments(kernel_class, device, size) for size in (TRACED, *sizes)]
    of_all = {kind: compiled(kernel_class.function, kind) for kind in ("lamina", "inductor")}
    for _ in range(2):
        for given in inputs:  # what Lamina compiles when a call needs it is there from the second time on
            _call(kernel_class, of_all["lamina"], given)
        finish()
    _call(kernel_class, of_all["inductor"], inputs[0])
    for given in inputs[1:]:
        runs = {**of_all, "static": compiled(kernel_class.function, "static")}
        found.add(
            " x ".join(map(str, given[0].shape)),
            *clock({kind: partial(_call, kernel_class, run, given) for kind, run in runs.items()}),
        )
    return found


def _arguments(kernel_class: KernelClass, device: str, size: tuple[int, int]) -> tuple[Tensor, ...]:
    """Returns the arguments of a call, marked as of known sizes where they are."""
    given = tuple(x.to(device).requires_grad_(kernel_class.trains and x.is_floating_point()) for x in kernel_class.arguments(*size))
    for x in given[kernel_class.symbolic :]:
        torch._dynamo.mark_static(x)
    for x, known in zip(given, kernel_class.known, strict=False):
        for dimension in known:
            torch._dynamo.mark_static(x, dimension)
    return given


def _call(kernel_class: KernelClass, run: Callable[..., Any], given: Sequence[Tensor]) -> Any:
    if not kernel_class.trains:
        return run(*given)
    with torch.enable_grad():
        result = run(*given)
    return torch.autograd.grad(result, [x for x in given if x.requires_grad], torch.ones_like(result))


def _mean(ratios: Sequence[tuple[float, str]]) -> str:
    return f"{statistics.geometric_mean(ratio for ratio, _ in ratios):.2f}" if ratios else NONE


def kernel_seconds(runs: Mapping[str, Callable[[], Any]]) -> Timed:
    """Returns the seconds that a GPU's kernels take in a call of each, the least of ROUNDS means over CALLS calls in a row, by a
    profile of the device; and why others failed."""
    times: dict[str, float] = {}
    failed: dict[str, str] = {}
    for name, run in runs.items():
        try:
            times[name] = min(_profiled(run) for _ in range(ROUNDS))
        except Exception as error:
            failed[name] = one_line(error)
    return times, failed


def _profiled(run: Callable[[], Any]) -> float:
    run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(CALLS):
            run()
        torch.cuda.synchronize()
    spans = sorted((e.time_range.start, e.time_range.end) for e in trace.events() if e.device_type == DeviceType.CUDA)
    return busy(spans) * 1e-6 / CALLS


def busy(spans: Sequence[tuple[float, float]]) -> float:
    """Returns how long at least one of several spans of time, in order of their starts, lasts: a kernel that starts early and waits
    for the one before it, does not count twice."""
    total, until = 0.0, float("-inf")
    for start, end in spans:
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total


def draw_sizes(rng: random.Random, count: int, largest: int) -> Iterator[tuple[int, int]]:
    """Yields rows and columns, few to many, with at most `largest` elements; every second number of columns is a multiple of 8."""
    for i in range(count):
        columns = int(2 ** rng.uniform(3, 14))
        rows = int(2 ** rng.uniform(1, (largest // columns).bit_length() - 1))
        yield rows, columns if i % 2 else (columns + 7) // 8 * 8
