"""Finds the axis that scans and sorts run along."""

from ..ir.affine import Axis
from ..ir.expressions import Scan
from ..ir.reading import SORT
from .coalesce import Merged
from .space import Space


def scanned_axis(space: Space, merged: Merged) -> Axis | None:
    """Returns the axis that scans run along, where no other axis is a column, and results are contiguous along it or sorted; else
    None."""
    scans = merged.merged(e.axis for e in space.expressions if isinstance(e, Scan))
    if len(scans) != 1 or set(merged.columns) != scans:
        return None
    (axis,) = scans
    contiguous = all(merged.index(r.offset).coefficient(axis) == 1 for r in space.results if r.full)
    return axis if contiguous or has_sorts(space) else None


def has_scans(space: Space) -> bool:
    """Returns whether a space computes a scan or a sort."""
    return any(isinstance(e, Scan) for e in space.expressions)


def has_sorts(space: Space) -> bool:
    """Returns whether a space computes a sort: a block holds all of a row."""
    return any(isinstance(e, Scan) and e.op == SORT for e in space.expressions)
