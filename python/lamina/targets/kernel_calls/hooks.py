"""Prints the epilogue function that a user's Triton kernel calls at its hook.

    @triton.jit
    def custom_scaled_add_epilogue(value, at, mask, operands):
        v0 = (value).to(tl.float32)
        v1 = tl.load(operands[0] + at % 64, mask=mask)
        v2 = v0 + v1
        return tl.maximum(v2, 0.0, propagate_nan=tl.PropagateNan.ALL)

value     a block of the kernel's result
at        the offset of each element in the result's memory, in elements
mask      the elements that exist
operands  pointers to the epilogue's other inputs, and to results after the first, which the function stores
"""

import json
from collections.abc import Sequence
from typing import Any

from ..triton.printing.expressions import BESIDE_ONE, Expressions, literal
from ..triton.printing.math import FUNCTIONS
from ..triton.printing.ops import CASTS, TYPES

PLAIN = '@triton.jit\ndef {name}(value, at, mask, operands):\n    """Nothing follows."""\n    return value'


def function_of(name: str, epilogue: str) -> tuple[str, tuple[str, ...]]:
    """Returns the text of the function, with the functions that it calls, and its operands: "x1" for an input, "y1" for an output.

    epilogue  the JSON text that lamina-select-kernels has written, or ""
    """
    if not epilogue:
        return PLAIN.format(name=name), ()
    printed = _Function(json.loads(epilogue))
    lines = "\n".join(printed.body())
    called = [FUNCTIONS[f] for f in printed.calls]
    return "\n\n\n".join((*called, f"@triton.jit\ndef {name}(value, at, mask, operands):\n{lines}")), tuple(printed.operands)


class _Function(Expressions):
    """The text of an epilogue as it is printed. Values are numbers of lines."""

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__()
        self.dims: list[tuple[int, int]] = [(n, stride) for n, stride in description["dims"]]
        self.steps, self.results = description["lines"], description["results"]
        self.operands: list[str] = []

    def body(self) -> list[str]:
        """Returns the function's lines."""
        for line, (kind, *details) in enumerate(self.steps):
            if kind == "const":
                self.literals[line] = literal(details[0])
            else:
                self.names[line] = f"v{line}"
                self._set(line, self._text(line, kind, *details))
        texts = [f"({self._value(line)}).to({TYPES[dtype]})" for line, dtype in self.results]
        for i, text in enumerate(texts[1:], 1):
            spread = f"tl.broadcast_to({text}, at.shape)" if self.results[i][0] in self.literals else text
            self._line(f"tl.store({self._operand(f'y{i}')} + at, {spread}, mask=mask)")
        first, dtype = self.results[0]
        self._line(f"return {self._full(first, dtype) if first in self.literals else texts[0]}")
        return self.lines

    def _full(self, line: int, dtype: str) -> str:
        return f"tl.full(at.shape, {self.literals[line]}, {TYPES[dtype]})"

    def _text(self, line: int, kind: str, *details: Any) -> str:
        if kind == "value":
            return f"(value).to({TYPES[details[0]]})"
        if kind == "load":
            number, constant, coefficients, dtype = details
            text = f"tl.load({self._operand(f'x{number}')}{self._place(constant, coefficients)}, mask=mask)"
            return f"({text}).to({TYPES[dtype]})"
        op, operands, predicate, dtype = details
        if op in CASTS and operands[0] in self.literals:
            return self._full(operands[0], dtype)
        source = str(self.steps[operands[0]][-1])
        found = self._expression(op, operands, dtype, predicate, op in BESIDE_ONE and self._meets_one(line), source)
        assert found is not None, f"lamina-select-kernels takes no {op}"
        return found

    def _meets_one(self, line: int) -> bool:
        """Returns whether a value is used in sums with 1 only."""
        users = [user for user in self.steps if user[0] == "apply" and line in user[2]]
        stored = any(number == line for number, _ in self.results)
        return not stored and all(u[1] == "arith.addf" and any(self.steps[i][:2] == ["const", 1.0] for i in u[2]) for u in users)

    def _operand(self, name: str) -> str:
        if name not in self.operands:
            self.operands.append(name)
        return f"operands[{self.operands.index(name)}]"

    def _place(self, constant: int, coefficients: Sequence[int]) -> str:
        """Returns an operand's offset in terms of the result's (`at`). Adjacent dimensions that are contiguous in both are
        merged."""
        parts: list[tuple[int, int, int]] = []  # size, the result's stride, the operand's stride
        for (n, stride), c in sorted(zip(self.dims, coefficients, strict=True), key=lambda part: -part[0][1]):
            if parts and parts[-1][1] == stride * n and parts[-1][2] == c * n:
                parts[-1] = parts[-1][0] * n, stride, c
            else:
                parts.append((n, stride, c))
        terms = [str(constant)] if constant else []
        for i, (n, stride, c) in enumerate(parts):
            if c:
                at = f"at // {stride}" if stride > 1 else "at"
                whole = f"{at} % {n}" if i else at  # the outermost dimension ends where memory does
                bare = whole if c == 1 else f"({whole}) * {c}" if whole != "at" else f"at * {c}"
                terms.append(bare)
        return "".join(f" + {term}" for term in terms)
