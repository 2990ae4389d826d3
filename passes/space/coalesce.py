"""Coalesces loops: adjacent axes become one where every access has a single stride over both."""

from dataclasses import dataclass, field

from ..ir.affine import ZERO, Affine, Axis
from ..ir.expressions import Expr


@dataclass(frozen=True)
class Merged:
    """Axes after merging.

    rows, columns  the merged axes
    rename         turns an index over the old axes into one over the new
    axis_of        the new axis of each old one that was merged
    quotients      terms of indices that are an axis divided by a number (see flatten.py), and that number
    """

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    rename: dict[Axis, Affine]
    axis_of: dict[Axis, Axis]
    quotients: dict[Expr, int] = field(default_factory=dict)

    def parts(self, axis: Axis) -> tuple[Axis, ...]:
        """Returns the axes that a merged one was made of, the last the fastest; the axis itself where it was not merged."""
        return tuple(a for a, whole in self.axis_of.items() if whole is axis) or (axis,)

    def is_even(self, at: Affine) -> bool:
        """Returns whether an index over the axes before merging has a single stride along each merged axis."""
        for axis in dict.fromkeys(self.axis_of.values()):
            *_, last = parts = self.parts(axis)
            step = at.coefficient(last)
            for a in reversed(parts):
                if at.coefficient(a) != step:
                    return False
                step *= a.extent
        return True


def coalesce(rows: tuple[Axis, ...], columns: tuple[Axis, ...], places: list[Affine]) -> Merged:
    """Merges adjacent axes within rows and within columns. Axes of one iteration are dropped."""
    rename: dict[Axis, Affine] = {}
    axis_of: dict[Axis, Axis] = {}

    def merge(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        runs: list[list[Axis]] = []
        for a in axes:
            if a.extent == 1:
                continue
            if runs and all(p.coefficient(runs[-1][-1]) == p.coefficient(a) * a.extent for p in places):
                runs[-1].append(a)
            else:
                runs.append([a])
        out = []
        for run in runs:
            if len(run) == 1:
                out.append(run[0])
                continue
            extent = 1
            for a in run:
                extent *= a.extent
            axis = Axis(extent, "".join(a.name for a in run))
            for a in run[:-1]:
                rename[a] = ZERO
            rename[run[-1]] = Affine.of(axis)
            axis_of.update(dict.fromkeys(run, axis))
            out.append(axis)
        return tuple(out)

    return Merged(merge(rows), merge(columns), rename, axis_of)
