"""Measures the time of every step of a program on the CPU, by torch.profiler, which records each step under its name."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from lamina.core.program import Program
from lamina.core.program_needs import require_number
from lamina.runtime.dtypes import DTYPES
from lamina.tune.problems.inputs import random_tensors


def step_seconds(run: Callable[..., Any], program: Program, *, repeat: int = 10) -> list[float]:
    """Returns the least seconds of every step of a loaded program over `repeat` calls, on inputs made for it."""
    inputs = random_inputs(program, torch.device("cpu"))
    names = [step.name or (step.kernel if hasattr(step, "kernel") else step.callee) for step in program.steps]
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler of torch 2.13 announces its start and end on stderr
    with torch.no_grad():
        run(*inputs)
        run(*inputs)
        with profile(activities=[ProfilerActivity.CPU], acc_events=True) as watched:
            for _ in range(repeat):
                run(*inputs)
    return best(names, [(e.name, e.time_range.start, e.time_range.end) for e in watched.events()], repeat)


def best(names: Sequence[str], events: Sequence[tuple[str, float, float]], repeat: int) -> list[float]:
    """Returns the least seconds of every step from the events (name, start, end in microseconds) of `repeat` calls.

    The steps of a call follow each other; events that a library routine records within its step lie inside it. Raises RuntimeError
    if the events of a step are not `repeat` in number.
    """
    ordered = sorted(events, key=lambda e: (e[1], -e[2]))
    times: list[list[float]] = [[] for _ in names]
    expected, busy_until = 0, float("-inf")
    for name, start, end in ordered:
        if not names or start < busy_until or name != names[expected]:
            continue
        times[expected].append((end - start) * 1e-6)
        expected, busy_until = (expected + 1) % len(names), end
    if any(len(found) != repeat for found in times):
        raise RuntimeError(f"torch.profiler saw {min(map(len, times))} of {repeat} runs of a step")
    return [min(found) for found in times]


def random_inputs(program: Program, device: torch.device) -> list[torch.Tensor]:
    """Returns random inputs for a program; see lamina.tune.problems.inputs."""
    sizes = [tuple(tuple(require_number(n, "an input") for n in ns) for ns in (i.shape, i.strides)) for i in program.inputs]
    return random_tensors([(DTYPES[i.dtype], *size) for i, size in zip(program.inputs, sizes, strict=True)], device)
