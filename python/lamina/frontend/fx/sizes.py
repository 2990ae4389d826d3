"""Converts torch's symbolic sizes (SymInt) to Lamina's, without adding a guard to what torch knows of them."""

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import statically_known_true

from lamina.core.errors import CompileError
from lamina.core.sizes import LEAST, LOWEST, Size, SizeLike, typical
from lamina.core.sizes.facts import SizeFacts

from .dtypes import REAL
from .size_expressions import expression_of, size_of, sizes_read, typical_number, typical_value
from .unbacked import asserts, numbers_of, symbol_sources

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def exact(size: "int | torch.SymInt") -> SizeLike:
    """Returns a size of a fake tensor: a number where the guards that stand already fix it, else an expression of symbols. Raises
    CompileError for a symbol that has no known sign, or no value yet, and for an expression of another kind."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    node = size.node
    known = sizes_read(node.shape_env)
    if node.expr not in known:
        fixed = node.has_hint() and statically_known_true(size == node.hint)
        known[node.expr] = int(node.hint) if fixed else size_of(node.expr, node.shape_env)
    return known[node.expr]


def exact_sizes(sizes: Sequence[Any]) -> tuple[SizeLike, ...]:
    """Returns sizes or strides of a fake tensor (see `exact`)."""
    return tuple(map(exact, sizes))


def typical_size(size: "int | torch.SymInt") -> int:
    """Returns the value of a size of a fake tensor in the call that was traced, for choices that are only about speed."""
    return int(size) if not isinstance(size, torch.SymInt) else typical_number(size.node.expr, size.node.shape_env)


def is_open(value: Any) -> bool:
    """Returns whether a value is symbolic, or a tensor with a symbol among its sizes, strides or offset."""
    return any(isinstance(n, SYMBOLIC) for n in numbers_of(value))


def memory_sizes(value: Tensor) -> tuple[SizeLike, ...]:
    """Returns the sizes of a tensor in a program, where complex numbers are a last dimension of their two parts."""
    return (*exact_sizes(value.shape), 2) if value.dtype in REAL else exact_sizes(value.shape)


def memory_strides(value: Tensor) -> tuple[SizeLike, ...]:
    """Returns the strides of a tensor in a program (see `memory_sizes`)."""
    strides = exact_sizes(value.stride())
    return (*(2 * n for n in strides), 1) if value.dtype in REAL else strides


def restrided(value: Tensor, strides: Sequence[SizeLike]) -> Tensor:
    """Returns a fake tensor like another one, in memory of its own, with these strides."""
    mode = torch._guards.detect_fake_mode(value)
    made = [n if isinstance(n, int) else _symbolic_int(n, mode.shape_env) for n in strides]
    with mode or nullcontext():
        return torch.empty_strided(value.shape, made, dtype=value.dtype, device=value.device)


def _symbolic_int(size: Size, env: Any) -> torch.SymInt:
    """Returns a size as one of torch's, without a guard."""
    return torch.SymInt(SymNode(expression_of(size, env), env, int, typical(size)))


def elements(value: Tensor) -> SizeLike:
    """Returns the number of elements of a fake tensor."""
    return math.prod(exact_sizes(value.shape))


def is_known(size: Any) -> bool:
    """Returns whether a number is one, or a size that each call decides; not one that depends on the values of tensors."""
    if not isinstance(size, SYMBOLIC) or size.node.has_hint():
        return True
    env = size.node.shape_env
    return all(typical_value(symbol, env) is not None for symbol in size.node.expr.free_symbols)


def is_sized(graph: fx.Graph) -> bool:
    """Returns whether a graph computes with a symbolic size that each call decides, not one that the values of tensors do: that of
    an argument, or an int, which a normalized graph only names."""
    placeholders = graph.find_nodes(op="placeholder")
    values = [node.meta.get("val") for node in placeholders]
    if any(map(_is_size, (n for value in values if isinstance(value, Tensor) for n in numbers_of(value)))):
        return True
    numbers = [node for node, value in zip(placeholders, values, strict=True) if _is_size(value)]
    return any(node.users for node in numbers) or any(map(_names_size, graph.nodes))


def _is_size(value: Any) -> bool:
    return isinstance(value, torch.SymInt) and is_known(value)


def _names_size(node: fx.Node) -> bool:
    """Returns whether a size itself stands among the arguments of a node, where inline_sizes has put it."""
    found: list[Any] = []
    fx.node.map_aggregate((node.args, node.kwargs), found.append)
    return any(map(_is_size, found))


def _symbolic(graph: fx.Graph) -> list[torch.SymInt]:
    """Returns the symbolic sizes of a graph's arguments."""
    values = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
    return [n for value in values for n in numbers_of(value) if isinstance(n, torch.SymInt)]


