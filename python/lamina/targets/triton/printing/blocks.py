"""Prints values of tile programs as Triton's: blocks padded to powers of two and masked there, uniform values as scalars."""

import math
from collections.abc import Hashable, Sequence

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike, divisor
from lamina.passes.ir.index_ranges import GROWS, Ranges
from lamina.passes.ir.reading import element_of, nested
from lamina.passes.ir.sizes import DYNAMIC, KERNEL_SIZES, read_sizes
from lamina.schedules.contraction import GemmConfig

from .expressions import INDENT, Expressions
from .ops import CASTS, TYPES

WIDE = 1 << 31  # offsets need 64 bits from this many elements on
WIDEN = ".to(tl.int64)"
_TYPED = {*CASTS, "arith.bitcast", "arith.shrui", "math.copysign"}


class TritonBlocks(Expressions):
    """The values of a kernel. One that is the same in all lanes stays a scalar, and a row or column keeps its dimension of 1, which
    Triton broadcasts; lanes past those of the tile program hold anything.

    part        the function or the `tile.part` that is printed
    multiplies  the program computes a matrix product, on blocks of two dimensions
    wide        numbers of programs and lanes need 64 bits; a product widens single pointers instead
    numbers     vectors that are printed as a scalar
    head        lines before the kernel's loop
    sizes       symbolic sizes that the kernel takes as memory, its last parameter, and the names of those that were loaded
    """

    def __init__(self, function: ir.Operation, name: str, part: ir.Operation | None = None) -> None:
        super().__init__()
        self.function, self.name, self.part = function, name, part or function
        self.block = self.part.regions[0].blocks[0]
        self.arguments = list(function.regions[0].blocks[0].arguments)
        self.config = config_of(function).plain
        self.multiplies = bool(nested(function, "vector.contract"))
        known = function.attributes.get(KERNEL_SIZES)
        unbounded = known is not None and str(element_of(self.arguments[-1].type)) == "i64"
        far = unbounded or any(is_wide(ir.MemRefType(a.type)) for a in self.arguments) or _counts_far(function)
        self.wide = far and not self.multiplies
        self.numbers: set[ir.Value] = set()
        self.groups: dict[int, str] = {}
        self.head: list[str] = []
        self.sizes: dict[SizeLike, str] = {} if known is None else dict.fromkeys(read_sizes(known), "")

    def _size(self, size: SizeLike) -> str:
        """Returns a size as text: a number, or the name of a symbolic one, loaded before the kernel's loop on first use. Triton is
        told which power of two divides it."""
        if not isinstance(size, Size):
            return str(size)
        if not self.sizes[size]:
            place = list(self.sizes).index(size)
            self.sizes[size] = f"size{place}"
            known, text = divisor(size), f"tl.load({self.names[self.arguments[-1]]} + {place})"
            text = f"tl.multiple_of({text}, {known & -known})" if known % 2 == 0 else text
            self.head.append(f"{INDENT}size{place} = {text}")
        return self.sizes[size]

    def _spread(self, op: ir.Operation) -> None:
        """Records results that are the same in all lanes, because all operands are."""
        if all(self._is_number(v) for v in op.operands):
            self.numbers.update(v for v in op.results if isinstance(v.type, ir.VectorType) and v in self.names)

    def _is_number(self, v: ir.Value) -> bool:
        return v in self.literals or v in self.numbers or not isinstance(v.type, ir.VectorType)

    def _operands(self, op: str, values: Sequence[Hashable]) -> list[str]:
        """Returns the operands' texts. A literal gets a type if the op's result depends on its type, if an operand is f64 (Triton's
        functions take plain literals for f32), and if all operands are literals, except in matrix products."""
        alone = all(v in self.literals for v in values) and not self.multiplies
        typed = alone or op in _TYPED or "f64" in str(ir.Value(values[0]).type)
        return [self._typed(v) if typed else self._value(v) for v in values]

    def _typed(self, v: ir.Value) -> str:
        """Returns a value with a type, also where it is a literal."""
        return self._full(v, [1] if isinstance(v.type, ir.VectorType) else []) if v in self.literals else self._value(v)

    def _block(self, v: ir.Value) -> str:
        """Returns a value as a block of its whole type, with scalars broadcast."""
        if v in self.literals:
            return self._full(v, _shape(v) or [])
        if v not in self.numbers:
            return self._value(v)
        return f"tl.broadcast_to({self._value(v)}, {_shape(v)})"

    def _full(self, v: ir.Value, shape: Sequence[int]) -> str:
        return f"tl.full({shape}, {self.literals[v]}, {TYPES[str(element_of(v.type))]})"

    def _width(self, v: ir.Value) -> int:
        """Returns the number of lanes of a block of rank 1."""
        (width,) = _shape(v)
        return width

    def _alias(self, v: ir.Value, source: ir.Value) -> None:
        """Makes v another name of a value."""
        (self.literals if source in self.literals else self.names)[v] = self._value(source)
        if isinstance(v.type, ir.VectorType) and self._is_number(source):
            self.numbers.add(v)

    def _indices(self, v: ir.Value) -> str:
        """Returns the lane numbers of a block of rank 1, of one row, or of one column."""
        shape = _shape(v)
        if len(shape) == 1:
            return self._all(*shape)
        return f"tl.arange(0, {shape[1]})[None, :]" if shape[0] == 1 else f"tl.arange(0, {shape[0]})[:, None]"

    def _halves(self, name: str, rows: int, columns: int) -> tuple[str, str]:
        left, right = self._fresh(), self._fresh()
        self._line(f"{left}, {right} = {name}.reshape({rows}, 2, {columns}).permute(0, 2, 1).split()")
        return left, right

    def _all(self, n: int) -> str:
        """Returns the name of a block's lane numbers, made once."""
        if n not in self.groups:
            self.groups[n] = f"lanes{n}"
            self.head.append(f"{INDENT}lanes{n} = tl.arange(0, {n}){WIDEN if self.wide else ''}")
        return self.groups[n]

    def _past(self, v: ir.Value) -> str:
        """Returns the mask of the lanes that the tile program has, "" if these are all."""
        if not isinstance(v.type, ir.VectorType):
            return ""
        shape = tuple(v.type.shape)
        return "" if shape == _shape(v) else f"({self._all(self._width(v))} < {shape[0]})"

    def _masked(self, v: ir.Value, *masks: ir.Value) -> str:
        """Returns the mask of an access to the lanes of v, "" if nothing is masked."""
        texts = [self._value(m) for m in masks if self.literals.get(m) != "True"]
        return " & ".join(text for text in [*texts, self._past(v)] if text)


def config_of(function: ir.Operation) -> GemmConfig:
    """Returns the schedule of a tile program (`tile.triton`)."""
    return GemmConfig.read(ir.StringAttr(function.attributes["tile.triton"]).value)


def is_wide(memory: ir.MemRefType) -> bool:
    """Returns whether offsets into memory need 64 bits, as they may where its sizes are symbolic."""
    strides, _ = memory.get_strides_and_offset()
    if DYNAMIC in (*memory.shape, *strides):
        return True
    return sum((n - 1) * abs(s) for n, s in zip(memory.shape, strides, strict=True)) >= WIDE


def _shape(v: ir.Value) -> tuple[int, ...]:
    """Returns the padded sizes of a block; () for a scalar."""
    return tuple(1 << (n - 1).bit_length() for n in ir.VectorType(v.type).shape) if isinstance(v.type, ir.VectorType) else ()


def _counts_far(function: ir.Operation) -> bool:
    """Returns whether some index exceeds 32 bits though no buffer has as many elements: random numbers or ranges may be reduced
    without being stored."""
    ranges = Ranges()
    bounds = (ranges.of(op.results[0]) for op in nested(function, *GROWS))
    return any(-math.inf < low < -WIDE or WIDE <= high < math.inf for low, high in bounds)
