"""Prints loads and stores of Triton kernels with products, through descriptors or pointers, and holds the text as it grows."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from .ops import TYPES

STEP = 16  # alignment in bytes of a descriptor's rows
DIMENSIONS = 5  # most dimensions of a descriptor
WIDE = 1 << 31  # offsets need 64 bits from this many elements on
INDENT = "    "


@dataclass(frozen=True)
class TritonTile:
    """A block of memory as a descriptor sees it, the contiguous dimension last.

    source         where memory begins: the parameter, or an address after it
    name           the parameter
    sizes, steps   sizes and strides of memory, in elements
    blocks         the block's sizes
    places         where the block begins
    across         the program wants the last two dimensions transposed
    """

    source: str
    name: str
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    blocks: tuple[int, ...]
    places: tuple[str, ...]
    across: bool


class TritonMemory:
    """The state of a kernel's text while it is printed.

    descriptors  whether blocks may be loaded through descriptors
    names, literals  text of values: variables and constants
    views        the op that makes each view
    head         lines before the kernel's loop
    """

    def __init__(self, function: ir.Operation, descriptors: bool) -> None:
        self.function, self.block = function, function.regions[0].blocks[0]
        self.aligned = list(ir.DenseI64ArrayAttr(function.attributes["tile.align"]))
        self.descriptors = descriptors
        self.names: dict[ir.Value, str] = {}
        self.literals: dict[ir.Value, str] = {}
        self.views: dict[ir.Value, ir.Operation] = {}
        self.blocks: dict[str, str] = {}  # a descriptor's name, by the text that makes it
        self.lanes: dict[tuple[str, int], str] = {}  # names of positions along a dimension, by start and length
        self.count = 0
        self.lines: list[str] = []
        self.head: list[str] = []
        self.depth = 1

    def _read(self, op: ir.Operation) -> None:
        view, *where_ = list(op.operands)[:-1]
        type_ = ir.VectorType(op.result.type)
        if (text := self._by_descriptor(op, view, where_, type_)) is None:
            pointers, mask = self._pointers(op, view, where_, list(type_.shape))
            zero = "0.0" if str(type_.element_type).startswith("f8") else "0"  # no integer can be cast to f8
            text = f"tl.load({pointers}{f', mask={mask}, other={zero}' if mask else ''})"
        self._set(op.result, text)

    def _write(self, op: ir.Operation) -> None:
        value, view, *where_ = op.operands
        shape = list(ir.VectorType(value.type).shape)
        pointers, mask = self._pointers(op, view, where_, shape)
        text = f"tl.broadcast_to({self._value(value)}, {tuple(shape)})" if value in self.literals else self._value(value)
        self._line(f"tl.store({pointers}, {text}{f', mask={mask}' if mask else ''})")

    def _gather(self, op: ir.Operation) -> None:
        view, _, at, mask, _ = op.operands
        self._set(op.result, f"tl.load({self._value_of_view(view)} + {self._value(at)}{self._where(mask, ', other=0')})")

    def _scatter(self, op: ir.Operation) -> None:
        view, _, at, mask, value = op.operands
        shape = tuple(ir.VectorType(value.type).shape)
        text = f"tl.broadcast_to({self._value(value)}, {shape})" if value in self.literals else self._value(value)
        self._line(f"tl.store({self._value_of_view(view)} + {self._value(at)}, {text}{self._where(mask)})")

    def _value_of_view(self, view: ir.Value) -> str:
        return self.names[self.views[view].operands[0]]

    def _where(self, mask: ir.Value, other: str = "") -> str:
        return "" if self.literals.get(mask) == "True" else f", mask={self._value(mask)}{other}"

    def _by_descriptor(self, op: ir.Operation, view: ir.Value, where_: list[ir.Value], type_: ir.VectorType) -> str | None:
        """Returns a load of a block by the tensor memory accelerator; None where memory does not allow it."""
        inside = op.operation.block.owner.operation.name == "scf.for"
        found = self._tile(op, view, where_, type_) if inside else None
        if found is None:
            return None
        blocks = self._descriptor(found.name, found.source, found.sizes, found.steps, found.blocks)
        text = f"{blocks}.load([{', '.join(found.places)}])"
        if len(found.blocks) > 2:
            text = f"{text}.reshape({', '.join(str(n) for n in found.blocks[-2:])})"
        return f"{text}.T" if found.across else text

    def _descriptor(self, name: str, source: str, sizes: Sequence[int], steps: Sequence[object], blocks: Sequence[int]) -> str:
        """Returns the name of a descriptor, made before the loops. The name begins with `name`."""
        made = self._made(name, source, *(f"[{', '.join(map(str, numbers))}]" for numbers in (sizes, steps, blocks)))
        if made not in self.blocks:
            self.blocks[made] = f"{name}_blocks"
            if list(self.blocks.values()).count(self.blocks[made]) > 1:
                self.blocks[made] += str(len(self.blocks))
            self.head.append(f"{INDENT}{self.blocks[made]} = {made}")
        return self.blocks[made]

    def _made(self, name: str, source: str, sizes: str, steps: str, blocks: str) -> str:
        """Returns the text that makes a descriptor."""
        return f"tl.make_tensor_descriptor({source}, {sizes}, {steps}, {blocks})"

    def _tile(self, op: ir.Operation, view: ir.Value, where_: list[ir.Value], type_: ir.VectorType) -> "TritonTile | None":
        """Returns a block as a descriptor sees it; None where memory does not allow it."""
        memory = ir.MemRefType(view.type)
        strides, offset = memory.get_strides_and_offset()
        item = type_.element_type.width // 8
        wide = item > 1 or isinstance(type_.element_type, ir.FloatType)
        starts = offset >= 0 and offset * item % STEP == 0
        if 1 in type_.shape or not (self.descriptors and starts and wide and 1 in strides[-2:] and len(strides) <= DIMENSIONS):
            return None
        source = self.views[view].operands[0]
        aligned = self.aligned[list(self.block.arguments).index(source)]
        order = list(range(len(strides)))
        if strides[-1] != 1:
            order[-2:] = order[-1], order[-2]
        others = [strides[d] for d in order[:-1] if memory.shape[d] > 1]
        block = [1] * (len(order) - 2) + list(type_.shape)
        if aligned % STEP or any(s * item % STEP or not s for s in others) or block[order[-1]] * item < STEP:
            return None
        sizes, steps, blocks = ([x[d] for d in order] for x in (memory.shape, strides, block))
        row = -(-sizes[-1] * item // STEP) * STEP // item
        steps = [*(s if n > 1 else row for s, n in zip(steps[:-1], sizes, strict=False)), 1]
        places = tuple(self._value(where_[d]) for d in order)
        name = self.names[source]
        start = f"({name} + {offset})" if offset else name
        return TritonTile(start, name, tuple(sizes), tuple(steps), tuple(blocks), places, order[-1] != len(order) - 1)

    def _pointers(self, op: ir.Operation, view: ir.Value, where_: list[ir.Value], shape: list[int]) -> tuple[str, str]:
        """Returns pointers to a block's elements, and the mask of those inside memory, "" for all."""
        memory = ir.MemRefType(view.type)
        strides, offset = memory.get_strides_and_offset()
        wide = sum((n - 1) * s for n, s in zip(memory.shape, strides, strict=True)) >= WIDE
        terms = [str(offset)] if offset else []
        for at, stride in zip(where_[:-2], strides[:-2], strict=True):
            terms.append(f"{self._value(at)}{'.to(tl.int64)' if wide and at not in self.literals else ''} * {stride}")
        masks = []
        inside = [bool(b.value) for b in op.attributes["in_bounds"]]
        for d, (at, stride, n) in enumerate(zip(where_[-2:], strides[-2:], shape, strict=True)):
            if n == 1 and inside[d] and self.literals.get(at) == "0":
                continue
            lanes = self._lanes(at, n)
            spread = f"{lanes}[:, None]" if d == 0 else f"{lanes}[None, :]"
            terms.append(f"{spread}{'.to(tl.int64)' if wide else ''}" + (f" * {stride}" if stride != 1 else ""))
            if not inside[d]:
                masks.append(f"({spread} < {memory.shape[len(strides) - 2 + d]})")
        return " + ".join([self.names[self.views[view].operands[0]], *terms]), " & ".join(masks)

    def _lanes(self, at: ir.Value, n: int) -> str:
        """Returns the name of a block's positions along one dimension, made once."""
        key = self._value(at), n
        if key not in self.lanes:
            self.count += 1
            self.lanes[key] = f"i{self.count}"
            start = "" if self._value(at) == "0" else f"{self._value(at)} + "
            self._line(f"{self.lanes[key]} = {start}tl.arange(0, {n})")
        return self.lanes[key]

    def _value(self, v: ir.Value) -> str:
        return self.literals[v] if v in self.literals else self.names[v]

    def _full(self, v: ir.Value) -> str:
        if v not in self.literals:
            return self._value(v)
        type_ = ir.VectorType(v.type)
        return f"tl.full({tuple(type_.shape)}, {self.literals[v]}, {TYPES[str(type_.element_type)]})"

    def _set(self, v: ir.Value, text: str) -> None:
        if v not in self.names:
            self.names[v] = self._fresh()
        self._line(f"{self.names[v]} = {text}")

    def _fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _line(self, text: str) -> None:
        self.lines.append(f"{INDENT * self.depth}{text}")
