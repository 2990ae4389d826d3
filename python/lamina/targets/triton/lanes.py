"""Lanes of printed Triton blocks: pads blocks to powers of two, masks the padding, and keeps uniform values as scalars."""

import math

from torch_mlir import ir

from lamina.passes.ir.index_ranges import GROWS, Ranges

from .memory import INDENT, WIDE
from .ops import CASTS, TYPES
from .printer import Printer

WIDEN = ".to(tl.int64)"
_TYPED = {*CASTS, "arith.bitcast", "arith.shrui", "math.copysign"}


class LaneMemory(Printer):
    """The values of a kernel as Triton has them. A value that is the same in all lanes stays a scalar, which Triton broadcasts;
    lanes past those of the tile program hold anything.

    part  the `tile.part` to print, for a function made of parts
    """

    def __init__(self, function: ir.Operation, name: str, part: ir.Operation | None = None) -> None:
        super().__init__(function, False, name)
        self.part = part or function
        self.block = self.part.regions[0].blocks[0]
        self.numbers: set[ir.Value] = set()  # vectors that are printed as a scalar
        self.groups: dict[int, str] = {}
        self.arguments = list(function.regions[0].blocks[0].arguments)
        self.wide = any(_extent(ir.MemRefType(a.type)) >= WIDE for a in self.arguments) or _counts_far(function)

    def _spread(self, op: ir.Operation) -> None:
        """Records results that are the same in all lanes, because all operands are."""
        for result in op.results:
            if isinstance(result.type, ir.VectorType) and result in self.names and all(self._is_number(v) for v in op.operands):
                self.numbers.add(result)

    def _is_number(self, v: ir.Value) -> bool:
        return v in self.literals or v in self.numbers or not isinstance(v.type, ir.VectorType)

    def _operands(self, op: ir.Operation) -> list[str]:
        """Returns the operands' texts. Literals get a type where an op depends on it, where all operands are literals, and with
        f64: Triton's functions take plain literals for f32."""
        typed = op.name in _TYPED or all(v in self.literals for v in op.operands) or "f64" in str(op.operands[0].type)
        return [self._full_number(v) if typed else self._value(v) for v in op.operands]

    def _width(self, v: ir.Value) -> int:
        return 1 << (ir.VectorType(v.type).shape[0] - 1).bit_length()

    def _all(self, n: int) -> str:
        """Returns the name of a block's lane numbers, made once."""
        if n not in self.groups:
            self.groups[n] = f"lanes{n}"
            self.head.append(f"{INDENT}lanes{n} = tl.arange(0, {n}){WIDEN if self.wide else ''}")
        return self.groups[n]

    def _past(self, v: ir.Value) -> str:
        """Returns the mask of the lanes that the tile program has, "" where these are all."""
        n, width = ir.VectorType(v.type).shape[0], self._width(v)
        return "" if n == width else f"({self._all(width)} < {n})"

    def _block(self, v: ir.Value) -> str:
        """Returns a value as a block, with scalars broadcast."""
        if not self._is_number(v):
            return self._value(v)
        if v not in self.literals:
            return f"tl.broadcast_to({self._value(v)}, ({self._width(v)},))"
        return f"tl.full(({self._width(v)},), {self.literals[v]}, {TYPES[str(ir.VectorType(v.type).element_type)]})"

    def _masked(self, v: ir.Value, *masks: ir.Value) -> str:
        """Returns `, mask=...` for an access to the lanes of v; "" where nothing is masked."""
        texts = [self._value(m) for m in masks if m not in self.literals or self.literals[m] != "True"]
        texts = [t for t in [*texts, self._past(v)] if t]
        return f", mask={' & '.join(texts)}" if texts else ""

    def _full_number(self, v: ir.Value) -> str:
        if v not in self.literals:
            return self._value(v)
        element, shape = (ir.VectorType(v.type).element_type, [1]) if isinstance(v.type, ir.VectorType) else (v.type, [])
        return f"tl.full({shape}, {self.literals[v]}, {TYPES[str(element)]})"

    def _name(self, v: ir.Value) -> str:
        self.names[v] = self._fresh()
        return self.names[v]


def _extent(memory: ir.MemRefType) -> int:
    strides, _ = memory.get_strides_and_offset()
    return sum((n - 1) * abs(s) for n, s in zip(memory.shape, strides, strict=True))


def _counts_far(function: ir.Operation) -> bool:
    """Tells whether counts of elements exceed 32 bits though no buffer has as many: those of random numbers or of a range that are
    reduced without being stored."""
    ranges, far = Ranges(), False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal far
        if op.name in GROWS:
            low, high = ranges.of(op.results[0])
            far = -math.inf < low < -WIDE or WIDE <= high < math.inf
        return ir.WalkResult.INTERRUPT if far else ir.WalkResult.ADVANCE

    function.walk(visit)
    return far
