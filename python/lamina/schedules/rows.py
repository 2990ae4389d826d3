"""Tuning space of row programs, such as softmax and norms: the schedules that are measured in addition to the cost model's."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from lamina.core.gpu import Gpu

from . import nvvm, text
from .base import power_of_two
from .nvvm import WARP
from .text import KernelSchedule

MODEL = "simt"
"""The candidate that is Lamina's kernel with the cost model's schedule."""
LEAST_BYTES = 8 << 20  # bytes that a program moves at least, for tuning to matter: a few microseconds
COLUMN_RANGES = (16, 32, 64, 2048)
"""The largest numbers of columns that kernels which add up rows are for; beyond FULL_COLUMNS, whole warps share a row."""
FULL_COLUMNS = 64
ADDED_RANGES = (16, 128)
"""The largest numbers of rows that such kernels add up, where whole warps share a row."""
SHORT_RANGES = (16, 32, 64)
"""The largest lengths of short rows that kernels which reduce nothing are for."""
CLUSTER, LARGEST = 8, 16  # CTAs of a cluster on every GPU with clusters, and on data-center GPUs
_HELD = 64  # elements of a row in a thread's registers at most
_WAVES = 16  # waves of CTAs below which the partial last wave costs something
_BLOCK, _WALK = 16384, 4096  # elements of a row that a Triton program may hold, and that it reads per iteration otherwise
_THREADS = 2048  # threads of an SM
_ALIVE = 16  # registers of a thread besides the elements of a row
_SIMT, _TRITON = 6, 3  # candidates at most


def _ends(most: int) -> tuple[int, ...]:
    """Returns the powers of two from 16 to `most` and the numbers halfway between them: the threads of a row idle for a third of
    their accesses at most."""
    powers = [16 << i for i in range((most // 16).bit_length())]
    return tuple(n for power in powers for n in (power, power // 2 * 3) if n <= most)


RANGES = _ends(131072)
"""The largest lengths of rows that kernels for ranges of a symbolic length are for; that for longer ones walks over them."""
WALK_RANGES = _ends(4096)
"""The largest lengths of rows that a program walks over: rows in several pieces, and scans."""


@dataclass(frozen=True)
class Simt(KernelSchedule):
    """Lamina's kernel, distributed over threads by lamina-distribute.

    threads   of one CTA and row, a power of two
    chunks    accesses of a thread per iteration; 0: as many as hold the whole row. Rows that are not held are read again
    cluster   CTAs that share a row, a power of two
    resident  CTAs that an SM should hold at a time, which bounds registers (0: the assembler's choice)
    """

    kind: ClassVar[str] = "simt"
    threads: int = text.power_of_two(128, most=1024)
    chunks: int = 0
    cluster: int = text.power_of_two(1, most=LARGEST)
    resident: int = 0

    def config(self, lanes: int, vec: int) -> nvvm.NvvmConfig:
        """Returns the Config for rows of `lanes` elements that threads read `vec` at a time."""
        chunks = self.chunks or -(-lanes // (self.threads * vec * self.cluster))
        pack = max(128 // self.threads, 1) if self.threads <= WARP and self.cluster == 1 else 1
        return nvvm.NvvmConfig(self.threads, vec, chunks, pack, cluster=self.cluster, resident=self.resident)


@dataclass(frozen=True)
class Triton(KernelSchedule):
    """A row program that is compiled by Triton.

    n       elements of a row per iteration, a power of two; 0: the whole row
    warps   warps of one program
    stages  blocks of a row in flight, where it is read in several
    """

    kind: ClassVar[str] = "triton"
    n: int = text.power_of_two(0, most=1 << 20, also=(0,))
    warps: int = text.power_of_two(4, most=32)
    stages: int = text.positive(1)

    def config(self, lanes: int, vec: int) -> nvvm.NvvmConfig:
        """Returns the Config for rows of `lanes` elements, from which the tile program is emitted."""
        wide = self.n or power_of_two(lanes)
        threads = max(min(self.warps * WARP, wide // vec), 1)
        return nvvm.NvvmConfig(threads, vec, max(wide // (threads * vec), 1))


Rows = Simt | Triton
KINDS: tuple[type[Rows], ...] = (Simt, Triton)


@dataclass(frozen=True)
class RowWork:
    """A row program with the cost model's schedule.

    config  the cost model's schedule
    lanes   elements of a row, with those that fill its first and last access
    rows    number of rows
    walks   the program reads each row only once
    whole   rows are contiguous in memory, so that CTAs of a cluster may share them
    moved   bytes that are read and written at least
    """

    config: nvvm.NvvmConfig
    lanes: int
    rows: int
    walks: bool
    whole: bool
    moved: int


def candidates(work: RowWork, gpu: Gpu) -> tuple[Rows, ...]:
    """Returns the schedules worth measuring in addition to the cost model's: those of each kind, the most promising first."""
    if work.moved < LEAST_BYTES:
        return ()
    kept = {key: getattr(work.config, key) for key in ("threads", "vec", "chunks", "cluster", "resident", "pack")}
    ours: dict[Rows, None] = {}
    in_pieces = work.walks or work.config.lanes < work.lanes
    for rows in _walking(work, gpu) if in_pieces else _holding(work, gpu):
        config = rows.config(work.lanes, work.config.vec)
        if _fits(rows, config, work, gpu) and any(getattr(config, key) != number for key, number in kept.items()):
            ours[rows] = None
    triton, simt = list(dict.fromkeys(_by_triton(work)))[:_TRITON], list(ours)[: _SIMT - 1]
    return (*simt[:1], *triton[:1], *simt[1:], *triton[1:])


def _walking(work: RowWork, gpu: Gpu) -> Iterator[Simt]:
    """Schedules that read rows in pieces. They vary the bytes in flight per thread, and how evenly rows fill the GPU."""
    base = Simt(work.config.threads, work.config.chunks)
    fewer = replace(base, chunks=max(base.chunks // 2, 1))
    uneven = work.whole and work.lanes >= 8 * work.config.lanes and work.rows < _WAVES * gpu.sm_count * _THREADS // base.threads
    yield fewer
    if uneven:
        yield replace(base, cluster=2)
    yield _full(replace(fewer, threads=2 * base.threads))
    if uneven:
        yield replace(fewer, cluster=4)
    yield replace(base, threads=2 * base.threads)
    yield replace(base, chunks=2 * base.chunks)


def _holding(work: RowWork, gpu: Gpu) -> Iterator[Simt]:
    """Schedules for rows that are needed twice: held by more or fewer threads, held by more and smaller CTAs, of which some read
    while others wait, or read again from L2."""
    config, cluster = work.config, work.config.cluster
    schedule = Simt(config.threads, cluster=cluster)
    if cluster > 1:
        few, more = max(8 // config.vec, 1), max(16 // config.vec, 1)
        half = replace(schedule, threads=config.threads // 2)
        each = 2 * config.chunks * config.vec + _ALIVE
        if each <= 4 * _ALIVE:
            yield replace(half, resident=max(gpu.registers // (half.threads * each), 1))
        yield replace(half, cluster=2 * cluster, resident=2 * config.resident)
        yield _full(replace(schedule, threads=2 * schedule.threads, chunks=few))
        yield _full(replace(schedule, chunks=few))
        yield replace(schedule, chunks=more)
        yield replace(schedule, threads=2 * schedule.threads, resident=1)
    else:
        yield replace(schedule, threads=2 * schedule.threads)
        yield replace(schedule, threads=schedule.threads // 2)
        yield replace(schedule, threads=4 * schedule.threads)
        if work.whole and work.lanes >= 4 * config.threads * config.vec:
            yield replace(schedule, cluster=2)
        yield _full(replace(schedule, threads=2 * schedule.threads))


def _full(rows: Simt) -> Simt:
    """Sets `resident` to as many CTAs as an SM has threads for."""
    return replace(rows, resident=max(_THREADS // rows.threads, 1))


def _fits(rows: Simt, config: nvvm.NvvmConfig, work: RowWork, gpu: Gpu) -> bool:
    """Returns whether this GPU can run a schedule, and no thread has nothing or too much to do."""
    if not WARP // 4 <= rows.threads <= 1024 or rows.threads * config.vec * rows.cluster >= 2 * work.lanes:
        return False
    if rows.cluster > 1 and (gpu.capability < 90 or not work.whole or rows.cluster > LARGEST):
        return False
    return rows.chunks * rows.threads * config.vec * rows.cluster < 2 * work.lanes and config.chunks * config.vec <= _HELD


def _by_triton(work: RowWork) -> Iterator[Triton]:
    """Returns Triton schedules: 16 or 32 elements per thread where a program holds a row, else blocks of which several are in
    flight."""
    block = power_of_two(work.lanes)
    if block <= (_WALK if work.walks else _BLOCK):
        warps = min(max(block // (16 * WARP), 1), 32)
        yield Triton(warps=warps)
        yield Triton(warps=max(warps // 2, 1))
        yield Triton(warps=min(2 * warps, 32))
    else:
        yield Triton(n=_WALK, warps=8)
        yield Triton(n=8192, warps=16)
        yield Triton(n=2048, warps=4, stages=3)
