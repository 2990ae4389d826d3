"""Notes the calls for which a program of symbolic sizes should be compiled again, with their sizes as the typical ones: passes
decide by typical sizes what one kernel computes, and a call of another scale may need another division of the work."""

from collections.abc import Iterable, Sequence

from torch_mlir import ir

from lamina.core.program import When
from lamina.core.sizes import SizeLike

from ..ir.sizes import read_size, size_attribute

OUTGROWN = "graph.outgrown"
"""On a module: groups of pairs (size, limit). A call in which every size of a group is at most its limit is of another scale."""

Condition = tuple[SizeLike, int]
"""A size is at most so large."""


def note_outgrown(module: ir.Module, groups: Iterable[Sequence[Condition]]) -> None:
    """Adds groups of conditions to a module's, those that hold for some calls only."""
    attributes = module.operation.attributes
    noted = list(attributes[OUTGROWN]) if OUTGROWN in attributes else []
    with module.context:
        for group in groups:
            undecided = [(size, limit) for size, limit in group if not isinstance(size, int)]
            if undecided and all(size <= limit for size, limit in group if isinstance(size, int)):
                pairs = [ir.ArrayAttr.get([size_attribute(size), size_attribute(limit)]) for size, limit in undecided]
                noted.append(ir.ArrayAttr.get(pairs))
        if noted:
            attributes[OUTGROWN] = ir.ArrayAttr.get(list(dict.fromkeys(noted)))


def take_outgrown(module: ir.Module) -> tuple[tuple[When, ...], ...]:
    """Removes the conditions from a module, and returns them."""
    attributes = module.operation.attributes
    if OUTGROWN not in attributes:
        return ()
    groups = attributes[OUTGROWN]
    del attributes[OUTGROWN]
    return tuple(tuple(When(read_size(size), int(read_size(limit))) for size, limit in group) for group in groups)
