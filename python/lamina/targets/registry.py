"""The registry of targets: for each kind, the function that returns its passes, and its Backend."""

from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from lamina.core.target import Kind, Target

from .base import Backend
from .steps import Steps

if TYPE_CHECKING:
    from lamina.passes.lower.tile_ops import TileOps


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

TILE_OPS = {
    "cpu": "lamina.passes.lower.cpu.tile_ops:TILE_OPS",
    "nvvm": "lamina.passes.lower.simt.tile_ops:TILE_OPS",
    "Triton": "lamina.targets.triton.printing.printer:Printer.tile_ops",
    "Triton, products": "lamina.targets.triton.printing.printer:Printer.product_ops",
}
"""Names the table of each lowering of tile programs: how it lowers each op of the tile dialect, or why it refuses it."""


def tile_ops() -> "dict[str, TileOps]":
    """Returns the tables, by lowering."""
    return {name: _imported(place) for name, place in TILE_OPS.items()}


def backend(target: Target) -> Backend:
    """Returns the Backend for a target."""
    return _imported(TARGETS[target.kind].backend)(target)


def steps(target: Target, **chosen: bool) -> Steps:
    """Returns the passes in which a target differs from others, under round_intermediates, freeze_weights and wide_sizes of
    lamina.Options."""
    return _imported(TARGETS[target.kind].steps)(target, **chosen)


def _imported(path: str) -> Any:
    module, name = path.split(":")
    return attrgetter(name)(import_module(module))
