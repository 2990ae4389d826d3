"""Reads Options.specialize for a graph: which symbols are numbers in each of the programs that it requests."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import Tensor, fx
from torch.fx.experimental.sym_node import SymNode

from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.core.sizes import LEAST
from lamina.core.sizes.facts import NamedSizes, SizeFacts, unknown_names, values_of

from ..capture.open_sizes import OpenSizes
from ..capture.size_relations import SizeRelations
from ..fx.sizes import source_text, symbols_among


def for_captured(options: Options, gm: fx.GraphModule, named: Callable[[SizeFacts], SizeFacts] = lambda symbol: symbol) -> Options:
    """Returns options whose sets of sizes name the symbols of a graph that Dynamo has captured. Raises CompileError for a size that
    the graph does not take; warns of names that are none of its sizes', as they may be another graph's.

    named  adds the names that a user knows to what torch knows of a symbol
    """
    values = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    symbols = [named(symbol) for symbol in symbols_among(values)] if options.specialize else []
    if not symbols:
        return replace(options, specialize=())
    for wanted in options.specialize:
        if names := unknown_names(wanted, symbols):
            known = ", ".join(sorted(symbol.written for symbol in symbols))
            warnings.warn(
                f"options.specialize names {names[0]!r}; the sizes that calls of this graph vary are {known}", stacklevel=2
            )
    return _by_symbol(options, options.specialize, symbols, SizeRelations(values))


def specialization(gm: fx.GraphModule) -> dict[str, int] | None:
    """Returns the sizes for which Dynamo asks for a graph of its own, by symbol. None: the graph is for all sizes.

    `mark_dynamic(t, 0, specialize_on=[lambda s: s == 8])` has Dynamo call the backend once more, at the first call of size 8.
    Conditions of other kinds than equality name no sizes, and have the graph for all sizes compiled again.
    """
    asked = gm.meta.get("specialization")
    if asked is None:
        return None
    values = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    env = torch._guards.detect_fake_mode(values).shape_env
    symbol = env.source_to_var[source_text(asked.source)]
    condition = asked.check_fn(torch.SymInt(SymNode(symbol, env, int, None))).node._expr
    if isinstance(condition, sympy.Eq) and condition.lhs == symbol and condition.rhs.is_Integer:
        return {str(symbol): int(condition.rhs)}
    return {}


def for_traced(
    options: Options, open_sizes: OpenSizes, relations: SizeRelations, names: Mapping[int, str], fixed: Mapping[str, int]
) -> Options:
    """Returns options whose sets of sizes name the symbols of a traced graph.

    names  of its arguments, by number
    fixed  the open sizes that are constants of this graph, by name: sets with other values are not for it
    """
    fitting = [tuple((n, s) for n, s in wanted if n not in fixed) for wanted in options.specialize if _fits(wanted, fixed)]
    return _by_symbol(options, fitting, relations.symbols(names, open_sizes.names), relations)


def _fits(wanted: NamedSizes, fixed: Mapping[str, int]) -> bool:
    return all(fixed.get(name, size) == size for name, size in wanted)


def _by_symbol(options: Options, sets: Sequence[NamedSizes], symbols: Sequence[SizeFacts], relations: SizeRelations) -> Options:
    """Returns the options with the sets of sizes by symbol, without those that compile separately. Raises CompileError."""
    by_symbol: list[NamedSizes] = []
    for wanted in sets:
        try:
            values = values_of(wanted, symbols)
            if not values or min(values.values()) < LEAST:  # graphs for 0 and 1 are compiled separately
                continue
            relations.check(values, symbols)
        except ValueError as error:
            raise CompileError(f"options.specialize: {error}") from error
        by_symbol.append(tuple(values.items()))
    return replace(options, specialize=tuple(by_symbol))


def examples(leaves: Sequence[Any], names: Sequence[str], open_sizes: OpenSizes, sizes: Mapping[str, int]) -> list[Any]:
    """Returns inputs like these, of the wanted sizes, in the same order of dimensions in memory."""

    def resized(name: str, value: Any) -> Any:
        """Returns an example of the wanted sizes in place of an argument."""
        dims = open_sizes.dims.get(name)
        if not isinstance(value, Tensor) or not dims:
            return value
        shape = [open_sizes.wanted(name, d, n, sizes) for d, n in enumerate(value.shape)]
        order = sorted(range(value.dim()), key=lambda d: -value.stride(d))
        made = torch.empty_permuted(shape, order, dtype=value.dtype, device=value.device).zero_()
        return made.requires_grad_(value.requires_grad)

    return [resized(name, value) for name, value in zip(names, leaves, strict=True)]
