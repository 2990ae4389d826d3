"""lamina-size-ranges: copies kernels with symbolic sizes, so that each copy is for a range of a size."""

from dataclasses import dataclass, field
from typing import ClassVar

from torch_mlir import ir

from lamina.core.target import Target

from ...families.choice import CHOICE
from ...infra.base import Pass
from ..kernel import Kernel, kernels_of
from .amounts import amount_ranges
from .row_ranges import row_ranges
from .size_range import LATER, LENGTHS, SYMBOLS, SizeRange, copies_for_ranges, lengths_attribute, symbols_attribute
from .variants import take_variants
from .whole_rows import whole_rows


@dataclass(frozen=True)
class SizeRanges(Pass):
    """Copy kernel functions for ranges of a symbolic size, where a range has a better schedule than any size has.

    Four kinds of functions are copied: those with `graph.smaller`, for which lamina-select-kernels has chosen schedules by size;
    those that reduce along rows of symbolic length, for lengths that one block holds, or across them, for few columns or few rows,
    both for multiples of a thread's access too; those that reduce nothing, for such multiples, for pairs and for short rows; those
    of rows of a known length, for few and for many of them. Small functions that lamina-horizontal may join with others are not
    copied for the latter three.

    Before: planned kernel functions. After: each copy has `graph.symbols` or `graph.lengths`, the sizes that stand in it for
    symbols or for products of them along merged axes: lamina-tile reads them. Each launch becomes one for each range (`when`), of
    which a call makes the first whose conditions hold. Copies that the call that was traced can do without are marked
    `graph.later`: they are compiled when a call first needs them.

        func.func private @softmax(tensor<?x?xf32, ["s0~64", "s1~4000"]>) attributes {graph.kernel}
     -> func.func private @softmax_to_61(...) attributes {graph.kernel, graph.later, graph.symbols = [["s1", "s1~61<=61"]]}
        ...
        func.func private @softmax(...) attributes {graph.kernel, graph.later, graph.symbols = [["s1", "s1~262144"]]}

    target               the machine
    round_intermediates  as in lamina-tile
    """

    name: ClassVar[str] = "lamina-size-ranges"
    target: Target = field(default_factory=Target.host)
    round_intermediates: bool = False

    def run(self, module: ir.Module) -> None:
        """Copies the module's kernel functions and their launches."""
        for kernel in kernels_of(module):
            if ranges := self._ranges(module, kernel):
                _copy(module, kernel.function, ranges)

    def _ranges(self, module: ir.Module, kernel: Kernel) -> list[SizeRange]:
        if ranges := take_variants(kernel.function):
            return ranges
        if not self.target.is_gpu or not any(argument.symbolic for argument in kernel.arguments):
            return []
        found = row_ranges(module, kernel, self.round_intermediates) or whole_rows(module, kernel, self.round_intermediates)
        return found or amount_ranges(module, kernel, self.round_intermediates, self.target.gpu)


def _copy(module: ir.Module, function: ir.Operation, ranges: list[SizeRange]) -> None:
    """Makes a function for each range; the given one serves the last."""
    functions = [*copies_for_ranges(module, function, ranges[:-1]), function]
    needed = next(i for i, one in enumerate(ranges) if one.typical)
    with module.context:
        for i, (copy, one) in enumerate(zip(functions, ranges, strict=True)):
            if one.symbols:
                copy.attributes[SYMBOLS] = symbols_attribute(one.symbols)
            if one.lengths:
                copy.attributes[LENGTHS] = lengths_attribute(one.lengths)
            if one.choice is not None:
                copy.attributes[CHOICE] = one.choice
            if i != needed:
                copy.attributes[LATER] = ir.UnitAttr.get()
