"""Builds the native runner's input for a GPU program: that of spec.py, plus cubins, launch limits and CUDA graph recording."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lamina.core.program import Launch, Program

from . import cubins
from .recording.graphs import Recorder
from .recording.recordable import drawn_buffers, leading_draws
from .spec import spec_of


@dataclass(frozen=True)
class Driver:
    """The library that launches kernels.

    library  a shared library with the functions of NVIDIA's driver
    tensors  the device of the tensors that kernels work on; "cpu" for a library that simulates a GPU
    """

    library: str
    tensors: Literal["cuda", "cpu"] = "cuda"


NVIDIA = Driver("libcuda.so.1")


def gpu_spec_of(
    program: Program, code: bytes, kernels: Sequence[str], target: str, driver: Driver, recorder: Recorder | None
) -> dict[str, Any]:
    """Returns the runner's input for a GPU program.

    If the environment has LAMINA_SYNC=1, each call synchronizes after every step, so that a fault names its kernel and source
    lines, and a failed check of an index raises IndexError at its launch.

    code      the program's cubins (cubins.py)
    kernels   the names of its kernels, in the order of `code`
    target    the target's text, "nvvm:sm_90a"
    recorder  records runs as CUDA graphs, without the draws of seeds at the start of a program (recordable.py)
    """
    synchronous = os.environ.get("LAMINA_SYNC", "") == "1"
    program = with_lines(program) if synchronous else program
    spec = spec_of(program, {name: i for i, name in enumerate(kernels)}, (), driver.tensors)
    limits = dict.fromkeys(kernels, (0, 1))  # most bytes of shared memory and CTAs of a cluster
    for step in program.steps:
        if isinstance(step, Launch):
            shared, cluster = limits[step.kernel]
            limits[step.kernel] = (max(shared, step.shared), max(cluster, step.cluster))
    spec["gpu"] = {
        "target": target,
        "driver": driver.library,
        "tensors": driver.tensors,
        "synchronous": synchronous,
        "code": cubins.divide(code),
        "kernels": [(name, shared, cluster) for name, (shared, cluster) in limits.items()],
        "constants": spec["constants"],
        "recorder": recorder,
        "draws": leading_draws(program),
        "drawn": drawn_buffers(program),
        "saved": program.saved,
    }
    return {**spec, "constants": []}


def with_lines(program: Program) -> Program:
    """Returns the program with the model's source lines added to the names of its launches."""

    def named(step: Launch) -> Launch:
        """Adds the model's lines to the name of a launch."""
        lines = ", ".join(line for line in step.where if ":" in line)
        return replace(step, name=f"{step.name or step.kernel} ({lines})") if lines else step

    return replace(program, steps=tuple(named(s) if isinstance(s, Launch) else s for s in program.steps))
