"""Converts numbers that are computed from sizes to 0-d tensors, where they are arguments of ops: `x / n`, `torch.full(shape, 1 /
n)`, `torch.add(x, y, alpha=1 / n)`."""

from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy import functions

from lamina.core.errors import CompileError

from ..fx.locations import where
from ..fx.rewriter import insert, insert_number
from ..fx.sizes import SYMBOLIC

aten = torch.ops.aten

_TENSORS = {
    aten.add.Scalar: aten.add.Tensor, aten.sub.Scalar: aten.sub.Tensor, aten.mul.Scalar: aten.mul.Tensor,
    aten.div.Scalar: aten.div.Tensor, aten.pow.Tensor_Scalar: aten.pow.Tensor_Tensor, aten.eq.Scalar: aten.eq.Tensor,
    aten.ne.Scalar: aten.ne.Tensor, aten.lt.Scalar: aten.lt.Tensor, aten.le.Scalar: aten.le.Tensor, aten.gt.Scalar: aten.gt.Tensor,
    aten.ge.Scalar: aten.ge.Tensor, aten.remainder.Scalar: aten.remainder.Tensor, aten.fmod.Scalar: aten.fmod.Tensor,
    aten.rsub.Scalar: aten.rsub.Tensor, aten.div.Scalar_mode: aten.div.Tensor_mode,
}  # fmt: skip
_WITH_TENSORS = {*_TENSORS.values(), aten.pow.Tensor_Tensor, aten.maximum.default, aten.minimum.default}
_SCALED = {aten.add.Tensor, aten.sub.Tensor, aten.rsub.Tensor}
_FULL = {aten.full.default, aten.full_like.default}
_PRODUCTS = {aten.addmm.default: aten.mm.default, aten.baddbmm.default: aten.bmm.default}
_FUNCTIONS = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "exp", "log", "asinh", "log2")
_COMPARISONS: dict[Any, Any] = {
    sympy.StrictLessThan: aten.lt.Tensor, sympy.LessThan: aten.le.Tensor, sympy.StrictGreaterThan: aten.gt.Tensor,
    sympy.GreaterThan: aten.ge.Tensor, sympy.Equality: aten.eq.Tensor, sympy.Unequality: aten.ne.Tensor,
}  # fmt: skip
_FLOATS: dict[Any, Any] = {
    functions.FloatTrueDiv: aten.div.Tensor, functions.IntTrueDiv: aten.div.Tensor, sympy.Add: aten.add.Tensor,
    sympy.Mul: aten.mul.Tensor, functions.FloatPow: aten.pow.Tensor_Tensor, sympy.Pow: aten.pow.Tensor_Tensor,
    sympy.Abs: aten.abs.default, functions.Max: aten.maximum.default, functions.Min: aten.minimum.default,
    **{getattr(functions, f"OpaqueUnaryFn_{name}"): getattr(aten, name).default for name in _FUNCTIONS},
}  # fmt: skip


def sizes_as_tensors(graph: fx.Graph) -> None:
    """Replaces numbers made of sizes by tensors without dimensions, which promote like numbers. Raises CompileError for a float
    that is not arithmetic on sizes."""
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in _SCALED and isinstance(node.kwargs.get("alpha"), SYMBOLIC):
            _scale(node)
        elif node.target in _PRODUCTS and any(isinstance(n, SYMBOLIC) for n in node.kwargs.values()):
            _open_product(node)
        elif node.target in _FULL and isinstance(node.args[1], torch.SymFloat):
            _fill(node)
        elif node.target is aten.scatter.value and isinstance(node.args[3], torch.SymFloat):
            _scatter(node)
        target = _TENSORS.get(node.target, node.target)
        if target not in _WITH_TENSORS:
            continue
        for i, arg in enumerate(node.args):
            if isinstance(arg, SYMBOLIC):
                node.target = target
                node.update_arg(i, _tensor(node, arg))
        if node.target is aten.rsub.Tensor and len(node.args) == 2:  # torch-mlir does not lower it
            node.target, node.args = aten.sub.Tensor, node.args[::-1]


def _scale(node: fx.Node) -> None:
    """Multiplies the operand that alpha scales: x + alpha * y."""
    scaled = 0 if node.target is aten.rsub.Tensor else 1
    node.update_arg(scaled, _times(node, node.args[scaled], node.kwargs["alpha"]))
    node.kwargs = {name: value for name, value in node.kwargs.items() if name != "alpha"}


def _open_product(node: fx.Node) -> None:
    """Writes beta * a + alpha * (b @ c) as a product and arithmetic."""
    added, left, right = node.args
    product = insert(node, node.meta["val"], _PRODUCTS[node.target], left, right)
    scaled = _times(node, product, node.kwargs.get("alpha", 1))
    node.target, node.args, node.kwargs = aten.add.Tensor, (_times(node, added, node.kwargs.get("beta", 1)), scaled), {}


def _fill(node: fx.Node) -> None:
    """Writes a tensor full of a number as ones times the number."""
    like, number = node.args
    ones = insert(node, node.meta["val"], node.target, like, 1, **node.kwargs)
    node.target, node.args, node.kwargs = aten.mul.Tensor, (ones, _tensor(node, number)), {}


def _scatter(node: fx.Node) -> None:
    """Writes a number at indices as a tensor full of it."""
    tensor, dim, index, number = node.args
    value = tensor.meta["val"].new_empty(index.meta["val"].shape)
    ones = insert(node, value, aten.full.default, list(value.shape), 1, dtype=value.dtype, device=value.device)
    source = insert(node, value, aten.mul.Tensor, ones, _tensor(node, number))
    node.target, node.args = aten.scatter.src, (tensor, dim, index, source)


def _times(before: fx.Node, operand: Any, number: Any) -> Any:
    """Inserts a product of a tensor and a number."""
    if not isinstance(number, SYMBOLIC):
        return operand if number == 1 else insert(before, operand.meta["val"], aten.mul.Scalar, operand, number)
    return insert(before, operand.meta["val"], aten.mul.Tensor, operand, _tensor(before, number))


def _tensor(before: fx.Node, number: Any) -> fx.Node:
    return _as_tensor(before, number.node.expr, number.node.shape_env)


def _as_tensor(before: fx.Node, expr: sympy.Expr, env: Any) -> fx.Node:
    """Inserts nodes that compute a size, or a float or bool made of sizes, as a tensor without dimensions."""
    if not expr.free_symbols or expr.is_integer:
        number = env.create_symintnode(expr, hint=None) if expr.free_symbols else (int if expr.is_integer else float)(expr)
        dtype = torch.int64 if expr.is_integer else torch.float64
        return insert_number(before, number, before.meta["val"].new_empty([], dtype=dtype))
    value = before.meta["val"].new_empty([], dtype=torch.bool if type(expr) in _COMPARISONS else torch.float64)
    parts = [_as_tensor(before, arg, env) for arg in expr.args]
    if isinstance(expr, functions.ToFloat):
        return parts[0]
    op = next((op for kind, op in (_FLOATS | _COMPARISONS).items() if isinstance(expr, kind)), None)
    if op is None:
        raise CompileError(
            f"{before.target} takes {expr}, a number made of sizes", where=where(before), remedy="compile per concrete size"
        )
    out = parts[0]
    for part in parts[1:]:
        out = insert(before, value, op, out, part)
    return insert(before, value, op, out) if len(parts) == 1 else out
