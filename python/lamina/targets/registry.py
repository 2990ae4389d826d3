"""The registry of targets: for each kind, the function that returns its passes, and its Backend."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lamina.core.target import Kind, Target

from .base import Backend
from .steps import Steps


@dataclass(frozen=True)
class TargetEntry:
    """Names a target's parts as "module:name". They are imported on demand: LLVM and MLIR take a while.

    steps    the function that returns its Steps
    backend  the Backend's class
    """

    steps: str
    backend: str


TARGETS: dict[Kind, TargetEntry] = {
    "cpu": TargetEntry("lamina.targets.cpu.steps:steps", "lamina.targets.cpu.backend:CpuBackend"),
    "nvvm": TargetEntry("lamina.targets.nvvm.steps:steps", "lamina.targets.nvvm.backend:NvvmBackend"),
}


def backend(target: Target) -> Backend:
    """Returns the Backend for a target."""
    made: Backend = _load(TARGETS[target.kind].backend)(target)
    return made


def steps(target: Target, *, round_intermediates: bool, freeze_weights: bool) -> Steps:
    """Returns the passes in which a target differs from others, under two of lamina.Options."""
    found: Steps = _load(TARGETS[target.kind].steps)(target, round_intermediates=round_intermediates, freeze_weights=freeze_weights)
    return found


def _load(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)
