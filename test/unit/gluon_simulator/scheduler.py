"""The partitions of a program take turns, one at a time, in an order drawn from a seed."""

import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

_NOT_KERNELS = (str(Path(__file__).parent), threading.__file__)
_STEPS = 200_000  # of a program: one that takes more does not end
_SECONDS = 60  # of the processor, likewise: a machine that is busy may take longer
_DEADLOCK = 600  # seconds


class Fault(Exception):
    """Raised where a GPU would hang, or silently compute a wrong result."""


class _Stop(BaseException):
    """Ends a partition because another has failed."""


@dataclass(eq=False)
class Copy:
    """An asynchronous operation, which `finish` completes at any time after its start."""

    finish: Callable[[], None]
    weight: float


class Waits(Protocol):
    """A condition that a partition waits for, with its state, and the partition's name for it."""

    def describe(self, names: dict[str, Any]) -> str: ...


Clock = dict[Any, int]  # by partition and barrier: what came before, up to which of its times


def join(clock: Clock, other: Clock) -> None:
    for key, at in other.items():
        clock[key] = max(at, clock.get(key, 0))


@dataclass(eq=False)
class Partition:
    """A thread that stands for the warps of a partition.

    clock               what is known to have come before; its own time is that of its last arrival at a barrier
    products, stores    those that it has not yet waited for
    unfenced            shared memory that it has stored to, and barriers that it made, since its last fence_async_shared()
    """

    index: int
    weight: float
    warps: int
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ready: Callable[[], bool] | None = None
    awaited: Waits | None = None
    thread: threading.Thread | None = None
    clock: Clock = field(default_factory=dict)
    products: list[Any] = field(default_factory=list)
    stores: list[Any] = field(default_factory=list)
    unfenced: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return f"partition {self.index}"

    def where(self) -> tuple[str, dict[str, Any]]:
        """Returns the line of the kernel that the partition is at, and the names that are known there."""
        frame = sys._current_frames().get(self.thread.ident or 0) if self.thread else None
        while frame is not None and frame.f_code.co_filename.startswith(_NOT_KERNELS):
            frame = frame.f_back
        if frame is None:
            return str(self), {}
        return f"{self}, {frame.f_code.co_name}, {Path(frame.f_code.co_filename).name}:{frame.f_lineno}", dict(frame.f_locals)


class Program:
    """One program of the grid: its partitions, and the copies in flight."""

    def __init__(self, place: tuple[int, ...], grid: tuple[int, ...], warps: int, seed: int) -> None:
        self.place, self.grid = place, grid
        self.random = random.Random(f"{seed} {place}")
        self.copies: list[Copy] = []
        self.everyone: list[Partition] = []
        self.partitions: list[Partition] = []  # those that have not ended
        self.threads: list[threading.Thread] = []
        self.error: BaseException | None = None
        self.steps = 0
        self._slowness = self.random.uniform(0, 2)
        self.running = self._partition(warps)

    def _partition(self, warps: int, before: Clock | None = None) -> Partition:
        made = Partition(len(self.everyone), self._weight(), warps)
        made.clock = {**(before or {}), made: 1}
        self.everyone.append(made)
        self.partitions.append(made)
        return made

    def _weight(self) -> float:
        """Returns how likely a partition is to go on. In some programs all are equally likely, in others one is a hundred times
        slower than another."""
        return float(10 ** self.random.uniform(-self._slowness, 0))

    def run(self, body: Callable[[], Any]) -> None:
        """Runs the program to its end; raises what its first partition to fail has raised."""
        self._start(self.running, body)
        self.running.turn.release()
        worked, waited = time.process_time() + _SECONDS, time.monotonic() + _DEADLOCK
        for thread in self.threads:  # the first ends as the last, but where one fails
            while thread.is_alive() and time.process_time() < worked and time.monotonic() < waited:
                thread.join(1)
            if thread.is_alive() and not self.error:
                self.error = Fault(f"program {self.place}: does not end\n" + "\n".join(self._blocked()))
        if self.error:
            raise self.error
        if self.copies:
            raise Fault(f"program {self.place}: ends with TMA loads in flight: wait for their barriers")

    def specialize(self, bodies: Sequence[Callable[[], Any]], warps: list[int]) -> Any:
        """Runs the first body by the partition that runs, each other by a partition of its own; waits for all."""
        me = self.running
        workers = []
        for n, body in zip(warps, bodies[1:], strict=True):
            workers.append(self._partition(n, me.clock))
            self._start(workers[-1], body)
        me.clock[me] += 1
        result = bodies[0]()
        self.pause(lambda: not any(w in self.partitions for w in workers), _Workers())
        for worker in workers:
            join(me.clock, worker.clock)
        return result

    def copy(self, finish: Callable[[], None]) -> Copy:
        made = Copy(finish, self._weight())
        self.copies.append(made)
        return made

    def fault(self, message: str) -> Fault:
        """Returns a fault of the running partition."""
        return Fault(f"program {self.place}: {self.running.where()[0]}: {message}")

    def pause(self, ready: Callable[[], bool] | None = None, awaited: Waits | None = None) -> None:
        """Lets other partitions run, and returns when it is this partition's turn and it is ready."""
        me = self.running
        me.ready, me.awaited = ready, awaited
        if self._next() is not me:
            self.running.turn.release()
            me.turn.acquire()
        if self.error:
            raise _Stop
        me.ready = me.awaited = None

    def _next(self) -> Partition | None:
        """Draws the partition that goes on, and finishes copies on the way. Returns None if no partition is left."""
        while self.partitions:
            self.steps += 1
            able: list[Partition | Copy] = [p for p in self.partitions if p.ready is None or p.ready()]
            able += self.copies
            if not able:
                raise Fault(f"program {self.place}: deadlock\n" + "\n".join(self._blocked()))
            if self.steps > _STEPS:
                raise Fault(f"program {self.place}: does not end\n" + "\n".join(self._blocked()))
            chosen = self.random.choices(able, [a.weight for a in able])[0]
            if isinstance(chosen, Partition):
                self.running = chosen
                return chosen
            self.copies.remove(chosen)
            chosen.finish()
        return None

    def _blocked(self) -> list[str]:
        lines = []
        for partition in self.partitions:
            where, names = partition.where()
            lines.append(f"  {where}: {partition.awaited.describe(names) if partition.awaited else 'runs'}")
        return lines

    def _start(self, partition: Partition, body: Callable[[], Any]) -> None:
        def work() -> None:
            partition.turn.acquire()
            try:
                if not self.error:
                    body()
                    self._ended(partition)
            except _Stop:
                pass
            except BaseException as e:
                if not isinstance(e, Fault):
                    e.add_note(f"in program {self.place}, {partition}")
                self.error = self.error or e
            self._leave(partition)

        partition.thread = threading.Thread(target=work, daemon=True)
        self.threads.append(partition.thread)
        partition.thread.start()

    def _ended(self, partition: Partition) -> None:
        if partition.products:
            raise self.fault("ends with products that nobody waited for: call warpgroup_mma_wait(0, ...)")
        if partition.stores:
            raise self.fault("ends with stores that nobody waited for: call tma.store_wait(0)")

    def _leave(self, partition: Partition) -> None:
        self.partitions = [p for p in self.partitions if p is not partition]
        try:
            following = None if self.error else self._next()
        except BaseException as e:
            self.error, following = e, None
        if following:
            following.turn.release()
        elif self.error:
            for each in self.partitions:
                each.turn.release()


class _Workers:
    def describe(self, names: dict[str, Any]) -> str:
        return "waits for the other partitions to end"
