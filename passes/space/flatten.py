"""Flattens several axes of a program into one, even if not every access has a single stride over them.

GroupNorm's columns are the channels of a group and their pixels. The input is contiguous over both; the weights are constant over
the pixels of a channel. Over the one axis f, the channel is f // pixels and the pixel f - pixels * (f // pixels). What is
contiguous over both keeps the index f, since the quotients cancel.
"""

import math

from ..ir.affine import Affine, Axis
from ..ir.expressions import Apply, Const, Expr, Position
from .coalesce import Merged


def flatten(merged: Merged, axes: tuple[Axis, ...]) -> tuple[Merged, Axis]:
    """Returns `merged` with `axes` as one axis, and that axis. They must be adjacent among its columns or among its rows, the
    slowest first."""
    whole = Axis(math.prod(a.extent for a in axes), "".join(a.name for a in axes))
    quotients: dict[Expr, int] = {}
    change: dict[Axis, Affine] = {}
    inner, rest = 1, Affine.of(whole)
    for a in reversed(axes[1:]):
        inner *= a.extent
        quotient = _quotient(whole, inner)
        quotients[quotient] = inner
        change[a] = rest + Affine.of(quotient, -a.extent)
        rest = Affine.of(quotient)
    change[axes[0]] = rest
    rename = {a: at.rename(change) for a, at in merged.rename.items()} | change
    axis_of = {a: whole if m in axes else m for a, m in merged.axis_of.items()} | dict.fromkeys(axes, whole)

    def replaced(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Replaces the merged axes by the whole one."""
        if axes[0] not in old:
            return old
        at = old.index(axes[0])
        return (*old[:at], whole, *old[at + len(axes) :])

    return Merged(replaced(merged.rows), replaced(merged.columns), rename, axis_of, merged.lengths, quotients), whole


def _quotient(axis: Axis, by: int) -> Expr:
    return Apply("arith.divui", (Position(Affine.of(axis), "index"), Const(by, "index")), None, "index")
