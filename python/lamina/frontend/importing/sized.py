"""Imports graphs with symbolic sizes: ops that make tensors from sizes, or move elements, become calls that name the sizes of their
results.

    %1 = call @move_0(%0) : (!torch.vtensor<[?,?,16],f32>) -> !torch.vtensor<[?,16],f32>
    func.func private @move_0(...) attributes {graph.move = "aten.view.default", graph.args = [unit, [...]], graph.kwargs = {},
                                               graph.sizes = [["s0~8*s1~128", 16]]}

lamina-name-sizes makes tensor ops of these calls.
"""

from typing import Any

import torch
from torch import fx
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.sizes import at_most, below
from lamina.passes.ir.sizes import sizes_attribute
from lamina.passes.simplify.name_sizes import MOVE, SIZES
from lamina.passes.simplify.sized_moves import MOVES

from ..fx.locations import where
from ..fx.sizes import exact, exact_sizes, is_open
from . import externs

aten = torch.ops.aten
STRICT = "torch.assume_strict_symbolic_shapes"
"""On @main: unknown sizes do not broadcast."""


def is_move(node: fx.Node) -> bool:
    """Returns whether a node is imported as a move: an op with an expansion that takes or makes a symbolic size, or that torch-mlir
    does not lower."""
    if node.target is aten.view.dtype:
        return True
    if str(node.target) not in MOVES:
        return False
    given: list[Any] = [node.meta.get("val")]
    fx.node.map_aggregate((node.args, node.kwargs), lambda a: given.append(a.meta.get("val") if isinstance(a, fx.Node) else a))
    return any(map(is_open, given))


def move_attributes(node: fx.Node, template: externs.Template) -> dict[str, ir.Attribute]:
    """Returns the attributes of a move's private function. Raises CompileError for an index of unknown sign: torch has asked for
    those of others."""
    args, kwargs = template
    starts = node.args[2:3] if node.target in (aten.slice.Tensor, aten.select.int) else ()
    for index in (arg for arg in starts if isinstance(arg, torch.SymInt) and not arg.node.has_hint()):
        if not at_most(0, exact(index)) and not below(exact(index), 0):
            raise CompileError(f"the sign of {index} depends on the call", where=where(node), remedy="compile per concrete size")
    return {
        MOVE: ir.StringAttr.get(str(node.target)),
        "graph.args": ir.ArrayAttr.get([externs.attribute(a) for a in args]),
        "graph.kwargs": ir.DictAttr.get({name: externs.attribute(a) for name, a in kwargs.items()}),
        SIZES: _sizes(node),
    }


def open_sizes(node: fx.Node) -> dict[str, ir.Attribute]:
    """Returns the attribute that names the sizes of a node's result, where some are symbolic."""
    return {SIZES: _sizes(node)} if is_open(node.meta["val"]) else {}


def _sizes(node: fx.Node) -> ir.Attribute:
    return ir.ArrayAttr.get([sizes_attribute(exact_sizes(node.meta["val"].shape))])