@contextmanager
def raw_sizes() -> Iterator[None]:
    """Silences torch 2.13's warning of symbolic sizes among the arguments of a node, which later stages read there."""
    with warnings.catch_warnings():
        silence_raw_sizes()
        yield


def silence_raw_sizes() -> None:
    """Silences it from now on: another thread cannot do so for a while, as warnings.catch_warnings is for all threads."""
    warnings.filterwarnings("ignore", message="Raw Sym", category=UserWarning)


@contextmanager
def unguarded(graph: fx.Graph) -> Iterator[None]:
    """Raises for a comparison of sizes in its body that would add a guard: it would compile for some sizes only."""
    with raw_sizes(), guards_refused(graph), _uncached(graph):
        yield


@contextmanager
def _uncached(graph: fx.Graph) -> Iterator[None]:
    """Turns off the cache of fake tensors in its body: it asks for the memory format of each, which torch may not know without a
    guard."""
    mode = torch._guards.detect_fake_mode([node.meta.get("val") for node in graph.find_nodes(op="placeholder")])
    if mode is None:
        yield
        return
    before, mode.cache_enabled = mode.cache_enabled, False
    try:
        yield
    finally:
        mode.cache_enabled = before


def guards_refused(graph: fx.Graph) -> AbstractContextManager[None]:
    """Returns a context that raises for new guards on the sizes of a graph's arguments."""
    env = next((size.node.shape_env for size in _symbolic(graph)), None)
    return nullcontext() if env is None else getattr(env, "error_on_new_guards", partial(_no_new_guards, env))()  # type: ignore[no-any-return]


@contextmanager
def _no_new_guards(env: Any) -> Iterator[None]:
    """Raises CompileError at the end where guards were added: torch 2.11 cannot refuse them."""
    before = len(env.guards)
    yield
    if len(env.guards) > before:
        raise CompileError(
            f"it would be compiled for some sizes only: {env.guards[before].expr}", remedy="compile per concrete size"
        )


def what_is_known(graph: fx.Graph) -> tuple[list[str], list[str]]:
    """Returns torch's knowledge of the symbolic sizes of a graph's arguments: the sizes with their ranges, and the conditions."""
    sizes = _symbolic(graph)
    if not sizes:
        return [], []
    env = sizes[0].node.shape_env
    exprs = {env.simplify(size.node.expr) for size in sizes}
    symbols = set().union(*(expr.free_symbols for expr in exprs))
    ranges = (f"{s} {env.var_to_range.get(s)}" for s in symbols)
    return sorted(ranges), sorted({str(condition.expr) for condition in (*env.guards, *asserts(env))})


def symbol_of(size: torch.SymInt) -> SizeFacts:
    """Returns the facts about a size that is one symbol."""
    env, expr = size.node.shape_env, size.node.shape_env.simplify(size.node.expr)
    known = env.var_to_range.get(expr)
    low, high = (known.lower, known.upper) if known is not None else (LEAST, None)
    places = [place_of(source) for symbol, sources in symbol_sources(env) if env.replace(symbol) == expr for source in sources]
    most = int(high) if high is not None and high.is_Integer else None
    factors = [int(mod.args[1]) for mod in env.divisible if env.replace(mod.args[0]) == expr and mod.args[1].is_Integer]
    return SizeFacts(
        str(expr), typical_size(size), int(low) if low > LOWEST else LOWEST, most, tuple(dict.fromkeys(places)), math.lcm(*factors)
    )


def symbols_among(values: Sequence[Any]) -> list[SizeFacts]:
    """Returns the facts about the sizes, among the values of a graph's arguments, that are one symbol."""
    sizes = [n for value in values for n in numbers_of(value) if _is_size(n)]
    found = [symbol_of(n) for n in sizes if n.node.shape_env.simplify(n.node.expr).is_Symbol]
    return list({symbol.name: symbol for symbol in found}.values())


def source_text(source: Any) -> str:
    """Returns a source of Dynamo as Python: "L['x'].size()[0]"."""
    return source.name() if callable(source.name) else source.name  # type: ignore[no-any-return]


def place_of(source: Any) -> str:
    """Returns where a source of Dynamo is found: "L['x'].size()[0]" as "x, dimension 0"."""
    text = source_text(source)
    found = re.fullmatch(r"L\['(\w+)'\](.*?)(?:\.(size|stride)\(\)\[(\d+)\])?", text)
    if not found:
        return text
    name, rest, kind, dim = found.groups()
    return name + rest + ({None: "", "size": f", dimension {dim}", "stride": f", stride of dimension {dim}"}[kind])
