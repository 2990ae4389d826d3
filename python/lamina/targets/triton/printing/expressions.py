"""Prints expressions and collects the text of a Triton function, for tile programs and for custom epilogues."""

import math
from collections.abc import Hashable, Sequence

from .math import FUNCTIONS
from .ops import op_text, typed_select_operands

INDENT = "    "
BESIDE_ONE = {"math.erf": "erf_beside_one"}
"""Cheaper functions for values that are only added to 1: the sum has no more digits."""


class Expressions:
    """The state of a function's text while it is printed.

    names, literals  text of values: variables and constants
    calls            names of functions in targets/triton/printing/math.py that are called
    lines            the text, which is `depth` levels deep
    """

    def __init__(self) -> None:
        self.names: dict[Hashable, str] = {}
        self.literals: dict[Hashable, str] = {}
        self.calls: dict[str, None] = {}
        self.lines: list[str] = []
        self.count, self.depth = 0, 1

    def _expression(
        self, op: str, values: Sequence[Hashable], dtype: str, predicate: int | None, beside_one: bool, source: str
    ) -> str | None:
        """Returns the text of an op on values; None for one without a Triton form.

        beside_one  its result is only added to 1
        source      the dtype of its first operand
        """
        operands = self._operands(op, values)
        if op == "arith.select" and all(v in self.literals for v in values[1:]):
            operands = typed_select_operands(operands, dtype)
        if beside_one:
            return self._call(BESIDE_ONE[op], *operands)
        text = op_text(op, operands, dtype, predicate, source)
        self.calls.update(dict.fromkeys(name for name in FUNCTIONS if text and text.startswith(f"{name}(")))
        return text

    def _call(self, function: str, *operands: str) -> str:
        """Returns a call of a function in targets/triton/printing/math.py."""
        self.calls[function] = None
        return f"{function}({', '.join(operands)})"

    def _operands(self, op: str, values: Sequence[Hashable]) -> list[str]:
        return [self._value(v) for v in values]

    def _value(self, v: Hashable) -> str:
        return self.literals[v] if v in self.literals else self.names[v]

    def _set(self, v: Hashable, text: str) -> None:
        self._line(f"{self.names[v] if v in self.names else self._name(v)} = {text}")

    def _name(self, v: Hashable) -> str:
        self.names[v] = self._fresh()
        return self.names[v]

    def _fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _line(self, text: str) -> None:
        self.lines.append(f"{INDENT * self.depth}{text}")


def literal(number: float) -> str:
    """Returns a number's text as an operand of any operator."""
    text = f'float("{number}")' if isinstance(number, float) and not math.isfinite(number) else repr(number)
    return f"({text})" if text.startswith("-") else text
