"""Imports graphs with symbolic sizes: what makes sizes or moves elements is a call that names the sizes of its result.

    %1 = call @move_0(%0) : (!torch.vtensor<[?,?,16],f32>) -> !torch.vtensor<[?,16],f32>
    func.func private @move_0(...) attributes {graph.move = "aten.view.default", graph.args = [unit, [...]], graph.kwargs = {},
                                               graph.sizes = [["s0~8*s1~128", 16]]}

lamina-name-sizes makes tensor ops of these calls.
"""

from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy import functions
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.sizes import at_most, below
from lamina.passes.ir.sizes import sizes_attribute
from lamina.passes.simplify.name_sizes import MOVE, SIZES
from lamina.passes.simplify.sized_moves import MOVES

from ..fx.locations import where
from ..fx.rewriter import insert
from ..fx.sizes import SYMBOLIC, exact, exact_sizes, is_open
from . import externs

aten = torch.ops.aten
STRICT = "torch.assume_strict_symbolic_shapes"
"""On @main: unknown sizes do not broadcast."""
_TENSORS = {
    aten.add.Scalar: aten.add.Tensor, aten.sub.Scalar: aten.sub.Tensor, aten.mul.Scalar: aten.mul.Tensor,
    aten.div.Scalar: aten.div.Tensor, aten.pow.Tensor_Scalar: aten.pow.Tensor_Tensor, aten.eq.Scalar: aten.eq.Tensor,
    aten.ne.Scalar: aten.ne.Tensor, aten.lt.Scalar: aten.lt.Tensor, aten.le.Scalar: aten.le.Tensor, aten.gt.Scalar: aten.gt.Tensor,
    aten.ge.Scalar: aten.ge.Tensor, aten.remainder.Scalar: aten.remainder.Tensor, aten.fmod.Scalar: aten.fmod.Tensor,
    aten.rsub.Scalar: aten.rsub.Tensor, aten.div.Scalar_mode: aten.div.Tensor_mode,
}  # fmt: skip
_WITH_TENSORS = {*_TENSORS.values(), aten.pow.Tensor_Tensor, aten.maximum.default, aten.minimum.default}


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


def sizes_as_tensors(graph: fx.Graph) -> None:
    """Replaces sizes beside tensors in arithmetic (`x / n`) by tensors without dimensions, which promote like numbers. Raises
    CompileError for a float that is no arithmetic on sizes."""
    for node in list(graph.nodes):
        if node.target is aten.true_divide.Tensor:
            node.target = aten.div.Tensor
        target = _TENSORS.get(node.target, node.target)
        if node.op != "call_function" or target not in _WITH_TENSORS:
            continue
        for i, arg in enumerate(node.args):
            if not isinstance(arg, SYMBOLIC):
                continue
            node.target = target
            node.update_arg(i, _as_tensor(node, arg.node.expr, arg.node.shape_env))
        if node.target is aten.rsub.Tensor and len(node.args) == 2:  # torch-mlir does not lower it
            node.target, node.args = aten.sub.Tensor, node.args[::-1]


def _as_tensor(at: fx.Node, expr: sympy.Expr, env: Any) -> fx.Node:
    """Inserts nodes that compute a size, or a float made of sizes, as a tensor without dimensions."""
    if not expr.free_symbols or expr.is_integer:
        number = env.create_symintnode(expr, hint=None) if expr.free_symbols else (int if expr.is_integer else float)(expr)
        dtype = torch.int64 if expr.is_integer else torch.float64
        value = at.meta["val"].new_empty([], dtype=dtype)
        return insert(at, value, aten.full.default, [], number, dtype=dtype, device=value.device)
    value = at.meta["val"].new_empty([], dtype=torch.float64)
    parts = [_as_tensor(at, arg, env) for arg in expr.args]
    if isinstance(expr, functions.ToFloat):
        return parts[0]
    op = next((op for kind, op in _FLOATS.items() if isinstance(expr, kind)), None)
    if op is None:
        raise CompileError(f"{at.target} takes {expr}, a number made of sizes", where=where(at), remedy="compile per concrete size")
    out = parts[0]
    for part in parts[1:]:
        out = insert(at, value, op, out, part)
    return insert(at, value, op, out) if len(parts) == 1 else out


_FLOATS: dict[Any, Any] = {
    functions.FloatTrueDiv: aten.div.Tensor, functions.IntTrueDiv: aten.div.Tensor, sympy.Add: aten.add.Tensor,
    sympy.Mul: aten.mul.Tensor, functions.FloatPow: aten.pow.Tensor_Tensor, sympy.Pow: aten.pow.Tensor_Tensor,
    functions.OpaqueUnaryFn_sqrt: aten.sqrt.default,
}  # fmt: skip


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
