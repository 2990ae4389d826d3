"""Lamina's dialects, defined in Python; `context()` makes an MLIR context that has all of them."""

from functools import cache

from torch_mlir import ir
from torch_mlir._mlir_libs import _torchMlir
from torch_mlir.dialects import irdl
from torch_mlir.dialects._ods_common import _cext
from torch_mlir.passmanager import PassManager

from . import graph, plan
from .random import Random
from .tile import Tile
from .variadic import verify as _verify

# The bindings search for a dialect's module at each of its ops, 16 us each time until one is found.
_cext.globals.append_dialect_search_prefix(__name__)


# What Lamina builds ops of. Parsers and passes load others when they meet them; to load all takes three times as long.
_LOADED = "affine arith bufferization cf complex func gpu index irdl linalg llvm math memref nvvm scf tensor ub vector".split()


def context() -> ir.Context:
    """Makes an MLIR context with the upstream dialects of the wheel, and graph, plan, random and tile."""
    ctx = ir.Context(load_on_create_dialects=[])
    for name in _LOADED:
        ctx.get_dialect_descriptor(name)  # not by the constructor, which would import the bindings of each
    ctx.allow_unregistered_dialects = True  # graph and plan: see variadic.py
    with ctx, ir.Location.unknown():
        irdl.load_dialects(ir.Module.parse(_declarations()))
        for op in (*Random.operations, *Tile.operations):
            op._attach_traits()
    return ctx


@cache
def _declarations() -> str:
    """Returns the ops of random and tile as text: the bindings would build and simplify them for each context, 3 ms."""
    texts = []
    with ir.Context() as ctx, ir.Location.unknown():
        ctx.allow_unregistered_dialects = True
        for dialect in (Random, Tile):
            dialect.load()
            texts.append(str(dialect._mlir_module))
            dialect._mlir_module = None  # it would keep the context
    return "\n".join(texts)


def load_torch(ctx: ir.Context) -> None:
    """Loads torch-mlir's dialects into a context: torch, and tm_tensor, which its bindings load only for a pass that needs it."""
    _torchMlir.register_dialect(ctx)
    with ctx, ir.Location.unknown():
        needs_it = PassManager.parse("builtin.module(func.func(convert-torch-to-tmtensor))", ctx)
        needs_it.run(ir.Module.create().operation)


def verify(module: ir.Operation) -> list[tuple[ir.Operation, str]]:
    """Verifies ops and attributes of graph and plan, which upstream's verifier does not know. Returns pairs of op and message."""
    return _verify(module, graph.OPS | plan.OPS, ("graph.", "plan.", graph.FunctionOp.OPERATION_NAME))
