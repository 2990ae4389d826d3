"""Prints reductions, scans and online sums of Triton blocks."""

from torch_mlir import ir

from lamina.dialects.combining import LOG_SUM
from lamina.passes.ir.reading import SORT, combining_op, integer, neutral_element

from .blocks import TritonBlocks
from .expressions import literal
from .math import combine_function
from .ops import op_text


class Reductions(TritonBlocks):
    """Prints ops over all lanes of a block. Lanes past those of the tile program get the op's neutral element."""

    def _reduce(self, op: ir.Operation) -> None:
        """Prints a sum along rows or columns with that dimension kept. The accumulator is zero."""
        (dim,) = ir.DenseI64ArrayAttr(op.attributes["reduction_dims"])
        self._set(op.result, f"tl.sum({self._value(op.operands[0])}, {dim}, keep_dims=True)")

    def _reduction(self, op: ir.Operation) -> None:
        """Prints the reduction of a block, combined with the initial value where there is one."""
        block, *start = op.operands
        name = combining_op(op)
        text = self._reduced(name, self._padded(block, name))
        self._set(op.result, op_text(name, [text, self._value(start[0])], "") or "" if start else text)

    def _scan(self, op: ir.Operation) -> None:
        x, carry = op.operands
        name = ir.StringAttr(op.attributes["combine"]).value
        block = self._fresh()
        if name == LOG_SUM:
            self.calls["join_log_sums"] = None
            self._line(f"{block} = tl.associative_scan({self._block(x)}, 0, join_log_sums)")
            self._scanned(op, f"join_log_sums({self._typed(carry)}, {block})")
            return
        self._line(f"{block} = tl.associative_scan({self._block(x)}, 0, {self._joining(name)})")
        self._scanned(op, op_text(name, [self._typed(carry), block], "") or "")

    def _sort(self, op: ir.Operation) -> None:
        self._set(op.result, f"tl.sort({self._padded(op.operands[0], SORT)})")

    def _recurrence(self, op: ir.Operation) -> None:
        """Scans pairs (factor, sum), and adds the carry by the product of the factors before each lane."""
        x, decay, carry = op.operands
        factors, sums = self._fresh(), self._fresh()
        blocks = f"({self._block(decay)}, {self._block(x)})"
        self.calls["join_steps"] = None
        self._line(f"{factors}, {sums} = tl.associative_scan({blocks}, 0, join_steps)")
        self._scanned(op, f"{factors} * {self._typed(carry)} + {sums}")

    def _scanned(self, op: ir.Operation, text: str) -> None:
        """Sets a scan's results: the block, and its last lane."""
        x = op.operands[0]
        self._set(op.results[0], text)
        lanes = self._all(self._width(x))
        last = f"{lanes} == {ir.VectorType(x.type).shape[0] - 1}"
        self._set(op.results[1], f"tl.sum(tl.where({last}, {self._value(op.results[0])}, 0), 0)")

    def _reduced(self, name: str, block: str, axis: int = 0) -> str:
        if name in ("arith.addf", "arith.addi"):
            return f"tl.sum({block}, {axis})"
        return f"tl.reduce({block}, {axis}, {self._joining(name)})"

    def _joining(self, name: str) -> str:
        """Returns the name of the function that combines two numbers."""
        self.calls[combine_function(name)] = None
        return combine_function(name)

    def _padded(self, block: ir.Value, name: str) -> str:
        """Returns a block with the neutral element of the op `name` in lanes past the tile program's."""
        past = self._past(block)
        if not past:
            return self._block(block)
        none = literal(neutral_element(name, str(ir.VectorType(block.type).element_type)))
        return f"tl.where({past}, {self._value(block)}, {none})"

    # -- online sums of exponentials: each thread of a row keeps its own maximum and sum

    def _exp_sum(self, op: ir.Operation) -> None:
        x, largest, total = op.operands
        powers, new_largest, new_total = map(self._name, op.results)
        block = self._fresh()
        self._line(f"{block} = {self._threads(self._padded(x, 'arith.maximumf'), x, largest)}")
        inner = self._reduced("arith.maximumf", self._reduced("arith.maximumf", block, 2))
        self._line(f"{new_largest} = {op_text('arith.maximumf', [self._block(largest), inner], '')}")
        shift = f"tl.where({new_largest} == float('-inf'), 0.0, {new_largest})"
        power = self._fresh()
        self._line(f"{power} = tl.exp({block} - {shift}[None, :, None])")
        rescaled = f"{self._block(total)} * tl.exp({self._block(largest)} - {shift})"
        self._line(f"{new_total} = {rescaled} + tl.sum(tl.sum({power}, 2), 0)")
        self._line(f"{powers} = {power}.reshape({self._width(x)})")

    def _exp_total(self, op: ir.Operation) -> None:
        largest, total = (self._block(v) for v in op.operands)
        most, sum_, scale = map(self._name, op.results)
        self._line(f"{most} = {self._reduced('arith.maximumf', largest)}")
        self._line(f"{scale} = tl.where({largest} == {most}, 1.0, tl.exp({largest} - {most}))")
        self._line(f"{sum_} = tl.sum({total} * {scale}, 0)")

    def _lanes_of(self, op: ir.Operation) -> None:
        """Spreads values of threads over lanes: lane l belongs to thread (l / vec) % threads."""
        width, (a, t, v) = self._width(op.result), self._threaded(op.result, op.operands[0])
        spread = f"tl.broadcast_to({self._block(op.operands[0])}[None, :, None], ({a}, {t}, {v}))"
        self._set(op.result, f"{spread}.reshape({width})")

    def _threads(self, text: str, block: ir.Value, threads: ir.Value) -> str:
        return f"({text}).reshape({', '.join(map(str, self._threaded(block, threads)))})"

    def _threaded(self, block: ir.Value, threads: ir.Value) -> tuple[int, int, int]:
        """Returns the number of accesses, of threads, and of lanes of an access."""
        vec = integer(self.part, "tile.vec")
        groups = self._width(threads)
        return self._width(block) // (groups * vec), groups, vec
