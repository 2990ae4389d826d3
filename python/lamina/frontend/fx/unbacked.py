"""Sizes of arguments on which torch may not guard (`torch._dynamo.decorators.mark_unbacked`): symbols without a value in torch.

Lamina compiles them like others, and checks at a call's first sizes what torch would have guarded: ranges, and what the model says
by `torch._check`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import sympy
import torch
from torch import Tensor, fx
from torch._dynamo.source import TensorProperty, TensorPropertySource
from torch.fx.experimental.symbolic_shapes import RuntimeAssert

from .locations import where
from .size_expressions import tell_typical, typical_value

_SOURCES: WeakKeyDictionary[Any, dict[sympy.Symbol, Any]] = WeakKeyDictionary()
"""The arguments in which Dynamo finds the unbacked symbols of each ShapeEnv, which itself has sources only for backed ones."""
_LINES: WeakKeyDictionary[Any, dict[sympy.Basic, str]] = WeakKeyDictionary()
"""The lines of the model that demand something of sizes: torch keeps the stack of its own capture."""


def note_sizes(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Notes for a graph that Dynamo has captured which sizes its unbacked symbols have, as typical ones, where they are found, and
    which lines demand something of them."""
    for node, example in zip(gm.graph.find_nodes(op="placeholder"), example_inputs, strict=True):
        val, source = node.meta.get("example_value"), getattr(node.meta.get("grapharg"), "source", None)
        if not isinstance(val, Tensor) or not isinstance(example, Tensor):
            continue
        for d, (size, n) in enumerate(zip(val.shape, example.shape, strict=True)):
            if isinstance(size, torch.SymInt) and size.node._expr in size.node.shape_env.unbacked_inputs:
                _note(size.node, n, None if source is None else TensorPropertySource(source, TensorProperty.SIZE, d))
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default):
        condition = node.args[0].meta.get("example_value") if isinstance(node.args[0], fx.Node) else None
        if isinstance(condition, torch.SymBool):
            _LINES.setdefault(condition.node.shape_env, {}).setdefault(condition.node._expr, where(node.args[0]))


def _note(node: Any, size: Any, source: Any) -> None:
    env = node.shape_env
    if source is not None:
        _SOURCES.setdefault(env, {})[node._expr] = source
    if isinstance(size, int) and node.expr.is_Symbol:
        tell_typical(node.expr, env, size)


def symbol_sources(env: Any) -> Iterator[tuple[sympy.Symbol, Sequence[Any]]]:
    """Yields the symbols of arguments with the sources of Dynamo at which they are found."""
    yield from env.var_to_sources.items()
    yield from ((symbol, [source]) for symbol, source in _SOURCES.get(env, {}).items())


def makers(graph: fx.Graph) -> list[fx.Node]:
    """Returns the calls whose results have sizes that neither an argument brings nor an earlier call has made."""
    known: set[sympy.Symbol] = set()
    calls = []
    for node in graph.nodes:
        if new := _symbols(node) - known if node.op == "placeholder" or node.meta.get("unbacked_bindings") else set():
            known |= new
            calls += [node] if node.op != "placeholder" else []
    return calls


def _symbols(node: fx.Node) -> set[sympy.Symbol]:
    sizes = (n for n in numbers_of(node.meta.get("val")) if isinstance(n, torch.SymInt))
    return {symbol for n in sizes for symbol in n.node.expr.free_symbols}


@contextmanager
def computed_sizes(graph: fx.Graph) -> Iterator[list[fx.Node]]:
    """Makes the sizes known that calls of a graph make, as they are once these have run. Yields the calls; forgets the sizes where
    its body raises."""
    calls = makers(graph)
    symbols: list[tuple[Any, sympy.Symbol]] = []
    for size in (n for node in calls for n in numbers_of(node.meta.get("val")) if isinstance(n, torch.SymInt)):
        env, expr = size.node.shape_env, size.node.expr
        symbols += [(env, s) for s in expr.free_symbols if typical_value(s, env) is None and env.var_to_range[s].lower >= 0]
    for env, symbol in symbols:
        env.unbacked_inputs.add(symbol)
    try:
        yield calls
    except BaseException:
        for env, symbol in symbols:
            env.unbacked_inputs.discard(symbol)
        raise


def numbers_of(value: Any) -> Sequence[Any]:
    """Returns the sizes, strides and offset of a tensor, or what else was given."""
    if not isinstance(value, Tensor):
        return (value,)
    return (*value.shape, *value.stride(), value.storage_offset()) if value.layout is torch.strided else value.shape


def line_of(demand: RuntimeAssert, env: Any) -> str:
    """Returns the line of the model that demands something of sizes, "model.py:7"; "" if it is not known."""
    return _LINES.get(env, {}).get(demand.expr, "")


def has_unbacked(values: Sequence[Any]) -> bool:
    """Returns whether the values of a graph's arguments have sizes on which torch may not guard."""
    mode = torch._guards.detect_fake_mode(values)
    return mode is not None and bool(getattr(mode.shape_env, "unbacked_inputs", ()))


def asserts(env: Any) -> list[RuntimeAssert]:
    """Returns the conditions on the sizes of its arguments that a model states (`torch._check`) and that torch leaves to the call
    to check."""
    return [
        found
        for of_symbol in env.deferred_runtime_asserts.values()
        for found in of_symbol
        if all(typical_value(symbol, env) is not None for symbol in found.expr.free_symbols)
    ]
