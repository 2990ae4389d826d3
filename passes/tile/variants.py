"""Makes several kernel functions of one, for ranges of a symbolic size: a schedule for thousands of rows leaves most of a GPU idle
where a call has few."""

from collections.abc import Sequence
from itertools import pairwise

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.sizes import SizeLike

from ..families.choice import CHOICE, SMALLER
from ..ir.locations import where
from ..ir.reading import name_of, ops_in
from ..ir.sizes import read_size, size_attribute


def variants(module: ir.Module, function: ir.Operation) -> list[ir.Operation]:
    """Returns copies of a kernel function, one for each choice in its `graph.smaller`, for the sizes that this is for."""
    if SMALLER not in function.attributes:
        return []
    given = function.attributes[SMALLER]
    del function.attributes[SMALLER]
    ends = [ir.IntegerAttr(most).value for most in given["most"]]
    if any(most <= above for above, most in pairwise((-1, *ends))):
        raise CompileError(f"{SMALLER} is not in order: {ends}", where=where(function.location), remedy="sort it by `most`")
    made = copied(module, function, [f"to_{most}" for most in ends], [[(read_size(given["size"]), most)] for most in ends])
    for copy, choice in zip(made, given["choices"], strict=True):
        copy.attributes[CHOICE] = choice
    return made


Condition = tuple[SizeLike, int]
"""A size is at most so large."""


def copied(
    module: ir.Module, kernel: ir.Operation, words: Sequence[str], whens: Sequence[Sequence[Condition]]
) -> list[ir.Operation]:
    """Returns copies of a kernel in front of it, their names with these words. A launch of each is put in front of each launch of
    the kernel: a call makes the first of them for which all of its conditions in `whens` hold, on top of those of the kernel's."""
    name, found = name_of(kernel), []
    launches = [op for op in launches_of(module) if op.attributes["kernel"].value == name]
    for word, when in zip(words, whens, strict=True):
        with ir.InsertionPoint(kernel):
            copy = kernel.clone()
        copy.attributes["sym_name"] = ir.StringAttr.get(f"{name}_{word}", module.context)
        for launch in launches:
            with ir.InsertionPoint(launch):
                made = launch.clone()
            made.attributes["kernel"] = ir.FlatSymbolRefAttr.get(f"{name}_{word}", module.context)
            made.attributes["when"] = _conditions(launch, when)
        found.append(copy)
    for launch in launches:
        launch.attributes["when"] = _conditions(launch, ())
    return found


def stands_in(module: ir.Module, kernel: ir.Operation) -> bool:
    """Returns whether a kernel is the last one of several that compute the same."""
    name = name_of(kernel)
    launches = [op for op in launches_of(module) if op.attributes["kernel"].value == name]
    return any("when" in op.attributes and not len(op.attributes["when"]) for op in launches)


def _conditions(launch: ir.Operation, more: Sequence[Condition]) -> ir.Attribute:
    """Returns the conditions of a launch and others."""
    before = list(launch.attributes["when"]) if "when" in launch.attributes else []
    with launch.context:
        return ir.ArrayAttr.get([*before, *(ir.ArrayAttr.get(list(map(size_attribute, condition))) for condition in more)])


def launches_of(module: ir.Module) -> list[ir.Operation]:
    """Returns the launches of a module's programs."""
    programs = ops_in(module.body, "plan.program")
    return [o.operation for p in programs for o in p.regions[0].blocks[0].operations if o.operation.name == "plan.launch"]
