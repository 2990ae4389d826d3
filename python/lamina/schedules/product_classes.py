"""Chooses schedules for products with a symbolic number of rows or columns: one for each class of sizes, by the cost model."""

from collections.abc import Sequence
from dataclasses import replace
from math import log

from lamina.core.gpu import Gpu

from .contraction import GemmConfig
from .product_cost import KNOWN, WORTH, GemmWork, candidates, lamina_seconds, library_seconds, shared_bytes

_CLASSES = (64, 256, 512, 1024, 2048)  # classes of a symbolic number of rows, by the most that each has
_MANY = (3072, 4096, 8192, 16384)  # rows that stand for all calls with more
_FEWER = 0.95  # share of the general schedule's time below which calls with few rows have a kernel of their own


def for_all_sizes(work: GemmWork, gpu: Gpu, *, rows: bool) -> GemmConfig | None:
    """Returns the default schedule of a product whose number of rows, or else of columns, is symbolic, for calls with more of them
    than `for_fewer` has schedules for. None if the library with what follows it is ahead over all classes of sizes.

    work: with any number of them."""
    if not (work.has_epilogue and work.item == 2 and not work.has_second_kernel and gpu.capability == KNOWN):
        return None
    general = _best(work, gpu, _MANY, rows)
    if general is None:
        return None
    smaller = dict(for_fewer(work, gpu, general, rows=rows))
    ratio, config = 0.0, general
    for most in reversed(_CLASSES):
        config = smaller.get(most, config)
        ratio += _log_seconds(config, work, gpu, _samples(most), rows) - _log_seconds(None, work, gpu, _samples(most), rows)
    ratio += _log_seconds(general, work, gpu, _MANY, rows) - _log_seconds(None, work, gpu, _MANY, rows)
    return general if ratio < log(WORTH) * (len(_CLASSES) + 1) else None


def for_fewer(work: GemmWork, gpu: Gpu, general: GemmConfig, *, rows: bool) -> list[tuple[int, GemmConfig]]:
    """Returns schedules for calls with at most so many rows, or else columns, in order, each where it takes less than _FEWER of the
    time of the one for more of them. work: with any number of them; general: the schedule for the most."""
    schedules: list[tuple[int, GemmConfig]] = []
    larger = general
    for limit in reversed(_CLASSES):
        samples = _samples(limit)
        best = _best(work, gpu, samples, rows, ping_pong=False)
        if best is None:
            continue
        gain = _log_seconds(best, work, gpu, samples, rows) - _log_seconds(larger, work, gpu, samples, rows)
        if gain < log(_FEWER):
            schedules, larger = [(limit, best), *schedules], best
    return schedules


def _samples(limit: int) -> tuple[int, ...]:
    """Returns sizes that stand for a class."""
    return (5 * limit // 8, 3 * limit // 4, limit)


def _best(work: GemmWork, gpu: Gpu, sizes: Sequence[int], rows: bool, *, ping_pong: bool = True) -> GemmConfig | None:
    """Returns the schedule that takes the least time over some numbers of rows or columns."""
    known = {c for n in sizes for c in candidates(_resized(work, n, rows), gpu) if c.parts == 1 and (ping_pong or not c.ping_pong)}
    fitting = [c for c in known if shared_bytes(c, _resized(work, sizes[-1], rows)) <= gpu.shared_bytes]
    return min(fitting, key=lambda c: (_log_seconds(c, work, gpu, sizes, rows), str(c)), default=None)


def _log_seconds(config: GemmConfig | None, work: GemmWork, gpu: Gpu, sizes: Sequence[int], rows: bool) -> float:
    """Returns the mean logarithm of a schedule's time over some numbers of rows or columns; None: of the library's."""
    works = [_resized(work, n, rows) for n in sizes]
    times = [library_seconds(one, gpu) if config is None else lamina_seconds(config, one, gpu) for one in works]
    return sum(map(log, times)) / len(times)


def _resized(work: GemmWork, n: int, rows: bool) -> GemmWork:
    """Returns the work for another number of rows or columns; what the epilogue reads and writes grows with it."""
    old = work.m if rows else work.n
    moved = replace(work, reads=work.reads * n // old, writes=work.writes * n // old)
    return replace(moved, m=n) if rows else replace(moved, n=n)
