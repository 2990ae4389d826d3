"""Simulates shared memory and the mbarriers in it, and finds races: accesses that no barrier or fence orders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from .scheduler import Clock, Partition, Program, join
from .values import Tensor, plain, tensor, triton_type

# The state of an element. UNFENCED: written by a store that the chip's asynchronous units may not see yet
NEVER, WRITTEN, ARRIVING, UNFENCED = range(4)
_PARTITIONS = 8
_MOST_BYTES = (1 << 20) - 1  # that a barrier can expect


@dataclass(eq=False)
class Barrier:
    """An mbarrier as PTX has it: phases are counted from 0, and the one that is not yet complete has number `phase`.

    What waits for a phase happens after everything that was done before the arrivals in it, and after the copies that brought its
    bytes (a vector clock). Copies see the barrier once it is `visible`: after a fence_async_shared() that follows its initialization.
    """

    program: Program
    count: int
    pending: int
    bytes: int = 0
    phase: int = 0
    visible: bool = False
    arrived: Clock = field(default_factory=dict)
    completed: Clock = field(default_factory=dict)

    def passes(self, parity: int) -> bool:
        """Returns whether the phase of this parity, of the last two, is complete."""
        return self.phase & 1 != parity

    def arrive(self, count: int) -> None:
        if not 1 <= count <= self.pending:
            raise self.program.fault(f"arrives {count} times at a barrier in {self}")
        who = self.program.running
        join(self.arrived, who.clock)
        who.clock[who] += 1
        self.pending -= count
        self._settle()

    def expect(self, count: int) -> None:
        if not 0 <= self.bytes + count <= _MOST_BYTES:
            raise self.program.fault(f"expects {count} bytes more at a barrier in {self}: {_MOST_BYTES} are the most")
        self.bytes += count
        self.arrive(1)

    def come(self, count: int) -> None:
        """Counts bytes that a copy has written."""
        self.bytes -= count
        self._settle()

    def fenced(self) -> None:
        self.visible = True

    def _settle(self) -> None:
        if not self.pending and not self.bytes:
            self.phase += 1
            self.pending = self.count
            join(self.completed, self.arrived)
            self.completed[self] = self.phase

    def __str__(self) -> str:
        bytes_missing = f" and {self.bytes} bytes" if self.bytes else ""
        return f"phase {self.phase}, which misses {self.pending} of {self.count} arrivals{bytes_missing}"


Write = tuple[Partition | Barrier, int]  # what happens after it has at least this time of the key in its clock


class Memory:
    """A view of an allocation: index, slice, permute and reshape give others.

    Of each element, beside its value in `data`:
    state    see above
    writer   the number, from 1, of the last of `writes`: what happens after it may read the element
    lent     how many products and TMA stores may still read it
    reads    for each partition, the time by its clock at which it last read the element
    """

    layout = None

    def __init__(self, program: Program, barriers: dict[int, Barrier], writes: list[Write], *tensors: torch.Tensor) -> None:
        self.program, self.barriers, self.writes, self.tensors = program, barriers, writes, tensors
        self.data, self.state, self.writer, self.lent, *self.reads = tensors

    @staticmethod
    def allocate(program: Program, dtype: torch.dtype, shape: list[int]) -> Memory:
        counts = [torch.zeros(shape, dtype=torch.int32) for _ in range(2 + _PARTITIONS)]
        return Memory(program, {}, [], torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=torch.uint8), *counts)

    @property
    def shape(self) -> list[int]:
        return list(self.data.shape)

    @property
    def rank(self) -> int:
        return self.data.ndim

    @property
    def dtype(self) -> Any:
        return triton_type(self.data.dtype)

    @property
    def type(self) -> Memory:
        return self

    def _view(self, change: Any) -> Memory:
        return Memory(self.program, self.barriers, self.writes, *map(change, self.tensors))

    def index(self, i: Any) -> Memory:
        at = int(plain(i))
        if not 0 <= at < self.shape[0]:
            raise self.program.fault(f"index {at} of a buffer of {self.shape[0]}")
        return self._view(lambda x: x[at])

    def slice(self, start: Any, length: Any, dim: Any = 0) -> Memory:
        return self._view(lambda x: x.narrow(plain(dim), plain(start), plain(length)))

    def permute(self, order: Any) -> Memory:
        return self._view(lambda x: x.permute([plain(i) for i in order]))

    def reshape(self, shape: Any) -> Memory:
        return self._view(lambda x: x.view([plain(n) for n in shape]))

    def load(self, layout: Any = None) -> Tensor:
        self.program.pause()
        self._readable()
        self._was_read()
        return Tensor(self.data.clone())

    def store(self, value: Any) -> None:
        self.program.pause()
        me, x = self.program.running, tensor(value)
        if (x.shape, x.dtype) != (self.shape, self.dtype):
            raise self.program.fault(f"stores {x.shape} of {x.dtype} to shared memory {self.shape} of {self.dtype}")
        self.claim()
        self.data.copy_(x.data)
        self.written(UNFENCED, me, me.clock[me])
        me.unfenced.append(self)

    def claim(self) -> None:
        """Begins a write by the running partition, or one that it requests: all earlier reads and writes must happen before it."""
        me = self.program.running
        if self.lent.any():
            raise self._fault("writes", "which a product or a TMA store that was not waited for still reads")
        for other in self.program.everyone:
            if self.reads[other.index].max() > me.clock.get(other, 0):
                raise self._fault("writes", f"which {other} reads, with nothing that puts the one before the other")
        self._ordered("writes")

    def arriving(self) -> None:
        """Begins a write by a TMA load."""
        self.claim()
        self._fenced("writes", "a TMA load")
        self.state.fill_(ARRIVING)

    def written(self, state: int, key: Partition | Barrier, time: int) -> None:
        """Records a write. It happens before everything that has `time` of `key` in its clock."""
        self.writes.append((key, time))
        self.writer.fill_(len(self.writes))
        self.state.fill_(state)

    def lend(self, asker: str) -> None:
        """Lends the memory to an asynchronous reader until `give_back`, by which time the running partition has waited for it."""
        self._readable()
        self._fenced("reads", asker)
        self.lent += 1

    def give_back(self) -> None:
        self.lent -= 1
        self._was_read()

    def _was_read(self) -> None:
        me = self.program.running
        self.reads[me.index].fill_(me.clock[me])

    def _readable(self) -> None:
        if (self.state == NEVER).any():
            raise self._fault("reads", "which was never written")
        self._ordered("reads")

    def _fenced(self, access: str, asker: str) -> None:
        if (self.state == UNFENCED).any():
            raise self._fault(access, f"by {asker}, that was stored without fence_async_shared() after it")

    def _ordered(self, access: str) -> None:
        if (self.state == ARRIVING).any():
            raise self._fault(access, "which a TMA load is still writing")
        low, high = self.writer.aminmax()
        for number in [low] if low == high else self.writer.unique():
            key, time = self.writes[number - 1] if number else (None, 0)
            if self.program.running.clock.get(key, 0) < time:
                by = key if isinstance(key, Partition) else "a TMA load"
                raise self._fault(access, f"which {by} writes, with nothing that puts the one before the other")

    def _fault(self, access: str, why: str) -> Exception:
        return self.program.fault(f"{access} shared memory {self.shape}, {why}")

    def fenced(self) -> None:
        self.state.masked_fill_(self.state == UNFENCED, WRITTEN)

    def barrier(self) -> Barrier:
        """Returns the barrier at this place."""
        if self.data.numel() != 1 or self.data.dtype != torch.int64:
            raise self.program.fault(f"{self.shape} of {self.dtype} is no barrier: index() the allocation")
        found = self.barriers.get(self.data.storage_offset())
        if found is None:
            raise self.program.fault("a barrier that was not initialized")
        return found

    def name(self, names: dict[str, Any]) -> str:
        """Returns the kernel's variable that holds the barrier, with its index if it is one of several."""
        for name, value in names.items():
            if isinstance(value, Memory) and value.barriers is self.barriers:
                return f"{name}[{self.data.storage_offset()}]" if value.data.numel() > 1 else name
        return "a barrier"


@dataclass
class Awaited:
    """A phase of a barrier that a partition waits for."""

    memory: Memory
    barrier: Barrier
    parity: int

    def describe(self, names: dict[str, Any]) -> str:
        return f"waits for parity {self.parity} of {self.memory.name(names)}, which is in {self.barrier}"
