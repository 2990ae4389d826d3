"""The state of some CTAs that run together: who is active, what their values are."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from torch_mlir import ir

from .traffic import WARP

Array = np.ndarray


class Fault(AssertionError):
    """A kernel did what it must not. The text names kernel, CTA, thread, op and place."""


class Batch:
    """`ctas` CTAs of `threads` threads. A lane is a thread of the batch; the leading axis of every value is that of the lanes.

    A value that is the same in all lanes may have a leading axis of 1. Values of lanes that are not active mean nothing.

    cta, thread      of every lane; CTAs counted over the launch
    local            the lane's CTA, counted within the batch
    who              a number for the thread, unique in the launch
    env              the values, by slot
    """

    def __init__(self, kernel: str, first: int, ctas: int, threads: int, cluster: int, grid: int, slots: int) -> None:
        self.kernel, self.threads, self.cluster, self.grid, self.ctas = kernel, threads, cluster, grid, ctas
        self.size = ctas * threads
        self.who = np.arange(first * threads, first * threads + self.size)
        self.cta, self.thread = np.divmod(self.who, threads)
        self.local = self.cta - first
        self.warp = self.cta * -(-threads // WARP) + self.thread // WARP
        self.env: list[Any] = [None] * slots
        self.mask = np.ones(self.size, bool)
        self.lanes = np.arange(self.size)
        self._barriers = np.zeros(ctas, np.int64)
        self._cluster_barriers = np.zeros(ctas, np.int64)

    @contextmanager
    def only(self, mask: Array) -> Iterator[None]:
        """Only these lanes are active; they must be some of those that were."""
        before = self.mask, self.lanes
        self.mask, self.lanes = mask, np.flatnonzero(mask)
        try:
            yield
        finally:
            self.mask, self.lanes = before

    def wide(self, x: Array) -> Array:
        """A value with all its lanes."""
        return x if len(x) == self.size else np.broadcast_to(x, (self.size, *x.shape[1:]))

    def active(self, x: Array) -> Array:
        """A value's active lanes alone."""
        return self.wide(x)[self.lanes]

    def epoch(self, lanes: Array) -> Array:
        """Two accesses of one CTA are ordered by a barrier if their epochs differ, two of one cluster if the upper halves do."""
        local = self.local[lanes]
        return (self._cluster_barriers[local] << 32) + self._barriers[local]

    def barrier(self, op: ir.Operation, cluster: bool = False) -> None:
        """All threads of a CTA (or a cluster), or none of them, arrive."""
        group = self.threads * (self.cluster if cluster else 1)
        here = self.mask.reshape(-1, group)
        torn = here.any(1) & ~here.all(1)
        if torn.any():
            missing = int(np.flatnonzero(torn)[0]) * group + int(np.argmin(here[torn][0]))
            self.fault(op, missing, f"{'cluster' if cluster else 'barrier'} not reached by all threads: this one does not arrive")
        arrived = here.any(1)
        self._barriers += np.repeat(arrived, self.cluster) if cluster else arrived
        if cluster:
            self._cluster_barriers += np.repeat(arrived, self.cluster)

    def whole_warps(self, op: ir.Operation) -> None:
        """All threads of a warp take part, or none."""
        full = np.bincount(self.warp - self.warp[0])
        here = np.bincount(self.warp[self.lanes] - self.warp[0], minlength=len(full))
        torn = (here > 0) & (here < full)
        if torn.any():
            missing = np.flatnonzero(torn[self.warp - self.warp[0]] & ~self.mask)[0]
            self.fault(op, missing, "shuffle under divergence: this thread of the warp does not take part")

    def fault(self, op: ir.Operation, lane: int, text: str) -> NoReturn:
        raise Fault(f"{self.kernel}: CTA {self.cta[lane]}, thread {self.thread[lane]}: {op.name} at {op.location}: {text}")

    def name(self, who: int) -> str:
        cta, thread = divmod(int(who), self.threads)
        return f"thread {thread} of CTA {cta}"
