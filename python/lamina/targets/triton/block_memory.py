"""Prints loads and stores of one-dimensional Triton blocks: contiguous lanes, runs, gathers, and rows of transpose tiles."""

from torch_mlir import ir

from .lanes import LaneMemory


class BlockMemory(LaneMemory):
    """Prints memory ops. Addresses are pointers to a parameter's elements; lanes past those of the tile program are masked."""

    def __init__(self, function: ir.Operation, name: str, part: ir.Operation | None = None) -> None:
        super().__init__(function, name, part)
        self.squares: dict[ir.Value, ir.Operation] = {}  # scratch memory -> the tile.transpose that fills it

    def _at(self, memory: ir.Value, *indices: str) -> str:
        """Returns a pointer to an element."""
        view = self.views.get(memory)
        source = view.operands[0] if view is not None else memory
        strides, offset = ir.MemRefType(memory.type).get_strides_and_offset()
        terms = [str(offset)] if offset else []
        for index, stride in zip(indices, strides, strict=True):
            if index != "0":
                terms.append(f"{index}{f' * {stride}' if stride != 1 else ''}")
        return " + ".join([self.names[source], *terms])

    def _read(self, op: ir.Operation) -> None:
        memory, *rest = op.operands
        indices, (pad, *mask) = rest[: (n := ir.MemRefType(memory.type).rank)], rest[n:]
        if memory in self.squares:
            self._crossed(op, *map(self._value, indices))
            return
        masked = self._masked(op.result, *mask)
        other = f", other={self._value(pad)}" if masked else ""
        self._set(
            op.result,
            f"tl.load({self._at(memory, *map(self._value, indices))} + {self._all(self._width(op.result))}{masked}{other})",
        )

    def _write(self, op: ir.Operation) -> None:
        value, memory, at, *mask = op.operands
        place = f"{self._at(memory, self._value(at))} + {self._all(self._width(value))}"
        self._line(f"tl.store({place}, {self._value(value)}{self._masked(value, *mask)})")

    def _load(self, op: ir.Operation) -> None:
        memory, *indices = op.operands
        self._set(op.result, f"tl.load({self._at(memory, *map(self._value, indices))})")

    def _store(self, op: ir.Operation) -> None:
        value, memory, *indices = op.operands
        self._line(f"tl.store({self._at(memory, *map(self._value, indices))}, {self._value(value)})")

    def _tile_gather(self, op: ir.Operation) -> None:
        memory, index, mask, other = op.operands
        masked = self._masked(op.result, mask)
        place = self._at(memory, self._block(index))
        self._set(op.result, f"tl.load({place}{masked}{f', other={self._value(other)}' if masked else ''})")

    def _read_runs(self, op: ir.Operation) -> None:
        memory, first, start, mask = op.operands
        masked = self._masked(op.result, mask)
        place = self._runs(op, memory, first, start, ir.IntegerAttr(op.attributes["along"]).value, self._width(op.result))
        self._set(op.result, f"tl.load({place}{masked}{', other=0' if masked else ''})")

    def _write_runs(self, op: ir.Operation) -> None:
        value, memory, first, start, mask = op.operands
        place = self._runs(op, memory, first, start, 1, self._width(value))
        self._line(f"tl.store({place}, {self._block(value)}{self._masked(value, mask)})")

    def _runs(self, op: ir.Operation, memory: ir.Value, first: ir.Value, start: ir.Value, along: int, width: int) -> str:
        lanes = self._all(width)
        terms = [self._at(memory, self._value(first)), *([lanes] if along else [])]
        for length, jump in zip(op.attributes["lengths"], op.attributes["jumps"], strict=True):
            terms.append(f"({self._value(start)} + {lanes}) // {length.value} * {jump.value}")
        return " + ".join(terms)

    def _transpose(self, op: ir.Operation) -> None:
        self.squares[op.operands[4]] = op

    def _crossed(self, op: ir.Operation, row: str, lane: str) -> None:
        """Loads a row of a transpose tile directly from the memory that tile.transpose reads: each lane is in another row of
        memory."""
        memory, first, rows, _, _ = self.squares[op.operands[0]].operands
        stride = ir.IntegerAttr(self.squares[op.operands[0]].attributes["stride"]).value
        lanes = f"({lane} + {self._all(self._width(op.result))})"
        place = f"{self._at(memory, self._value(first))} + {row} + {lanes} * {stride}"
        self._set(op.result, f"tl.load({place}, mask={lanes} < {self._value(rows)}, other=0)")
