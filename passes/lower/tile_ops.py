"""The type of the tables that give, for each op of tile programs, the function that lowers it for a target, or why none does.

A table has a row for every op of the tile dialect and for random.bits. `lamina.targets.registry.TILE_OPS` names the tables,
`docs/passes.md` shows them side by side, and `test/unit/test_tile_ops.py` lowers a program with each op by each of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from lamina.core.errors import CompileError

from ..ir.locations import where


@dataclass(frozen=True)
class Elsewhere:
    """Names what lowers an op outside of the loop over ops: a pass that runs before, or the code that makes the function."""

    lowered_by: str


@dataclass(frozen=True)
class Refused:
    """Says why a target has no form for an op, and what to emit instead."""

    why: str
    remedy: str


Row = Callable[..., Any] | Elsewhere | Refused
TileOps = Mapping[str, Row]


def handlers(table: TileOps) -> dict[str, Callable[..., Any]]:
    """Returns the rows that are functions, by op."""
    return {name: row for name, row in table.items() if not isinstance(row, Elsewhere | Refused)}


def refuse(ops: Mapping[str, Sequence[ir.Operation]], table: TileOps, target: str) -> None:
    """Raises CompileError for the first of a function's ops, given by name, that the table of `target` refuses."""
    for name, found in ops.items():
        row = table.get(name)
        if isinstance(row, Refused):
            raise refusal(found[0], row, target)


def refusal(op: ir.Operation, row: Refused, target: str) -> CompileError:
    """Returns the error for an op that `target` refuses."""
    return CompileError(f"{target} has no form for {op.name}: {row.why}", where=where(op.location), remedy=row.remedy)
