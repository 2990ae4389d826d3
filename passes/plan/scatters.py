"""Finds the operands of groups some of whose elements a kernel overwrites (graph.scatter)."""

from torch_mlir import ir

from lamina.dialects.graph import IN_PLACE

from ..ir.reading import SCATTER, producer, terminator
from ..ir.views import is_view
from .model import ValuePlace


def changed_operand(result: ir.Value) -> int | None:
    """Returns the number of the group's operand that a result is, with other elements; None for a tensor of its own."""
    group = result.owner
    defining = producer(terminator(group.regions[0].blocks[0]).operands[ir.OpResult(result).result_number])
    return ir.BlockArgument(defining.operands[0]).arg_number if defining is not None and defining.name == SCATTER else None


def may_change(group: ir.Operation, number: int, place: ValuePlace) -> bool:
    """Returns whether a group may overwrite elements of an operand: that is what it is to do, or nothing else reads the operand."""
    value, inside = group.operands[number], group.regions[0].blocks[0].arguments[number]
    if any(IN_PLACE in use.owner.attributes for use in inside.uses):
        return True
    if place.root.kind not in ("arena", "owned") or place.root.aliases or place.layout != place.root.layout:
        return False
    return len(list(value.uses)) == 1 and len(list(inside.uses)) == 1 and not is_view(value.owner)
