"""Lamina's dialects, defined in Python; `context()` gives an MLIR context that knows them all."""

from torch_mlir import ir
from torch_mlir.dialects._ods_common import _cext

from . import graph, plan
from .random import Random
from .tile import Tile
from .variadic import verify as _verify

# The bindings look for a dialect's module whenever they meet one of its ops, 16 us each time until one is found.
_cext.globals.append_dialect_search_prefix(__name__)


def context() -> ir.Context:
    """A fresh MLIR context with every upstream dialect of the wheel, and graph, plan, random and tile."""
    ctx = ir.Context()
    ctx.allow_unregistered_dialects = True  # graph and plan: see variadic.py
    with ctx, ir.Location.unknown():
        Random.load()
        Tile.load()
    return ctx


def verify(module: ir.Operation) -> list[tuple[ir.Operation, str]]:
    """What upstream's verifier cannot see: malformed ops of graph and plan, as pairs of the op and a message."""
    return _verify(module, graph.OPS | plan.OPS, ("graph.", "plan."))
