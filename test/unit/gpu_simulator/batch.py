"""The state of CTAs that run in lockstep: active threads and their values."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from torch_mlir import ir

Array = np.ndarray
_RELAXED, _ARRIVED = 1, 2


class Fault(AssertionError):
    """Raised for a forbidden operation. The text names kernel, CTA, thread, op and location."""


class Batch:
    """`ctas` CTAs of `threads` threads. A lane is a thread of the batch; the leading axis of every value is that of the lanes.

    A value that is the same in all lanes may have a leading axis of 1. Values of lanes that are not active mean nothing.

    cta, thread      of every lane; CTAs counted over the launch
    local            the lane's CTA, counted within the batch
    who              a number for the thread, unique in the launch
    wave, warp       how many threads run in step, and which of these groups the lane belongs to
    env              the values, by slot
    pointed          buffers that pointers were taken to
    """

    def __init__(self, kernel: str, first: int, ctas: int, threads: int, cluster: int, grid: int, slots: int, wave: int) -> None:
        self.kernel, self.threads, self.cluster, self.grid, self.ctas = kernel, threads, cluster, grid, ctas
        self.size = ctas * threads
        self.who = np.arange(first * threads, first * threads + self.size)
        self.cta, self.thread = np.divmod(self.who, threads)
        self.local = self.cta - first
        self.wave = wave
        self.warp = self.cta * -(-threads // wave) + self.thread // wave
        self.env: list[Any] = [None] * slots
        self.mask = np.ones(self.size, bool)
        self.lanes = np.arange(self.size)
        self.pointed: list[Any] = []
        self._barriers = np.zeros(ctas, np.int64)
        self.clusters = Clusters(self)

    @contextmanager
    def only(self, mask: Array) -> Iterator[None]:
        """Makes only these lanes active; they must be active already."""
        before = self.mask, self.lanes
        lanes = np.flatnonzero(mask)
        if len(lanes) < len(self.lanes):
            self.mask, self.lanes = mask, lanes
        try:
            yield
        finally:
            self.mask, self.lanes = before

    def wide(self, x: Array) -> Array:
        """Returns a value with all its lanes."""
        return x if len(x) == self.size else np.broadcast_to(x, (self.size, *x.shape[1:]))

    @property
    def whole(self) -> bool:
        """Returns whether all lanes are active."""
        return len(self.lanes) == self.size

    def active(self, x: Array) -> Array:
        """Returns a value's active lanes."""
        return self.wide(x) if self.whole else self.wide(x)[self.lanes]

    def epoch(self, lanes: Array) -> Array:
        """Two accesses of one CTA are ordered by a barrier if their epochs differ, two of one cluster if the upper halves do."""
        local = self.local[lanes]
        return (self.clusters.epoch[local] << 32) + self._barriers[local]

    def barrier(self, op: ir.Operation) -> None:
        """Synchronizes: all threads of a CTA, or none of them, must arrive."""
        self._barriers += self.together(op, self.threads, "barrier")

    def together(self, op: ir.Operation, group: int, what: str) -> Array:
        """Returns which groups of so many lanes are active. All lanes of an active group must be active."""
        here = self.mask.reshape(-1, group)
        torn = here.any(1) & ~here.all(1)
        if torn.any():
            first = int(np.argmax(torn))
            self.fault(
                op, first * group + int(np.argmin(here[first])), f"{what} not reached by all threads: this one does not arrive"
            )
        return np.asarray(here.any(1))

    def whole_warps(self, op: ir.Operation) -> None:
        """Checks that all threads of a warp take part, or none."""
        full = np.bincount(self.warp - self.warp[0])
        here = np.bincount(self.warp[self.lanes] - self.warp[0], minlength=len(full))
        torn = (here > 0) & (here < full)
        if torn.any():
            missing = np.flatnonzero(torn[self.warp - self.warp[0]] & ~self.mask)[0]
            self.fault(op, missing, "shuffle under divergence: this thread of the warp does not take part")

    def fault(self, op: ir.Operation, lane: int, text: str) -> NoReturn:
        line = str(op).partition("\n")[0]
        raise Fault(
            f"{self.kernel}: CTA {self.cta[lane]}, thread {self.thread[lane]}: {op.name} at {op.location}: {text}\n  {line}"
        )

    def name(self, who: int) -> str:
        cta, thread = divmod(int(who), self.threads)
        return f"thread {thread} of CTA {cta}"


class Clusters:
    """What the CTAs of a batch know of the others of their clusters.

    epoch    of every CTA: cluster barriers that order memory
    """

    def __init__(self, batch: Batch) -> None:
        self.batch, ctas = batch, batch.ctas
        self.epoch, self._reached = np.zeros(ctas, np.int64), np.full(ctas, -1)
        self._started = np.zeros(ctas, bool)
        self._arrived = np.zeros(batch.size, np.int8)

    def arrive(self, op: ir.Operation, relaxed: bool) -> None:
        self._each(op, self._arrived == 0, "arrives at a cluster barrier twice")
        self._arrived[self.batch.lanes] = _RELAXED if relaxed else _ARRIVED

    def wait(self, op: ir.Operation) -> None:
        """Waits for all threads of a cluster, or none. Memory is ordered unless a thread's arrival was relaxed."""
        batch = self.batch
        self._each(op, self._arrived > 0, "waits at a cluster barrier without having arrived")
        waiting = batch.together(op, batch.threads * batch.cluster, "cluster barrier")
        orders = waiting & (self._arrived.reshape(len(waiting), -1) == _ARRIVED).all(1)
        self.epoch += np.repeat(orders, batch.cluster)
        self._started |= np.repeat(waiting, batch.cluster)
        self._arrived[batch.lanes] = 0

    def reach(self, op: ir.Operation, remote: Array) -> None:
        """Checks that these lanes (a mask of the batch) may access another CTA's shared memory."""
        local = self.batch.local
        self._each(op, ~remote | self._started[local], "reaches a CTA that may not have started: no cluster barrier yet")
        self._each(op, ~remote | (self._arrived == 0), "reaches another CTA between arriving at a cluster barrier and waiting")
        self._reached[local[remote]] = self.epoch[local[remote]]

    def finish(self, op: ir.Operation) -> None:
        """Ends the kernel."""
        late = self._reached == self.epoch
        self._each(op, ~late[self.batch.local], "ends with no cluster barrier since it reached another CTA, which may have ended")

    def _each(self, op: ir.Operation, ok: Array, text: str) -> None:
        bad = self.batch.mask & ~ok
        if bad.any():
            self.batch.fault(op, int(np.argmax(bad)), text)
