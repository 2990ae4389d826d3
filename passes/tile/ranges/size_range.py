"""Describes the ranges of a symbolic size that a kernel function is copied for, on the function and on its launches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike, typical

from ...ir.reading import name_of, ops_in
from ...ir.sizes import read_size, size_attribute

SYMBOLS = "graph.symbols"
"""Pairs on a kernel function: the name of a symbol, and the size that stands for it in this function."""
LENGTHS = "graph.lengths"
"""Pairs on a kernel function: a product of symbols, such as the pixels of an image, and the size that stands for it along axes that
run over all of them."""
LATER = "graph.later"
"""On a kernel function that the call that was traced can do without."""

Condition = tuple[SizeLike, int]
"""A size is at most so large."""


@dataclass(frozen=True)
class SizeRange:
    """A range of sizes that a kernel of its own serves.

    word     what the kernel's name ends in; "" for the last range, which the kernel itself serves
    when     the conditions on the sizes of a call; the last range has none
    symbols  what stands for symbols in the kernel
    lengths  what stands for products of symbols along its axes
    choice   the schedule of a matrix product; None if it keeps the function's
    """

    word: str = ""
    when: tuple[Condition, ...] = ()
    symbols: Mapping[str, SizeLike] = field(default_factory=dict)
    lengths: Mapping[Size, Size] = field(default_factory=dict)
    choice: ir.Attribute | None = None

    @property
    def typical(self) -> bool:
        """Whether the sizes that were traced are in the range."""
        return all(typical(size) <= most for size, most in self.when)


def copies_for_ranges(module: ir.Module, kernel: ir.Operation, ranges: Sequence[SizeRange]) -> list[ir.Operation]:
    """Returns copies of a kernel in front of it, one for each range. A launch of each is put in front of each launch of the kernel:
    a call makes the first of them for which all conditions hold, on top of those of the kernel's."""
    name, found = name_of(kernel), []
    launches = launches_of(module, name)
    for one in ranges:
        with ir.InsertionPoint(kernel):
            copy = kernel.clone()
        copy.attributes["sym_name"] = ir.StringAttr.get(f"{name}_{one.word}", module.context)
        for launch in launches:
            with ir.InsertionPoint(launch):
                made = launch.clone()
            made.attributes["kernel"] = ir.FlatSymbolRefAttr.get(f"{name}_{one.word}", module.context)
            made.attributes["when"] = _conditions(launch, one.when)
        found.append(copy)
    for launch in launches:
        launch.attributes["when"] = _conditions(launch, ())
    return found


def stands_in(module: ir.Module, kernel: ir.Operation) -> bool:
    """Returns whether a kernel is the last one of several that compute the same."""
    return any("when" in op.attributes and not len(op.attributes["when"]) for op in launches_of(module, name_of(kernel)))


def symbols_attribute(symbols: Mapping[str, SizeLike]) -> ir.Attribute:
    """Returns the replacements of symbols as an attribute."""
    return ir.ArrayAttr.get([ir.ArrayAttr.get([ir.StringAttr.get(name), size_attribute(n)]) for name, n in symbols.items()])


def lengths_attribute(lengths: Mapping[Size, Size]) -> ir.Attribute:
    """Returns the replacements of products as an attribute."""
    return ir.ArrayAttr.get([ir.ArrayAttr.get([size_attribute(product), size_attribute(n)]) for product, n in lengths.items()])


def read_lengths(function: ir.Operation) -> dict[Size, Size]:
    """Returns the replacements of products of symbols in a kernel function."""
    pairs = function.attributes.get(LENGTHS, ())
    return {read_size(product): read_size(n) for product, n in pairs}  # type: ignore[misc]


def read_symbols(function: ir.Operation) -> dict[str, SizeLike]:
    """Returns the replacements of symbols in a kernel function."""
    if SYMBOLS not in function.attributes:
        return {}
    return {ir.StringAttr(name).value: read_size(size) for name, size in function.attributes[SYMBOLS]}


def _conditions(launch: ir.Operation, more: Sequence[Condition]) -> ir.Attribute:
    """Returns the conditions of a launch and others."""
    before = list(launch.attributes["when"]) if "when" in launch.attributes else []
    with launch.context:
        return ir.ArrayAttr.get([*before, *(ir.ArrayAttr.get(list(map(size_attribute, condition))) for condition in more)])


def launches_of(module: ir.Module, kernel: str = "") -> list[ir.Operation]:
    """Returns the launches of a module's programs. kernel: the one to launch; any where it is left out."""
    programs = ops_in(module.body, "plan.program")
    launches = [o.operation for p in programs for o in p.regions[0].blocks[0].operations if o.operation.name == "plan.launch"]
    return [op for op in launches if not kernel or op.attributes["kernel"].value == kernel]
