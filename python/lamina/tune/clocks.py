"""Times calls of candidates on a device, and detects devices that no longer respond."""

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
_FLUSHES = 2  # of 256 MB: the GPU is busy for about 100 us, in which the host issues the call
_AHEAD_SECONDS = 1e-4
_MOST_AHEAD_SECONDS = 2e-2  # a call that the host takes longer to issue waits for the GPU, or is host-bound in any case
_SPIN_HERTZ = 2e9  # at least the clock of any GPU


class Clock(Protocol):
    """Times calls on one device."""

    def seconds(self, run: Callable[[], object]) -> float:
        """Returns the seconds of one call."""
        ...

    def wait(self) -> None:
        """Waits until the device has finished all its work; raises its errors."""
        ...

    def alive(self) -> bool:
        """Returns whether the device still accepts work."""
        ...

    def now(self) -> float:
        """Returns seconds since any fixed moment."""
        ...


class CudaClock:
    """Times calls that launch on torch's current stream of one GPU; its L2 cache is flushed before each.

    Only the GPU's part is timed: the GPU is kept busy until the host has issued the call. Where the host took longer than that, a
    slow library call would look like a slow kernel, and the call is timed again behind a longer wait.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self._cache: Any = None
        self._ahead = _AHEAD_SECONDS  # least time for which the GPU is kept busy before a call

    def seconds(self, run: Callable[[], object]) -> float:
        """Returns the GPU's seconds of one call, with a cold L2 cache."""
        import torch
        import triton

        with torch.cuda.device(self.index):
            driver = triton.runtime.driver.active
            if self._cache is None:
                self._cache = driver.get_empty_cache_for_benchmark()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            while True:
                for _ in range(_FLUSHES):
                    driver.clear_cache(self._cache)
                if self._ahead > _AHEAD_SECONDS:
                    torch.cuda._sleep(int(self._ahead * _SPIN_HERTZ))
                issued = time.perf_counter()
                start.record()
                run()
                end.record()
                issued = time.perf_counter() - issued
                end.synchronize()
                waited, self._ahead = self._ahead, min(max(2 * issued, _AHEAD_SECONDS), _MOST_AHEAD_SECONDS)
                if issued < waited or waited >= _MOST_AHEAD_SECONDS:
                    return float(start.elapsed_time(end)) * 1e-3

    def wait(self) -> None:
        """Waits until the GPU has finished all its work; raises its errors."""
        import torch

        torch.cuda.synchronize(self.index)

    def alive(self) -> bool:
        """Returns whether the GPU still accepts work. An error like an illegal address stays with the process: every later call
        fails with it. Others are reported once."""
        for _ in range(2):
            try:
                self.wait()
            except RuntimeError:
                continue
            return True
        return False

    def now(self) -> float:
        """Returns time.perf_counter()."""
        return time.perf_counter()


class Failed(Exception):
    """A candidate failed; the reason is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DeviceLost(Exception):
    """A candidate left the device unusable for this process."""

    def __init__(self, candidate: str, reason: str) -> None:
        super().__init__(f"{candidate}: {reason}")
        self.candidate, self.reason = candidate, reason


def run_guarded(candidate: str, clock: Clock, work: Callable[[], T]) -> T:
    """Returns the result of `work`. Raises Failed if it raises, DeviceLost if the device was lost too."""
    try:
        return work()
    except Failed:
        raise
    except Exception as error:
        if not clock.alive():
            raise DeviceLost(candidate, one_line(error)) from error
        raise Failed(one_line(error)) from error


def one_line(error: BaseException) -> str:
    """Returns the error's type and first line, at most 300 characters."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0]}"[:300]


def mean_seconds(run: Callable[[], object], calls: int = 1, wait: Callable[[], object] = lambda: None) -> float:
    """Returns the mean wall-clock seconds of a call, over `calls` calls in a row. `wait` waits for the device, if there is one."""
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    wait()
    return (time.perf_counter() - start) / calls
