"""Measures the time of every step of a program on the CPU, by torch.profiler, which records each step under its name."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from lamina.core.program import Program, TensorSpec

DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "c64": torch.complex64, "c128": torch.complex128,
    "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
}  # fmt: skip


def step_seconds(run: Callable[..., Any], program: Program, *, repeat: int = 10) -> list[float]:
    """Returns the least seconds of every step of a loaded program over `repeat` calls, on inputs made for it."""
    inputs = [make(spec) for spec in program.inputs]
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
    where the events of a step are not `repeat` in number.
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


def make(spec: TensorSpec) -> torch.Tensor:
    """Returns a tensor of the program's input spec: normal random numbers, and zeros for integers, which may be indices."""
    tensor = torch.empty_strided(spec.shape, spec.strides, dtype=DTYPES[spec.dtype])
    if tensor.is_floating_point() and tensor.element_size() > 1:
        return tensor.normal_()
    return tensor.zero_()
