"""Prints loads and stores of Triton blocks: through descriptors or pointers, gathers, runs, and rows of transpose tiles."""

from collections.abc import Sequence

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects.combining import COMBINE
from lamina.passes.ir.locations import where
from lamina.passes.ir.sizes import kernel_size

from .blocks import WIDEN, is_wide
from .descriptors import Descriptors

_ATOMIC = {"arith.addf": "atomic_add", "arith.addi": "atomic_add", "arith.maxsi": "atomic_max", "arith.minsi": "atomic_min"}
"""Triton's functions for the ops by which a scatter combines."""


class TritonMemory(Descriptors):
    """Prints memory ops. Addresses are pointers to a parameter's elements.

    lanes       names of positions along a dimension, by start and length
    transposed  the tile.transpose that fills scratch memory
    """

    def __init__(self, function: ir.Operation, name: str, descriptors: bool, part: ir.Operation | None = None) -> None:
        super().__init__(function, name, descriptors, part)
        self.lanes: dict[tuple[str, int], str] = {}
        self.transposed: dict[ir.Value, ir.Operation] = {}

    def _view(self, op: ir.Operation) -> None:
        self.views[op.result] = op

    def _read(self, op: ir.Operation) -> None:
        memory, *rest = op.operands
        indices, (pad, *masks) = rest[: (n := ir.MemRefType(memory.type).rank)], rest[n:]
        type_ = ir.VectorType(op.result.type)
        if memory in self.transposed:
            self._crossed(op, *map(self._value, indices))
        elif type_.rank == 1:
            self._load(op.result, *self._place_of_lanes(op.result, memory, indices, masks), self._value(pad))
        elif text := self._by_descriptor(op):
            self._set(op.result, text)
        else:  # no integer can be cast to f8
            zero = "0.0" if str(type_.element_type).startswith("f8") else "0"
            self._load(op.result, *self._place_of_block(op, memory, indices, type_), zero)

    def _write(self, op: ir.Operation) -> None:
        value, memory, *rest = op.operands
        at, masks = rest[: (n := ir.MemRefType(memory.type).rank)], rest[n:]
        type_ = ir.VectorType(value.type)
        if type_.rank == 1:
            place, mask = self._place_of_lanes(value, memory, at, masks)
        else:
            place, mask = self._place_of_block(op, memory, at, type_)
        self._store(self._value(value), place, mask)

    def _read_number(self, op: ir.Operation) -> None:
        if (size := kernel_size(op.result)) is not None:
            self.names[op.result] = self._size(size)
            return
        memory, *at = op.operands
        self._load(op.result, self._pointer_to(memory, *map(self._value, at)))

    def _write_number(self, op: ir.Operation) -> None:
        value, memory, *at = op.operands
        self._store(self._value(value), self._pointer_to(memory, *map(self._value, at)))

    def _gather(self, op: ir.Operation) -> None:
        memory, _, at, mask, _ = op.operands
        self._load(op.result, self._pointer_to(memory, self._value(at)), self._masked(op.result, mask))

    def _scatter(self, op: ir.Operation) -> None:
        memory, _, at, mask, value = op.operands
        self._store(self._value(value), self._pointer_to(memory, self._value(at)), self._masked(value, mask))

    def _tile_gather(self, op: ir.Operation) -> None:
        memory, index, mask, other = op.operands
        self._load(op.result, self._pointer_to(memory, self._block(index)), self._masked(op.result, mask), self._value(other))

    def _tile_scatter(self, op: ir.Operation) -> None:
        value, memory, index, mask = op.operands
        text, pointer, masked = self._block(value), self._pointer_to(memory, self._block(index)), self._masked(value, mask)
        if COMBINE not in op.attributes:
            self._store(text, pointer, masked)
            return
        name, width = op.attributes[COMBINE].value, ir.VectorType(value.type).element_type.width
        if name not in _ATOMIC or width < 32:
            raise CompileError(f"{name} on memory of {width} bits has no form in Triton", where=where(op.location))
        self._line(f"tl.{_ATOMIC[name]}({pointer}, {text}{f', mask={masked}' if masked else ''}, sem='relaxed')")

    def _read_runs(self, op: ir.Operation) -> None:
        memory, first, start, mask = op.operands
        along = bool(ir.IntegerAttr(op.attributes["along"]).value)
        self._load(op.result, self._runs(op, op.result, memory, first, start, along), self._masked(op.result, mask))

    def _write_runs(self, op: ir.Operation) -> None:
        value, memory, first, start, mask = op.operands
        self._store(self._block(value), self._runs(op, value, memory, first, start, True), self._masked(value, mask))

    def _transpose(self, op: ir.Operation) -> None:
        self.transposed[op.operands[4]] = op

    def _crossed(self, op: ir.Operation, row: str, lane: str) -> None:
        """Loads a row of a transpose tile directly from the memory that tile.transpose reads: each lane is in another row of
        memory."""
        transposed = self.transposed[op.operands[0]]
        memory, first, rows, _, _, stride = transposed.operands
        lanes = f"({lane} + {self._all(self._width(op.result))})"
        place = f"{self._pointer_to(memory, self._value(first))} + {row} + {lanes} * {self._value(stride)}"
        self._load(op.result, place, f"{lanes} < {self._value(rows)}")

    def _load(self, v: ir.Value, pointer: str, mask: str = "", other: str = "0") -> None:
        self._set(v, f"tl.load({pointer}{f', mask={mask}, other={other}' if mask else ''})")

    def _store(self, text: str, pointer: str, mask: str = "") -> None:
        self._line(f"tl.store({pointer}, {text}{f', mask={mask}' if mask else ''})")

    # -- addresses

    def _pointer_to(self, memory: ir.Value, *indices: str) -> str:
        """Returns a pointer to an element."""
        strides, _ = ir.MemRefType(memory.type).get_strides_and_offset()
        return self._pointer(memory, [_times(i, str(stride)) for i, stride in zip(indices, strides, strict=True) if i != "0"])

    def _pointer(self, memory: ir.Value, terms: Sequence[str]) -> str:
        source = self.views[memory].operands[0] if memory in self.views else memory
        _, offset = ir.MemRefType(memory.type).get_strides_and_offset()
        return " + ".join([self.names[source], *([str(offset)] if offset else []), *terms])

    def _place_of_lanes(
        self, v: ir.Value, memory: ir.Value, indices: Sequence[ir.Value], masks: Sequence[ir.Value]
    ) -> tuple[str, str]:
        """Returns pointers to the lanes of a block of rank 1, and their mask, "" for all."""
        return f"{self._pointer_to(memory, *map(self._value, indices))} + {self._all(self._width(v))}", self._masked(v, *masks)

    def _place_of_block(
        self, op: ir.Operation, view: ir.Value, indices: Sequence[ir.Value], type_: ir.VectorType
    ) -> tuple[str, str]:
        """Returns pointers to the elements of a block of rank 2, and the mask of those inside memory, "" for all."""
        memory = ir.MemRefType(view.type)
        sizes, strides = self._layout(view)
        wide = WIDEN if is_wide(memory) else ""
        terms = []
        for index, stride in zip(indices[:-2], strides[:-2], strict=True):
            terms.append(f"{self._value(index)}{wide if index not in self.literals else ''} * {self._size(stride)}")
        masks = []
        inside = [bool(b.value) for b in op.attributes["in_bounds"]]
        for d, (index, stride, size, n) in enumerate(zip(indices[-2:], strides[-2:], sizes[-2:], type_.shape, strict=True)):
            if n == 1 and inside[d] and self.literals.get(index) == "0":
                continue
            spread = f"{self._positions(index, n)}{'[None, :]' if d else '[:, None]'}"
            terms.append(_times(f"{spread}{wide}", self._size(stride)))
            if not inside[d]:
                masks.append(f"({spread} < {self._size(size)})")
        return self._pointer(view, terms), " & ".join(masks)

    def _positions(self, start_index: ir.Value, n: int) -> str:
        """Returns the name of a block's positions along one dimension, made once."""
        key = self._value(start_index), n
        if key not in self.lanes:
            self.count += 1
            self.lanes[key] = f"i{self.count}"
            start = "" if self._value(start_index) == "0" else f"{self._value(start_index)} + "
            self._line(f"{self.lanes[key]} = {start}tl.arange(0, {n})")
        return self.lanes[key]

    def _runs(self, op: ir.Operation, v: ir.Value, memory: ir.Value, first: ir.Value, start: ir.Value, along: bool) -> str:
        """Returns pointers to the lanes of v in runs."""
        lanes = self._all(self._width(v))
        terms = [self._pointer_to(memory, self._value(first)), *([lanes] if along else [])]
        for length, jump in zip(op.attributes["lengths"], op.attributes["jumps"], strict=True):
            terms.append(f"({self._value(start)} + {lanes}) // {length.value} * {jump.value}")
        return " + ".join(terms)


def _times(index: str, stride: str) -> str:
    return index if stride == "1" else f"{index} * {stride}"
