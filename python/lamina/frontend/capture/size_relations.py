"""What a trace found of the sizes of its arguments, for calls with other sizes and for reports."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import Tensor, fx

from .open_sizes import place_text, range_text
from .trace_errors import is_users


class SizeRelations:
    """Which sizes of a graph's arguments are equal, in which range, and what else the graph rests on."""

    def __init__(self, graph: fx.Graph) -> None:
        self._sizes: list[tuple[sympy.Expr, ...]] = []
        values = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
        self._sizes = [tuple(map(_expression, value.shape)) if isinstance(value, Tensor) else () for value in values]
        mode = torch._guards.detect_fake_mode(values)
        self._env: Any = mode.shape_env if mode is not None else None
        self._models = len(self.guards)

    @property
    def guards(self) -> Sequence[Any]:
        """Returns the conditions on sizes; compiling may add some."""
        return self._env.guards if self._env is not None else ()

    def serve(self, arguments: Mapping[int, tuple[str, Tensor]]) -> bool:
        """Returns whether the graph serves these sizes: what compiling it has decided by the sizes of its first call holds.

        arguments  by number: the name and the tensor

        Raises ValueError for sizes that the model, as it was traced, does not take. It names arguments, dimensions and values.
        """
        values: dict[sympy.Symbol, int] = {}
        named: dict[sympy.Symbol, str] = {}
        sizes = [*self._each(arguments)]
        for place, expression, size in sizes:
            if expression.is_Symbol and values.setdefault(expression, size) != size:
                raise ValueError(f"{named[expression]} and {place} must be equal; they are {values[expression]} and {size}")
            if expression.is_Symbol:
                named.setdefault(expression, place)
        for place, expression, size in sizes:
            if (wanted := expression.xreplace(values)) != size:
                shown = f"{wanted}, which the model makes a constant{self._line_of(expression)}"
                shown = f"{_shown(expression, named)} = {wanted}" if expression.free_symbols else shown
                raise ValueError(f"{place} must be {shown}; it is {size}")
        for symbol, value in values.items():
            low, high = self._env.var_to_range[symbol].lower, self._env.var_to_range[symbol].upper
            if not low <= value <= high:
                line = self._line_of(high if value > high else low)
                raise ValueError(
                    f"{named[symbol]} must be {range_text(int(low), int(high) if high.is_Integer else None)}{line}; it is {value}"
                )
        for number, guard in enumerate(self.guards):
            expression = self._env.replace(guard.expr)
            if expression.xreplace(values) == sympy.false:
                if number >= self._models:
                    return False
                given = ", ".join(f"{place} is {values[symbol]}" for symbol, place in named.items())
                raise ValueError(f"the model was compiled for {_shown(expression, named)}{_told(_user_line(guard))}; {given}")
        return True

    def deciding_line(self) -> str:
        """Returns the model's line that decides by a size; "" where none is known."""
        lines = [(isinstance(g.expr, sympy.Eq) and g.expr.rhs.is_Integer, _user_line(g)) for g in self.guards]
        return next((line for _, line in sorted(lines, key=lambda x: not x[0]) if line), "")

    def _each(self, arguments: Mapping[int, tuple[str, Tensor]]) -> Iterator[tuple[str, sympy.Expr, int]]:
        for i, (name, tensor) in arguments.items():
            for d, (expression, size) in enumerate(zip(self._sizes[i], tensor.shape, strict=True)):
                yield place_text(name, d), expression, size

    def _line_of(self, constant: sympy.Expr) -> str:
        """Returns the line that compares a size with a constant."""
        lines = (_user_line(g) for g in self.guards if constant in g.expr.args)
        return _told(next(filter(None, lines), ""))


def _user_line(guard: Any) -> str:
    frame = getattr(guard.sloc, "framework_loc", None)
    return f"{frame.filename}:{frame.lineno}" if frame is not None and is_users(frame.filename) else ""


def _told(line: str) -> str:
    return f" at {line}" if line else ""


def _expression(size: Any) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _shown(expression: sympy.Basic, named: Mapping[sympy.Symbol, str]) -> str:
    """Returns an expression with the places in place of their symbols."""
    text = str(expression)
    for symbol, place in named.items():
        text = text.replace(str(symbol), f"({place})")
    return text
