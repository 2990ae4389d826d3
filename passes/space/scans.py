"""The axis that scans step along."""

from ..ir.affine import Axis
from ..ir.expressions import Scan
from ..trace.grouping import walk
from .coalesce import Merged
from .space import Space


def scanned_axis(space: Space, merged: Merged) -> Axis | None:
    """The axis that scans step along, where results are neighbours along it and nothing else is a column."""
    scans = {merged.axis_of.get(e.axis, e.axis) for r in space.results for e in walk(r.expr) if isinstance(e, Scan)}
    if len(scans) != 1 or set(merged.columns) != scans:
        return None
    (axis,) = scans
    return axis if all(r.at.rename(merged.rename).coefficient(axis) == 1 for r in space.results if r.full) else None


def has_scans(space: Space) -> bool:
    return any(isinstance(e, Scan) for r in space.results for e in walk(r.expr))
