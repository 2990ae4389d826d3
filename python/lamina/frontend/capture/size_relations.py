"""Relations between the sizes of a trace's arguments (equal ones, ranges, guards), for calls with other sizes and for reports."""

import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import Tensor, fx
from torch.utils._sympy.printers import PythonPrinter

from lamina.core.sizes.facts import SizeCondition, SizeFacts

from ..fx.size_expressions import typical_value
from ..fx.unbacked import asserts, line_of, symbol_sources
from .open_sizes import place_text, range_text
from .trace_errors import is_users

_DYNAMO = os.path.dirname(torch._dynamo.__file__) + os.sep
_LAMINA = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
_LINE = re.compile(r"(?P<code>.*?) *# (?P<where>\S+:\d+) in \S+", re.DOTALL)
"""How torch names the user's line of a guard."""


class SizeRelations:
    """Which sizes of a graph's arguments are equal, in which range, and what else the graph rests on."""

    def __init__(self, values: Sequence[Any]) -> None:
        """values: of the arguments, in the trace: fake tensors, and ints that may be symbolic."""
        self._sizes = [_sizes(value) for value in values]
        mode = torch._guards.detect_fake_mode(values)
        self._env: Any = mode.shape_env if mode is not None else None
        self._models = len(self.guards)

    @staticmethod
    def of(graph: fx.Graph) -> "SizeRelations":
        """Returns those of a graph's arguments."""
        return SizeRelations([node.meta.get("val") for node in graph.find_nodes(op="placeholder")])

    @property
    def guards(self) -> Sequence[Any]:
        """The conditions on sizes; compiling may add some."""
        return self._env.guards if self._env is not None else ()

    def values(self, arguments: Mapping[int, tuple[str, Any]]) -> dict[str, int]:
        """Returns the values of the symbols for these arguments (see `serve`)."""
        return {str(e): size for _, e, size in reversed([*self._sizes_of(arguments)]) if e.is_Symbol}

    def serve(self, arguments: Mapping[int, tuple[str, Any]]) -> bool:
        """Returns whether the graph serves these sizes: what compiling it has decided by the sizes of its first call holds.

        arguments  by number: the name and the tensor or int

        Raises ValueError for sizes that the model, as it was traced, does not take. It names arguments, dimensions and values.
        """
        values: dict[sympy.Symbol, int] = {}
        named: dict[sympy.Symbol, str] = {}
        sizes = [*self._sizes_of(arguments)]
        for name, expression, size in sizes:
            if expression.is_Symbol and values.setdefault(expression, size) != size:
                raise ValueError(f"{named[expression]} and {name} must be equal; they are {values[expression]} and {size}")
            if expression.is_Symbol:
                named.setdefault(expression, name)
        for name, expression, size in sizes:
            if (wanted := expression.xreplace(values)) != size:
                shown = f"{wanted}, which the model makes a constant{self._line_of(expression)}"
                shown = f"{_shown(expression, named)} = {wanted}" if expression.free_symbols else shown
                raise ValueError(f"{name} must be {shown}; it is {size}")
        for symbol, value in values.items():
            low, high = self._env.var_to_range[symbol].lower, self._env.var_to_range[symbol].upper
            if not low <= value <= high:
                line = self._line_of(high if value > high else low)
                raise ValueError(
                    f"{named[symbol]} must be {range_text(int(low), int(high) if high.is_Integer else None)}{line}; it is {value}"
                )
        for number, guard in enumerate(self.guards):
            if self._evaluated(guard.expr, values) == sympy.false:
                if number >= self._models:
                    return False
                expression = self._env.replace(guard.expr)
                given = ", ".join(f"{name} is {values[symbol]}" for symbol, name in named.items())
                raise ValueError(f"the model was compiled for {_shown(expression, named)}{_at_line(_line(guard.sloc))}; {given}")
        if broken := self._broken(values, named):
            raise ValueError(broken)
        return True

    def symbols(self, names: Mapping[int, str], called: Callable[[str, int], tuple[str, ...]]) -> list[SizeFacts]:
        """Returns the symbols that are a size of an argument by themselves.

        names   of the arguments, by number
        called  returns for an argument's name and a dimension what a user may call it
        """
        read: dict[sympy.Symbol, list[str]] = {}
        for i, name in names.items():
            for d, expression in enumerate(self._sizes[i]):
                if expression.is_Symbol:
                    read.setdefault(expression, []).extend(called(name, d))
        facts = []
        for symbol, places in read.items():
            known = self._env.var_to_range[symbol]
            highest = int(known.upper) if known.upper.is_Integer else None
            typical = typical_value(symbol, self._env)
            facts.append(SizeFacts(str(symbol), typical or 0, int(known.lower), highest, tuple(dict.fromkeys(places))))
        return facts

    def check(self, values: Mapping[str, int], symbols: Sequence[SizeFacts]) -> None:
        """Raises ValueError for values of symbols, by name, that the graph does not serve."""
        written = {symbol.name: symbol.written for symbol in symbols}
        for symbol in symbols:
            value = values.get(symbol.name, symbol.minimum)
            if value < symbol.minimum or (symbol.maximum is not None and value > symbol.maximum):
                raise ValueError(f"{symbol.written} must be {range_text(symbol.minimum, symbol.maximum)}; it is {value}")
        found = {symbol: values[str(symbol)] for symbol in (self._env.var_to_range if values else ()) if str(symbol) in values}
        for guard in self.guards:
            if self._evaluated(guard.expr, found) == sympy.false:
                named = {symbol: written[str(symbol)] for symbol in found}
                raise ValueError(f"the model is compiled for {_shown(guard.expr, named)}{_at_line(_line(guard.sloc))}")

    def check_unguarded(self, values: Mapping[str, int], symbols: Sequence[SizeFacts]) -> None:
        """Raises RuntimeError for values of symbols, by name, that break what the model demands and torch leaves to the call (see
        fx.unbacked)."""
        demands = self._demands
        if not demands:
            return
        known = {symbol.name: symbol for symbol in symbols}
        found = {symbol: values[str(symbol)] for symbol in self._env.var_to_range if str(symbol) in values}
        if broken := self._broken(found, {symbol: _place(known[str(symbol)]) for symbol in found}):
            raise RuntimeError(broken)

    @property
    def unguarded(self) -> set[str]:
        """The names of the symbols on which torch may not guard (see fx.unbacked)."""
        return {str(symbol) for symbol in self._env.unbacked_inputs} if self._env is not None else set()

    @property
    def _demands(self) -> Sequence[Any]:
        return asserts(self._env) if self._env is not None else ()

    def _broken(self, values: Mapping[sympy.Symbol, int], named: Mapping[sympy.Symbol, str]) -> str:
        """Returns which `torch._check` of the model these values break; "" if none."""
        for demand in self._demands:
            expression = self._env.replace(demand.expr)
            if self._evaluated(demand.expr, values) == sympy.false:
                given = ", ".join(f"{named[s]} is {values[s]}" for s in named if s in expression.free_symbols)
                return f"the model demands {_shown(expression, named)}{_at_line(line_of(demand, self._env))}; {given}"
        return ""

    def conditions(self, describe: Callable[[Any], str]) -> tuple[SizeCondition, ...]:
        """Returns the conditions on sizes, each once, with the lines that asked for them. describe: names a source of Dynamo."""
        sources = symbol_sources(self._env) if self._env is not None else ()
        named = {symbol: describe(places[0]) for symbol, places in sources if places}
        conditions = {text: _asked(text, guard.sloc) for guard in self.guards if (text := _shown(guard.expr, named))}
        conditions |= {text: SizeCondition(text, line_of(a, self._env)) for a in self._demands if (text := _shown(a.expr, named))}
        return tuple(conditions.values())

    def deciding_line(self) -> str:
        """Returns the model's line that decides by a size; "" if none is known."""
        lines = [(isinstance(g.expr, sympy.Eq) and g.expr.rhs.is_Integer, _line(g.sloc)) for g in self.guards]
        return next((line for _, line in sorted(lines, key=lambda x: not x[0]) if line), "")

    def _evaluated(self, condition: sympy.Basic, values: Mapping[sympy.Symbol, int]) -> sympy.Basic:
        """Returns a condition for these values. It is taken as it was asked, as one of equality replaces a symbol for torch."""
        found = condition.xreplace(values)
        return self._env.replace(condition).xreplace(values) if found.free_symbols else found

    def _sizes_of(self, arguments: Mapping[int, tuple[str, Any]]) -> Iterator[tuple[str, sympy.Expr, int]]:
        for i, (name, value) in arguments.items():
            shape = value.shape if isinstance(value, Tensor) else None
            places = [name] if shape is None else [place_text(name, d) for d in range(len(shape))]
            yield from zip(places, self._sizes[i], (value,) if shape is None else shape, strict=True)

    def _line_of(self, constant: sympy.Expr) -> str:
        """Returns the line that compares a size with a constant."""
        lines = [_line(g.sloc) for g in self.guards if constant in g.expr.args]
        lines += [line_of(demand, self._env) for demand in self._demands if constant in demand.expr.args]
        return _at_line(next(filter(None, lines), ""))


