"""Arguments of tile functions: memory with the layouts of their launches, and symbolic sizes.

A function that computes with symbolic sizes takes one more argument, a memref that holds their values: of i64, or on GPUs of i32,
where no tensor has more than 2**30 elements (core/binding sees to that). Its attribute `tile.sizes` says which they are; they end
with the reciprocals of those that lamina-distribute divides by. Memory of symbolic shape arrives as a bare memref of its first
element.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from lamina.core.sizes import Size, SizeLike, at_most, is_symbolic

from ..ir.affine import Affine, Axis
from ..ir.sizes import KERNEL_SIZES, reciprocal, size_attribute
from ..plan.launches import Argument
from ..space.coalesce import with_length_symbols

DIVISIONS = ("arith.divui", "arith.remui")


@dataclass
class KernelSizes:
    """The symbolic sizes that one tile function computes with.

    entry      its block
    arguments  the memory that it is given
    bits       of a value in memory; with 32, indices may have as many
    lengths    see Kernel: they say what numbers divide the elements of memory
    spans      elements from the first to the last of each flat memref
    values     the index value of each size, loaded at the start of the block
    reached    the least and largest positions that the function computes, which need as many bits as sizes do
    """

    entry: ir.Block
    arguments: dict[ir.Value, Argument]
    bits: int = 64
    lengths: Mapping[Size, Size] = field(default_factory=dict)
    spans: dict[ir.Value, SizeLike] = field(default_factory=dict)
    values: dict[Size, ir.Value] = field(default_factory=dict)
    reached: dict[Size, None] = field(default_factory=dict)
    _memory: ir.Value | None = None

    def value(self, size: Size) -> ir.Value:
        """Returns a size as an index."""
        if size not in self.values:
            if self._memory is None:
                self._memory = self.entry.add_argument(self._type(1), ir.Location.current)
            with ir.InsertionPoint.at_block_begin(self.entry):
                place = arith.constant(ir.IndexType.get(), len(self.values))
                self.values[size] = arith.index_cast(ir.IndexType.get(), memref.load(self._memory, [place]))
        return self.values[size]

    def reach(self, index: Affine) -> None:
        """Notes that the function computes `index`. Indices that were read from memory count as 0: they address memory,
        whose span is among the sizes."""
        axes = [(t, c) for t, c in index.terms if isinstance(t, Axis)]
        if self.bits == 32 and is_symbolic([index.constant, *(n for t, c in axes for n in (t.extent, c))]):
            low, high = Affine(index.constant, tuple(axes)).bounds()
            self.reached.update(dict.fromkeys(n for n in (high, -low) if isinstance(n, Size)))

    def flat(self, memory: ir.Value) -> ir.Value:
        """Returns an argument as a contiguous memref of rank 1 from its first to its last element."""
        argument = self.arguments[memory]
        shape, strides = argument.layout.shape, argument.layout.strides
        span = 1 if 0 in shape else sum(((n - 1) * s for n, s in zip(shape, strides, strict=True)), start=1)
        span = with_length_symbols(span, self.lengths)
        if not isinstance(span, Size):
            if len(shape) == 1 and strides == (1,):
                self.spans[memory] = span
                return memory
            flat = ir.MemRefType.get([span], argument.element)
            made = memref.ReinterpretCastOp(flat, memory, [], [], [], [0], [span], [1]).result
        else:
            unknown = ir.ShapedType.get_dynamic_size()
            flat = ir.MemRefType.get([unknown], argument.element)
            made = memref.ReinterpretCastOp(flat, memory, [], [self.value(span)], [], [0], [unknown], [1]).result
        self.spans[made] = span
        return made

    def _type(self, count: int) -> ir.Type:
        return ir.MemRefType.get([count], ir.IntegerType.get_signless(self.bits))

    def finish(self, function: ir.Operation, outside: Callable[[SizeLike], SizeLike], *, divides: bool) -> None:
        """Gives a function the type and the attribute of its sizes. outside: writes a size in the symbols of launches; divides:
        lamina-distribute lowers the function, and divides by products with reciprocals."""
        unknown = [n for n in self.reached if not any(at_most(n, known) for known in (0, *self.values))]
        largest = [n for n in unknown if not any(n is not other and at_most(n, other) for other in unknown)]
        divisors = [n for n, v in self.values.items() if any(use.owner.name in DIVISIONS for use in v.uses)]
        inverse = [reciprocal(n) for n in divisors if divides and self.bits == 32]
        sizes = [*self.values, *largest, *inverse]  # no one reads the largest, but binding checks all of them
        if not sizes:
            return
        if self._memory is None:
            self._memory = self.entry.add_argument(self._type(1), ir.Location.current)
        self._memory.set_type(self._type(len(sizes)))
        kind = ir.FunctionType.get([a.type for a in self.entry.arguments], [])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
        function.attributes[KERNEL_SIZES] = ir.ArrayAttr.get([size_attribute(outside(n)) for n in sizes])
