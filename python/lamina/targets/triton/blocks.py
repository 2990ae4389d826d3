"""Prints tile programs without matrix products as Triton kernels, whose blocks are vectors of rank 1.

A program runs as one CTA, whatever `tile.pack`, `tile.teams` and `tile.cluster` say of threads.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from torch_mlir import ir

from lamina.passes.lower.tile_ops import Elsewhere, Refused, TileOps

from .block_memory import BlockMemory
from .lanes import WIDEN
from .memory import INDENT
from .printer import Printed
from .reductions import Reductions

_PART = "tile.part"


class BlockPrinter(Reductions, BlockMemory):
    """Prints a function whose blocks are vectors of one dimension."""

    def run(self) -> Printed:
        """Prints the kernel. Joined launches (`tile.part`) become a function each, and the kernel calls one of them by its program
        id."""
        parts = [o.operation for o in self.block.operations if o.operation.name == _PART]
        if not parts:
            return super().run()
        number = f"{INDENT}program = tl.program_id(0){WIDEN if self.wide else ''}"
        whole = super().run()  # prints the head only: parts have no text here
        kernels, lines, first = [], [], 0
        parameters = ", ".join(self.names[a] for a in self.arguments)
        for i, part in enumerate(parts):
            printer = BlockPrinter(self.function, f"{self.name}_{i}", part)
            kernels.append(printer.body(parameters, self.names))
            self.calls.update(printer.calls)
            last = first + ir.IntegerAttr(part.attributes["tile.grid"]).value
            lines += [
                f"{INDENT}{'elif' if i else 'if'} program < {last}:",
                f"{INDENT * 2}{printer.name}(program{f' - {first}' if first else ''}, {parameters})",
            ]
            first = last
        return replace(whole, kernel="\n\n\n".join([*kernels, "\n".join([whole.kernel, number, *lines])]), calls=tuple(self.calls))

    def body(self, parameters: str, names: dict[ir.Value, str]) -> str:
        """Prints a part as a function of its program's number and the kernel's parameters."""
        self.names.update(names)
        self.ctas = 0
        self._body(self.block)
        return "\n".join([f"@triton.jit\ndef {self.name}(program, {parameters}):", *self.head, *self.lines])

    def _forms(self) -> dict[str, Callable[[ir.Operation], None]]:
        return super()._forms() | {
            "memref.alloca": self._skip,
            "memref.prefetch": self._skip,
            "vector.step": self._step,
            "vector.broadcast": self._repeat,
            "memref.load": self._load,
            "memref.store": self._store,
            "arith.addi": self._add,
            "arith.index_cast": self._cast_index,
            "vector.reduction": self._reduction,
            "scf.if": self._if,
            "scf.index_switch": self._switch,
        }

    def _apply(self, op: ir.Operation) -> None:
        super()._apply(op)
        self._spread(op)

    # -- values

    def _program_id(self, op: ir.Operation) -> None:
        self.names[op.result] = "program"
        if self.ctas:
            self._line(f"program = tl.program_id(0){WIDEN if self.wide else ''}")

    def _repeat(self, op: ir.Operation) -> None:
        self._broadcast(op)
        self.numbers.add(op.result)

    def _step(self, op: ir.Operation) -> None:
        self.names[op.result] = self._all(self._width(op.result))

    def _mask(self, op: ir.Operation) -> None:
        self._set(op.result, f"{self._all(self._width(op.result))} < {self._value(op.operands[0])}")

    def _window(self, op: ir.Operation) -> None:
        lanes, (low, high) = self._all(self._width(op.result)), (self._value(v) for v in op.operands)
        self._set(op.result, f"({lanes} >= {low}) & ({lanes} < {high})")

    def _cast_index(self, op: ir.Operation) -> None:
        if op.operands[0] in self.literals:
            self.literals[op.result] = self.literals[op.operands[0]]
        else:
            self._apply(op)

    def _add(self, op: ir.Operation) -> None:
        """Prints an addition. Many indices have 0 added, which is left out."""
        left = [v for v in op.operands if self.literals.get(v) != "0"]
        if len(left) == 1 and self._is_number(left[0]) == self._is_number(op.result):
            (self.literals if left[0] in self.literals else self.names)[op.result] = self._value(left[0])
        else:
            super()._apply(op)
        self._spread(op)

    def _random(self, op: ir.Operation) -> None:
        seed, index = (self._value(v) for v in op.operands)
        self.calls["random_bits"] = None
        self._set(op.result, f"random_bits({seed}, {index})")

    def _check(self, op: ir.Operation) -> None:
        text = " | ".join([self._value(op.operands[0]), *([f"~{past}"] if (past := self._past(op.operands[0])) else [])])
        self._line(f"tl.device_assert({text}, {ir.StringAttr(op.attributes['message']).value!r})")

    def _combine(self, op: ir.Operation) -> None:
        """Passes the value through: one CTA has run the whole loop."""
        self.names[op.result] = self._value(op.operands[0])

    # -- loops and branches

    def _for(self, op: ir.Operation) -> None:
        low, high, step, *inits = op.operands
        body = op.regions[0].blocks[0]
        counter, *carried = body.arguments
        self.names[counter] = f"k{self.loops}" if self.loops else "k"
        self.loops += 1
        for init, inner, out in zip(inits, carried, op.results, strict=True):
            name = self.names[inner] = self.names[out] = self._fresh()
            self._line(f"{name} = {self._block(init) if isinstance(init.type, ir.VectorType) else self._full_number(init)}")
        over, flight = ("tl.range", f", num_stages={self.config.stages}") if self.config.stages > 1 else ("range", "")
        bounds = ", ".join(map(self._value, (low, high, step)))
        self._line(f"for {self.names[counter]} in {over}({bounds}{flight}):")
        self.depth += 1
        if self.wide:
            self._set(counter, f"{self.names.pop(counter)} + tl.full([], 0, tl.int64)")
        self._body(body)
        self._carry([self.names[c] for c in carried], list(list(body.operations)[-1].operands))
        self.depth -= 1

    def _carry(self, names: list[str], values: list[ir.Value]) -> None:
        """Assigns the values that a loop's next iteration begins with. They go through temporaries where one is another's current
        name."""
        texts = [self._block(v) if isinstance(v.type, ir.VectorType) else self._value(v) for v in values]
        if any(t in names for t in texts):
            kept = [self._fresh() for _ in texts]
            for name, text in zip(kept, texts, strict=True):
                self._line(f"{name} = {text}")
            texts = kept
        for name, text in zip(names, texts, strict=True):
            self._line(f"{name} = {text}")
        if not names:
            self._line("pass")

    def _if(self, op: ir.Operation) -> None:
        """Prints the branches for a program that lies within one part of a concatenation."""
        for line, region in zip((f"if {self._value(op.operands[0])}:", "else:"), op.regions, strict=True):
            self._line(line)
            self.depth += 1
            self._body(region.blocks[0])
            self.depth -= 1

    def _switch(self, op: ir.Operation) -> None:
        """Prints the selection of the buffers that a part of joined launches works on."""
        names = [self._name(v) for v in op.results]
        numbers = list(ir.DenseI64ArrayAttr(op.attributes["cases"]))
        default, *regions = op.regions
        for i, (number, region) in enumerate([*zip(numbers, regions, strict=True), (None, default)]):
            test = f"{'elif' if i else 'if'} {self._value(op.operands[0])} == {number}:" if number is not None else "else:"
            self._line(test)
            given = list(region.blocks[0].operations)[-1].operands
            for name, v in zip(names, given, strict=True):
                self._line(f"{INDENT}{name} = {self._value(v)}")

    tile_ops: ClassVar[TileOps] = {
        "tile.program_id": _program_id,
        "tile.part": Elsewhere("run: a function for each part"),
        "tile.check": _check,
        "tile.gather": BlockMemory._tile_gather,
        "tile.read_runs": BlockMemory._read_runs,
        "tile.read_shared": Refused("Triton has no loads that the lanes of a run share", "leave lamina-route-to-triton out"),
        "tile.write_runs": BlockMemory._write_runs,
        "tile.scan": Reductions._scan,
        "tile.window": _window,
        "tile.transpose": BlockMemory._transpose,
        "tile.combine": _combine,
        "tile.exp_sum": Reductions._exp_sum,
        "tile.exp_total": Reductions._exp_total,
        "tile.lanes": Reductions._lanes_of,
        "random.bits": _random,
    }