def _sizes(value: Any) -> tuple[sympy.Expr, ...]:
    if isinstance(value, Tensor):
        return tuple(map(_expression, value.shape))
    return (_expression(value),) if isinstance(value, int | torch.SymInt) else ()


def _asked(text: str, asked: Any) -> SizeCondition:
    """Returns a condition and where it comes from, as torch reports it."""
    frame = asked.framework_loc
    users = _LINE.fullmatch(asked.maybe_user_loc or "")
    if users is None:
        return SizeCondition(text, _line(asked))
    by = ""
    if isinstance(frame, traceback.FrameSummary) and not frame.filename.startswith(_DYNAMO):
        by = f"{'lamina' if frame.filename.startswith(_LAMINA) else 'torch'}: {frame.name}"
    return SizeCondition(text, os.path.basename(users["where"]), users["code"], by)


def _line(asked: Any) -> str:
    frame = asked.framework_loc
    return f"{frame.filename}:{frame.lineno}" if isinstance(frame, traceback.FrameSummary) and is_users(frame.filename) else ""


def _place(symbol: SizeFacts) -> str:
    """Returns how errors name a size that each call decides."""
    name, _, dim = (symbol.read or (symbol.name,))[0].partition(", dimension ")
    return place_text(name, int(dim)) if dim.isdecimal() else symbol.name


def _at_line(line: str) -> str:
    return f" at {line}" if line else ""


def _expression(size: Any) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _shown(expression: sympy.Basic, named: Mapping[sympy.Symbol, str]) -> str:
    """Returns an expression with the places in place of their symbols."""
    text = PythonPrinter().doprint(expression)
    for symbol, place in named.items():
        text = re.sub(rf"\b{symbol}\b", f"({place})", text)
    return text
