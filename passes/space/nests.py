"""Splits a program into loop nests over the columns, and chooses the values to keep from one nest for the next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina.core.walks import reachable

from ..ir.affine import Axis
from ..ir.expressions import Apply, Const, Expr, Reduce, Scan, walk
from ..trace.costs import COST
from .space import Result, Space


@dataclass
class Nest:
    """One loop nest over columns: reductions of one level, or full results, each with the memory it goes to.

    axes        its loops
    reductions  accumulated in it
    results     full results stored in it, each with its memory
    scans       computed in it
    online      pairs of a maximum of x and a sum of exp(x - max x), found together (online softmax)
    """

    axes: tuple[Axis, ...]
    reductions: list[Reduce] = field(default_factory=list)
    results: list[tuple[Result, Any]] = field(default_factory=list)
    scans: list[Scan] = field(default_factory=list)
    online: list[tuple[Reduce, Reduce]] = field(default_factory=list)

    @property
    def carried(self) -> list[Reduce | Scan]:
        """The reductions and scans, whose values loops carry."""
        return [*self.reductions, *self.scans]

    def roots(self) -> list[Expr]:
        """Returns the expressions that the nest computes of each element."""
        pairs = [largest.arg for largest, _ in self.online]
        return [x for r in self.carried for x in r.args] + pairs + [r.expr for r, _ in self.results]


def nests_of(space: Space, columns: tuple[Axis, ...], results: Sequence[tuple[Result, Any]], online: bool = False) -> list[Nest]:
    """Returns one nest per level of reductions, and one for the full results: the last of the others, if no result waits for its
    reductions.

    columns  the merged axes of the space's columns
    online   sums of exp(x - max x) need no loop after that of the maximum
    """
    pairs = {total: largest for total in space.reductions if (largest := _exponent_base(total))} if online else {}
    level: dict[Reduce, int] = {}
    for r in space.reductions:
        level[r] = 1 + max((level[e] for e in walk(r.arg) if isinstance(e, Reduce)), default=0) - (r in pairs)
    nests: dict[tuple[int, tuple[Axis, ...]], Nest] = {}
    for r in space.reductions:
        axes = columns if r.axes == space.columns else tuple(a for a in r.axes if a.extent != 1)
        nest = nests.setdefault((level[r], axes), Nest(axes))
        if r in pairs:
            nest.online.append((pairs[r], r))
        elif r not in pairs.values():
            nest.reductions.append(r)
    out = [nests[k] for k in sorted(nests, key=lambda k: k[0])]
    full = [(r, flat) for r, flat in results if r.full and space.columns]
    if full:
        scans = dict.fromkeys(e for r, _ in full for e in walk(r.expr) if isinstance(e, Scan))
        if out and out[-1].axes == columns and not scans and not out[-1].online and not _wait(full, out[-1].reductions):
            out[-1].results = full
        else:
            out.append(Nest(columns, results=full, scans=list(scans)))
    return out


def _wait(full: Sequence[tuple[Result, Any]], reductions: Sequence[Reduce]) -> bool:
    """Returns whether a result needs one of the reductions."""
    return any(e in reductions for r, _ in full for e in walk(r.expr) if isinstance(e, Reduce))


def _exponent_base(total: Reduce) -> Reduce | None:
    """Returns max x, of a sum of exp(x - max x) over the same elements."""
    power = total.arg
    if total.op != "arith.addf" or not (isinstance(power, Apply) and power.op == "math.exp" and power.dtype == "f32"):
        return None
    difference = power.operands[0]
    if not (isinstance(difference, Apply) and difference.op == "arith.subf"):
        return None
    x, largest = difference.operands
    same = isinstance(largest, Reduce) and largest.op == "arith.maximumf" and largest.arg is x and largest.axes == total.axes
    return largest if same and isinstance(largest, Reduce) else None


def worth_keeping(nests: list[Nest], columns: tuple[Axis, ...], pays: Callable[[Expr], bool]) -> dict[Expr, int]:
    """Returns the values that two nests over the columns need, and of which it pays to keep them, each with the index of the first
    nest that computes it."""
    first: dict[Expr, int] = {}
    chosen: dict[Expr, int] = {}
    for i, nest in enumerate(nests):
        if nest.axes != columns:
            continue
        stack = nest.roots()
        seen: set[Expr] = set()
        while stack:
            e = stack.pop()
            if e in seen or isinstance(e, Reduce | Const):
                continue
            seen.add(e)
            if e in first and first[e] < i and pays(e):
                chosen.setdefault(e, first[e])
                continue
            stack.extend(e.args)
        for e in seen:
            for x in walk(e):
                first.setdefault(x, i)
    return chosen


def cost(e: Expr) -> int:
    """Returns the cost of the operations under `e`, down to loads and reductions."""
    under = reachable([e], lambda x: [a for a in x.args if not isinstance(a, Reduce)])
    return sum(COST.get(x.op, 1) for x in under if isinstance(x, Apply))
