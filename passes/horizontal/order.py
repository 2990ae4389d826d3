"""Reorders steps so that small launches can be bundled: a list scheduler over the dependences."""

import itertools
from collections.abc import Mapping, Sequence

from torch_mlir import ir

from lamina.core.gpu import Gpu

from .cost import LAUNCH, LaunchBundle, SmallKernel
from .steps import PlannedStep


def ordered_steps(steps: Sequence[PlannedStep], kernels: Mapping[str, SmallKernel], gpu: Gpu, window: int) -> list[list[int]]:
    """Returns every step once, after those that it needs; the steps of one list are launched together. window: how many steps a
    launch may move over."""
    return _Order(steps, kernels, gpu, window).run()


class _Order:
    """The scheduler's state.

    kernels  for each step, the kernel that may be bundled; None for a step that runs alone
    inside   steps that are launched instead of the one before them, at other sizes: nothing may come between
    done     the steps that are issued, in `bundles`, which move `bytes` bytes
    waiting  launches that could run, with the number of bundles and bytes issued when each began to wait. Their dependences are
             done, so no two of them depend on each other
    """

    def __init__(self, steps: Sequence[PlannedStep], kernels: Mapping[str, SmallKernel], gpu: Gpu, window: int) -> None:
        self.steps, self.gpu, self.window = steps, gpu, window
        self.kernels = [_candidate(step.op, kernels) for step in steps]
        self.inside = {n + 1 for n, step in enumerate(steps) if len(step.op.attributes.get("when", ()))}
        self.done: set[int] = set()
        self.waiting: dict[int, tuple[int, int]] = {}
        self.bytes = 0
        self.bundles: list[list[int]] = []

    def run(self) -> list[list[int]]:
        """Issues every step and returns the bundles in launch order."""
        for n, kernel in enumerate(self.kernels):
            if n not in self.done and n not in self.inside:
                late = itertools.takewhile(self._is_late, self.waiting)  # they stand in the order in which they began to wait
                self._release(n, {*late, *(m for m in self.steps[n].needs if m in self.waiting)})
            if n in self.done:
                continue
            if kernel is None:
                self._issue([n])
            else:
                self.waiting[n] = (len(self.bundles), self.bytes)
        self._release(len(self.steps), set(self.waiting))
        return self.bundles

    def _is_late(self, n: int) -> bool:
        """Returns whether a launch has waited until the caches have lost its inputs."""
        count, moved = self.waiting[n]
        return len(self.bundles) - count > self.window or self.bytes - moved > self.gpu.l2

    def _release(self, n: int, wanted: set[int]) -> None:
        """Issues these of the waiting launches, with other waiting ones and those from step n on that could run now."""
        if not wanted:
            return
        others = [m for m in self.waiting if m not in wanted] + self._ahead(n)
        for bundle in self._split([*sorted(wanted), *others]):
            if not wanted.isdisjoint(bundle.steps):
                self._issue(bundle.steps)

    def _ahead(self, n: int) -> list[int]:
        """Returns launches from step n on that could run now, and whose results the caches hold until they are needed, or are
        small."""
        found: list[int] = []
        passed = moved = 0
        for m in range(n, len(self.steps)):
            if m in self.done or m in self.waiting:
                continue
            if passed >= self.window:
                break
            if self.kernels[m] is not None and self.steps[m].needs <= self.done:
                if moved <= self.gpu.l2 or self._is_light(m):
                    found.append(m)
            else:
                passed, moved = passed + 1, moved + self.steps[m].bytes
        return found

    def _is_light(self, n: int) -> bool:
        """Returns whether all its bytes are read and written again in less time than a launch takes."""
        return self.steps[n].bytes / self.gpu.bandwidth < LAUNCH

    def _split(self, some: Sequence[int]) -> list[LaunchBundle]:
        """Bundles launches that lose nothing by running together: first those of one kernel, which never lose."""
        same: dict[SmallKernel, list[int]] = {}
        for n in some:
            kernel = self.kernels[n]
            assert kernel is not None
            same.setdefault(kernel, []).append(n)
        bundles: list[LaunchBundle] = []
        for kernel, numbers in same.items():
            for n in numbers:
                buffers = self.steps[n].op.operands
                if not any(b.add(n, kernel, buffers) for b in bundles):
                    bundles.append(LaunchBundle(self.gpu))
                    bundles[-1].add(n, kernel, buffers)
        return bundles

    def _issue(self, bundle: list[int]) -> None:
        self.bundles.append(bundle)
        self.done.update(bundle)
        self.bytes += sum(self.steps[n].bytes for n in bundle)
        for n in bundle:
            self.waiting.pop(n, None)


def _candidate(op: ir.Operation, kernels: Mapping[str, SmallKernel]) -> SmallKernel | None:
    if op.name != "plan.launch" or "when" in op.attributes:
        return None
    kernel = kernels.get(ir.FlatSymbolRefAttr(op.attributes["kernel"]).value)  # None: it is not a tile program any more
    return None if kernel is None or kernel.why_alone else kernel
