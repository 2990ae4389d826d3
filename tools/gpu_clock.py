"""The clock of GPU measurements: events around calls with the second-level cache flushed before each, and the roofs."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch
import triton

COPY_BYTES = 2 << 30  # one tensor; the copy moves twice as much
MATRIX = 8192

Sampler = Callable[[], Sequence[float]]
"""Seconds of each of a few calls."""


def samples(run: Callable[[], object], milliseconds: float) -> list[float]:
    """Seconds of each of the calls that take about this long together, by triton's clock."""
    times = triton.testing.do_bench(run, warmup=milliseconds / 5, rep=milliseconds, return_mode="all")
    return [t * 1e-3 for t in times]


def flusher() -> Callable[[], object]:
    """What samples() flushes the cache with: one kernel."""
    driver = triton.runtime.driver.active
    cache = driver.get_empty_cache_for_benchmark()
    return lambda: driver.clear_cache(cache)


def in_turns(samplers: Mapping[str, Sampler], rounds: int) -> tuple[dict[str, float], dict[str, str]]:
    """Median seconds of each, taken in turns (ABCABC...); and why, of those that failed."""
    found: dict[str, list[float]] = {name: [] for name in samplers}
    failed: dict[str, str] = {}
    for _ in range(rounds):
        for name, sample in samplers.items():
            if name not in failed:
                try:
                    found[name] += sample()
                except Exception as error:
                    failed[name] = reason(error)
    return {name: statistics.median(times) for name, times in found.items() if times and name not in failed}, failed


def reason(error: BaseException) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0]}"[:300]


def copy_bandwidth() -> float:
    """Bytes a second, read and written, of a copy within the device's memory."""
    x = torch.zeros(COPY_BYTES, dtype=torch.uint8, device="cuda")
    out = torch.empty_like(x)
    return 2 * COPY_BYTES / statistics.median(samples(lambda: out.copy_(x), 40))


def matmul_rate() -> float:
    """Operations a second of cuBLAS's bf16 product of two square matrices; a multiplication with its addition counts as two."""
    a, b = (torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * MATRIX**3 / statistics.median(samples(lambda: a @ b, 40))


def back_to_back(run: Callable[[], object], calls: int) -> list[float]:
    """Seconds of one of `calls` calls in a row, until the device has done them: what a caller sees, on the CPU or the device."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    torch.cuda.synchronize()
    return [(time.perf_counter() - start) / calls]
