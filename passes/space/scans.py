"""Finds the axis that scans run along."""

from ..ir.affine import Axis
from ..ir.expressions import Scan
from .coalesce import Merged
from .space import Space


def scanned_axis(space: Space, merged: Merged) -> Axis | None:
    """Returns the axis that scans run along, where results are contiguous along it and no other axis is a column; else None."""
    scans = merged.merged(e.axis for e in space.expressions if isinstance(e, Scan))
    if len(scans) != 1 or set(merged.columns) != scans:
        return None
    (axis,) = scans
    return axis if all(r.at.rename(merged.rename).coefficient(axis) == 1 for r in space.results if r.full) else None


def has_scans(space: Space) -> bool:
    """Returns whether a space computes a scan."""
    return any(isinstance(e, Scan) for e in space.expressions)
