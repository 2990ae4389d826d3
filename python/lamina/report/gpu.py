"""Measures the peak rates of a GPU, and the time of every step of a program there."""

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from lamina.core.gpu import Gpu
from lamina.core.program import Launch, Program, Step
from lamina.runtime.executable import Executable
from lamina.runtime.recording.graph_status import Status

from .explanation import Peaks
from .measure import random_inputs
from .roofline import cached_peaks

COPY_BYTES = 1 << 29  # one tensor, larger than any cache; the copy moves twice as much
_RUNS = 10
_RUNS_TO_CHOOSE = 40  # calls after which it is decided whether a program runs as a CUDA graph


def gpu_peaks(index: int, *, again: bool) -> Peaks:
    """Returns the peaks of GPU number `index`: its measured bandwidth (see cached_peaks), and its model's f32 rate."""
    name = torch.cuda.get_device_name(index)
    gpu = Gpu.of_capability(*torch.cuda.get_device_capability(index))
    sms = torch.cuda.get_device_properties(index).multi_processor_count
    flops = gpu.peak("f32") * sms / gpu.sm_count
    device = f"{name} ({gpu.arch})"
    return cached_peaks(device, lambda: Peaks(device, sms, _copy_bandwidth(index), flops, "multiprocessors"), again=again)


def _copy_bandwidth(index: int) -> float:
    """Bytes a second, read and written, of `out.copy_(x)`: the best of several runs."""
    x = torch.ones(COPY_BYTES // 4, device=f"cuda:{index}")
    out = torch.empty_like(x)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(_RUNS + 1)]
    with torch.cuda.device(index):
        out.copy_(x)
        for mark in marks[:-1]:
            mark.record()
            out.copy_(x)
        marks[-1].record()
        torch.cuda.synchronize()
    return 2 * COPY_BYTES / (min(a.elapsed_time(b) for a, b in itertools.pairwise(marks)) * 1e-3)


def step_seconds_on_gpu(run: Callable[..., Any], program: Program, index: int, *, repeat: int = 10) -> list[float]:
    """Returns the least GPU time in seconds of every step of a loaded program over `repeat` calls, on inputs made for it."""
    inputs = random_inputs(program, torch.device("cuda", index))
    with torch.no_grad():
        for _ in range(2):
            run(*inputs)
        torch.cuda.synchronize(index)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as watched:
            for _ in range(repeat):
                run(*inputs)
            torch.cuda.synchronize(index)
    events = [e for e in watched.events() if e.device_type == DeviceType.CUDA]
    return by_step(program.steps, [(e.name, e.time_range.start, e.time_range.end) for e in events], repeat)


def graph_status(run: Executable, index: int) -> Status | None:
    """Returns whether a loaded program runs as a CUDA graph. Calls the program until that is decided, and waits for the GPU after
    each call."""
    inputs = random_inputs(run.program, torch.device("cuda", index))
    with torch.no_grad():
        for _ in range(_RUNS_TO_CHOOSE):
            run(*inputs)
            torch.cuda.synchronize(index)
            status = run.status()
            if status is not None and status.is_settled:
                break
    return status


def by_step(steps: Sequence[Step], events: Sequence[tuple[str, float, float]], repeat: int) -> list[float]:
    """Returns the seconds of every step from the GPU's events (name, start, end in microseconds) in `repeat` calls.

    Lamina's kernels carry their names; the events between two of them belong to the calls between them. Consecutive calls share
    their time evenly, as nothing distinguishes their kernels. Raises RuntimeError for events that do not fit the steps.
    """
    ordered = sorted(events, key=lambda e: e[1])
    if len(ordered) % repeat:
        raise RuntimeError(f"torch.profiler saw {len(ordered)} kernels in {repeat} calls that do the same")
    each = len(ordered) // repeat
    calls = [_one_call(steps, ordered[i : i + each]) for i in range(0, len(ordered), each)] if each else []
    return [min(times) for times in zip(*calls, strict=True)] if calls else [0.0] * len(steps)


def _one_call(steps: Sequence[Step], events: Sequence[tuple[str, float, float]]) -> list[float]:
    """Returns the seconds of every step in one call."""
    seconds: list[float] = []
    left = deque(events)
    while len(seconds) < len(steps):
        rest = steps[len(seconds) :]
        if not isinstance(step := rest[0], Launch):
            calls = len(list(itertools.takewhile(lambda s: not isinstance(s, Launch), rest)))
            following = next((s.kernel for s in rest if isinstance(s, Launch) and s.grid), None)
            kernels = []
            while left and left[0][0] != following:
                kernels.append(left.popleft())
            seconds += [_seconds(kernels) / calls] * calls
        elif not step.grid:
            seconds.append(0.0)
        elif left and left[0][0] == step.kernel:
            seconds.append(_seconds([left.popleft()]))
        else:
            raise RuntimeError(f"torch.profiler saw {left[0][0] if left else 'nothing'} where {step.kernel} was expected")
    return seconds


def _seconds(events: Sequence[tuple[str, float, float]]) -> float:
    return sum(end - start for _, start, end in events) * 1e-6
