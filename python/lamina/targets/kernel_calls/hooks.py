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
import math
from collections.abc import Sequence
from typing import Any

from ..triton.math import FUNCTIONS
from ..triton.ops import CASTS, TYPES, applied, choice
from ..triton.patterns import BESIDE_ONE

PLAIN = '@triton.jit\ndef {name}(value, at, mask, operands):\n    """Nothing follows."""\n    return value'


def function_of(name: str, epilogue: str) -> tuple[str, tuple[str, ...]]:
    """Returns the text of the function, with the functions that it calls, and its operands: "x1" for an input, "y1" for an output.

    epilogue  the JSON text that lamina-custom-epilogue has written, or ""
    """
    if not epilogue:
        return PLAIN.format(name=name), ()
    made = _Function(json.loads(epilogue))
    lines = "\n".join(f"    {line}" for line in made.body())
    called = [FUNCTIONS[f] for f in made.calls]
    return "\n\n\n".join((*called, f"@triton.jit\ndef {name}(value, at, mask, operands):\n{lines}")), tuple(made.operands)


class _Function:
    """The text of an epilogue as it is printed, line by line."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.dims: list[tuple[int, int]] = [(n, stride) for n, stride in said["dims"]]
        self.said, self.results = said["lines"], said["results"]
        self.operands: list[str] = []
        self.calls: dict[str, None] = {}
        self.names: list[str] = []
        self.lines: list[str] = []

    def body(self) -> list[str]:
        """Returns the function's lines."""
        for line in self.said:
            self.names.append(self._named(*line))
        texts = [f"({self.names[line]}).to({TYPES[dtype]})" for line, dtype in self.results]
        for i, text in enumerate(texts[1:], 1):
            spread = f"tl.broadcast_to({text}, at.shape)" if self._is_constant(self.results[i][0]) else text
            self.lines.append(f"tl.store({self._operand(f'y{i}')} + at, {spread}, mask=mask)")
        first, dtype = self.results[0]
        constant = f"tl.full(at.shape, {self.names[first]}, {TYPES[dtype]})"
        return [*self.lines, f"return {constant if self._is_constant(first) else texts[0]}"]

    def _is_constant(self, line: int) -> bool:
        return bool(self.said[line][0] == "const")

    def _named(self, kind: str, *said: Any) -> str:
        """Returns the name of a line's value, or a literal."""
        if kind == "const":
            return _literal(said[0])
        name = f"v{len(self.names)}"
        self.lines.append(f"{name} = {self._text(kind, *said)}")
        return name

    def _text(self, kind: str, *said: Any) -> str:
        if kind == "value":
            return f"(value).to({TYPES[said[0]]})"
        if kind == "load":
            number, constant, coefficients, dtype = said
            text = f"tl.load({self._operand(f'x{number}')}{self._place(constant, coefficients)}, mask=mask)"
            return f"({text}).to({TYPES[dtype]})"
        op, operands, predicate, dtype = said
        if op in CASTS and self._is_constant(operands[0]):
            return f"tl.full(at.shape, {self.names[operands[0]]}, {TYPES[dtype]})"
        texts = [self.names[i] for i in operands]
        if op == "arith.select" and all(map(self._is_constant, operands[1:])):
            texts = choice(texts, dtype)
        found = applied(op, texts, dtype, predicate)
        assert found is not None, f"lamina-custom-epilogue takes no {op}"
        if op in BESIDE_ONE and self._meets_one(len(self.names)):
            found = f"{BESIDE_ONE[op]}{found[found.index('(') :]}"
        self.calls.update(dict.fromkeys(f for f in FUNCTIONS if found.startswith(f"{f}(")))
        return found

    def _meets_one(self, line: int) -> bool:
        """Tells whether a value is used in sums with 1 only."""
        users = [user for user in self.said if user[0] == "apply" and line in user[2]]
        stored = any(number == line for number, _ in self.results)
        return not stored and all(u[1] == "arith.addf" and any(self.said[i][:2] == ["const", 1.0] for i in u[2]) for u in users)

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


def _literal(value: bool | int | float) -> str:
    text = f'float("{value}")' if isinstance(value, float) and not math.isfinite(value) else repr(value)
    return f"({text})" if text.startswith("-") else text
