"""Orders the groups of a function and the calls between them, so that each reads only what was computed before it."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from torch_mlir import ir

from lamina.core.walks import operands_first

from ..trace.grouping import Group
from ..trace.uses import OUTSIDE

Unit: TypeAlias = Group | ir.Operation


def in_order(ops: Sequence[ir.Operation], groups: Sequence[Group], bases: Mapping[ir.Value, ir.Value]) -> list[Unit]:
    """Returns groups and the ops that stay outside of groups, except the terminator, in topological order and close to program
    order. Ops with effects keep their order.

    ops    all ops of the function's body, the terminator last
    bases  for each view, the value whose memory it views
    """
    unit_of: dict[ir.Value, Unit] = {n.value: g for g in groups for n in g.nodes}
    reads: dict[Unit, list[ir.Value]] = {g: [v for n in g.nodes for v in n.reads] for g in groups}
    position: dict[Unit, int] = {g: min(n.position for n in g.nodes) for g in groups}
    earlier_effect: dict[Unit, Unit] = {}
    last_effect: ir.Operation | None = None
    for i, op in enumerate(ops[:-1]):
        if op.name not in OUTSIDE:
            continue
        reads[op], position[op] = [bases.get(v, v) for v in op.operands], i
        unit_of.update(dict.fromkeys(op.results, op))
        if "graph.effect" in op.attributes:
            if last_effect is not None:
                earlier_effect[op] = last_effect
            last_effect = op

    def needs(unit: Unit) -> list[Unit]:
        """Returns the units that must precede a unit, the last first."""
        producers = [unit_of[v] for v in reads[unit] if v in unit_of and unit_of[v] is not unit]
        return [*([earlier_effect[unit]] if unit in earlier_effect else []), *reversed(producers)]

    return list(operands_first(sorted(reads, key=position.__getitem__), needs))
