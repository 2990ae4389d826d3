"""Describes the kernel functions of a planned module: their bodies, and the memory that they are launched with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.layout import Layout
from lamina.core.sizes import Size, SizeLike, all_symbols, maximum, substituted

from ..families.choice import CHOICE, ROWS
from ..families.gemm.block_sums import is_reduction
from ..ir.locations import where
from ..ir.reading import SCAN, SORT, Untraceable, element_type, name_of, shape_of
from ..plan.launches import ALIGNED, Argument, alignments, layouts
from ..space.direct_convolution import WINDOW
from ..space.scans import has_scans
from ..space.space import Space, find_space


@dataclass(frozen=True)
class Kernel:
    """A kernel function that becomes a tile program.

    arguments  memory that it is launched with, inputs then outputs
    aligned    bytes that this is aligned to
    lengths    products of symbols, and the symbols that stand for them in extents and strides
    """

    function: ir.Operation
    arguments: list[Argument]
    aligned: list[int]
    lengths: Mapping[Size, Size] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's name."""
        return name_of(self.function)

    @property
    def block(self) -> ir.Block:
        """The function's body."""
        return self.function.regions[0].blocks[0]

    @property
    def inputs(self) -> list[ir.Value]:
        """The function's arguments."""
        return list(self.block.arguments)

    @property
    def types(self) -> list[ir.MemRefType]:
        """The types of the tile function's arguments."""
        return [argument.type for argument in self.arguments]

    @property
    def outs(self) -> list[Argument]:
        """The memory of its results."""
        return self.arguments[len(self.inputs) :]

    @property
    def strides(self) -> list[tuple[SizeLike, ...]]:
        """The strides of its arguments, inputs then outputs, in elements."""
        return [argument.layout.strides for argument in self.arguments]

    @property
    def input_alignments(self) -> dict[ir.Value, int]:
        """The alignment of each argument."""
        return dict(zip(self.inputs, self.aligned, strict=False))

    @property
    def result_alignments(self) -> list[int]:
        """The alignment of each result."""
        return self.aligned[len(self.inputs) :]

    def space(self, round_half: bool, pairs: bool = False) -> Space:
        """Returns its iteration space. Raises Untraceable if it has none. pairs: see find_space."""
        count, strides = len(self.inputs), self.strides
        given = dict(zip(self.inputs, strides, strict=False))
        space = find_space(self.block, given, strides[count:], divide=True, round_half=round_half, pairs=pairs)
        return replace(space, lengths=self.lengths)

    def outside(self, size: SizeLike) -> SizeLike:
        """Returns a size of the kernel in its launches' symbols. What stands for a product becomes the maximum of the product and
        the least value that it has in this kernel, so that the bound stays known."""
        if not self.lengths:
            return size
        products = {s.name: maximum(product, s.minimum) for product, length in self.lengths.items() for s in all_symbols(length)}
        return substituted(size, products)

    @property
    def has_schedule(self) -> bool:
        """Whether kernel selection has set its schedule."""
        return any(name in self.function.attributes for name in (CHOICE, WINDOW, ROWS))

    def row_space(self, round_half: bool, scans: bool = False) -> Space | None:
        """Returns its iteration space if it reduces along rows, or, with `scans`, scans them, and no schedule is set; None for any
        other kernel."""
        reduces = any(is_reduction(op.operation) or (scans and op.operation.name in (SCAN, SORT)) for op in self.block.operations)
        if not reduces or self.has_schedule:
            return None
        try:
            space = self.space(round_half)
        except Untraceable:
            return None
        return space if space.columns and (scans or not has_scans(space)) else None


def kernels_of(module: ir.Module) -> Iterator[Kernel]:
    """Yields the kernel functions of a planned module in order. Raises CompileError for one that has no body."""
    launched, starts = layouts(module), alignments(module)
    for op in list(module.body.operations):
        f = op.operation
        if f.name != "func.func" or "graph.kernel" not in f.attributes:
            continue
        name = name_of(f)
        if not len(f.regions[0].blocks):
            raise CompileError(f"kernel @{name} has no body", where=where(f.location), remedy="give it one, or drop graph.kernel")
        arguments = launched.get(name) or _contiguous(f)
        yield Kernel(f, arguments, starts.get(name, [ALIGNED] * len(arguments)))


def _contiguous(f: ir.Operation) -> list[Argument]:
    """Returns contiguous layouts, for a kernel that nothing launches."""
    block = f.regions[0].blocks[0]
    values = [*block.arguments, *list(block.operations)[-1].operands]
    byte = ir.IntegerType.get_signless(8)
    elements = [byte if element_type(v) == "i1" else ir.ShapedType(v.type).element_type for v in values]
    return [Argument(element, Layout.row_major(shape_of(v))) for element, v in zip(elements, values, strict=True)]
