"""Measures the peak rates of this machine's processor, and keeps measured peaks, of GPUs too, in the cache of compiled programs.

Two measurements, about a second together: torch's copy of a 64 MiB tensor, and its product of matrices in f32. Each is the best of
several runs: a roof is what can be reached.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, replace

import torch

from lamina.core.device import host
from lamina.runtime.cache import Cache, Entry, cache_key

from .explanation import Peaks

COPY_BYTES = 64 << 20  # one tensor; the copy moves twice as much
MATRIX = 1536  # rows and columns
_RUNS = 10


def peaks(threads: int | None = None, *, again: bool = False) -> Peaks:
    """Returns the peaks of this machine with `threads` threads (default: torch's number); see `cached_peaks`."""
    threads, processor = threads or torch.get_num_threads(), host().processor
    return cached_peaks(f"{processor}, {threads} threads", lambda: measure(processor, threads), again=again)


def cached_peaks(name: str, measure: Callable[[], Peaks], *, again: bool) -> Peaks:
    """Returns the peaks of the machine called `name` from the cache, or measured now.

    again  measure now in any case; an earlier measurement counts where it is higher (the machine may be busy)
    """
    cache, key = Cache(), cache_key(peaks=name)
    entry = cache.get(key)
    known = None if entry is None else Peaks(**entry.meta)
    if known is not None and not again:
        return known
    found = measure()
    if known is not None:
        found = replace(found, bandwidth=max(found.bandwidth, known.bandwidth), flops=max(found.flops, known.flops))
    cache.put(key, Entry("", b"", asdict(found)))
    return found


def measure(processor: str, threads: int) -> Peaks:
    """Measures the peaks of the CPU now, with `threads` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return Peaks(processor, threads, copy_bandwidth(), product_rate())
    finally:
        torch.set_num_threads(before)


def copy_bandwidth(nbytes: int = COPY_BYTES) -> float:
    """Returns bytes a second, read and written, of `out.copy_(x)`."""
    x, out = torch.ones(nbytes // 4), torch.empty(nbytes // 4)
    return 2 * nbytes / min(_timed(lambda: out.copy_(x)) for _ in range(_RUNS))


def product_rate(n: int = MATRIX) -> float:
    """Returns f32 operations a second of a product of n x n matrices; a multiply-add counts as two."""
    a, b, out = torch.ones(n, n), torch.ones(n, n), torch.empty(n, n)
    return 2 * n**3 / min(_timed(lambda: torch.mm(a, b, out=out)) for _ in range(_RUNS))


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
