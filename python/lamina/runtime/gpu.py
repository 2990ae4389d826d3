"""What the native runner needs for a program of a GPU, besides what `spec` makes of any program."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lamina.core import cubins
from lamina.core.program import Launch, Program

from .graphs import Recorder
from .recordable import drawn, draws
from .spec import spec_of


@dataclass(frozen=True)
class Driver:
    """What launches kernels: a library with the functions of NVIDIA's driver, and where the tensors are that its kernels work on
    ("cpu" for one that only stands in for a GPU)."""

    library: str
    tensors: Literal["cuda", "cpu"] = "cuda"


NVIDIA = Driver("libcuda.so.1")


def gpu_spec_of(
    program: Program, code: bytes, kernels: Sequence[str], target: str, driver: Driver, recorder: Recorder | None = None
) -> dict[str, Any]:
    """As spec_of, for cubins (core/cubins.py). With LAMINA_SYNC=1 each call waits after every step, so that a fault shows at its
    kernel's name and lines, an assertion of the device as an IndexError.

    recorder  runs are recorded as CUDA graphs through it: of what follows the program's leading draws (see `recordable`)
    """
    synchronous = os.environ.get("LAMINA_SYNC", "") == "1"
    program = with_lines(program) if synchronous else program
    spec = spec_of(program, {name: i for i, name in enumerate(kernels)}, (), driver.tensors)
    most = dict.fromkeys(kernels, (0, 1))
    for step in program.steps:
        if isinstance(step, Launch):
            shared, cluster = most[step.kernel]
            most[step.kernel] = (max(shared, step.shared), max(cluster, step.cluster))
    spec["gpu"] = {
        "target": target,
        "driver": driver.library,
        "tensors": driver.tensors,
        "synchronous": synchronous,
        "code": cubins.divide(code),
        "kernels": [(name, *limits) for name, limits in most.items()],
        "constants": spec["constants"],
        "recorder": recorder,
        "draws": draws(program),
        "drawn": drawn(program),
        "saved": program.saved,
    }
    return {**spec, "constants": []}


def with_lines(program: Program) -> Program:
    """The program whose launches are called by their kernels and the model's lines."""

    def named(step: Launch) -> Launch:
        lines = ", ".join(line for line in step.where if ":" in line)
        return replace(step, name=f"{step.name or step.kernel} ({lines})") if lines else step

    return replace(program, steps=tuple(named(s) if isinstance(s, Launch) else s for s in program.steps))
