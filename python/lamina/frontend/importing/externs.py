"""Encodes an external call (arguments as a template, strides of results) as attributes of a private function."""

from typing import Any

import torch
from torch import fx
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects.graph import ON_COMPLEX, TF32
from lamina.kernels.library import CONVOLUTION, CONVOLUTION_BACKWARD, PRODUCTS, STRICT
from lamina.passes.ir.extern_calls import encoded
from lamina.passes.ir.sizes import sizes_attribute

from ..fx import support
from ..fx.destination import convolutions_round_to_tf32, rounds_to_tf32
from ..fx.dtypes import CODES, NAMED, REAL
from ..fx.locations import where
from ..fx.sizes import exact, is_open, memory_sizes, memory_strides

_OUTSIDE = "do this outside the compiled function (after torch._dynamo.graph_break())"

Template = tuple[list[Any], dict[str, Any]]


class _TensorMark:
    """Placeholder for the next tensor operand in a template."""


TENSOR = _TensorMark()
_BYTES = {torch.int8, torch.uint8}
"""dtypes of one type in MLIR: what a kernel computes has none of its own."""


def template(node: fx.Node) -> tuple[list[fx.Node], Template]:
    """Returns the tensor operands in order, and the arguments with a mark in place of each."""
    operands: list[fx.Node] = []

    def mark(arg: Any) -> Any:
        """Replaces tensors among the arguments by a mark, and collects them."""
        if isinstance(arg, fx.Node):
            value = arg.meta.get("val")
            if arg.op != "get_attr" and not isinstance(value, torch.Tensor):
                return value
            operands.append(arg)
            return TENSOR
        if isinstance(arg, list | tuple):
            return [mark(a) for a in arg]
        return arg

    args = [mark(a) for a in node.args]
    return operands, (args, {name: mark(a) for name, a in node.kwargs.items()})


def is_single(node: fx.Node) -> bool:
    """Returns whether the overload returns one tensor, not a tuple or list."""
    return isinstance(node.meta.get("val"), torch.Tensor)


def tensor_results(node: fx.Node) -> list[torch.Tensor | None]:
    """Returns the call's results, None for those that are not tensors. A call without results gives one None."""
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return [v if isinstance(v, torch.Tensor) else None for v in values]


def attributes(node: fx.Node, reason: str, arguments: Template) -> dict[str, ir.Attribute]:
    """Returns the attributes of `graph.extern` or `graph.kernel` (see dialects/graph.py) for the node's private function. Raises
    CompileError for arguments that no program can hold."""
    try:
        return _attributes(node, reason, *arguments)
    except TypeError as error:
        raise CompileError(f"{node.target} takes {error}", where=where(node), remedy=_OUTSIDE) from None


def _attributes(node: fx.Node, reason: str, args: list[Any], kwargs: dict[str, Any]) -> dict[str, ir.Attribute]:
    """Returns the attributes of graph.extern (see dialects/graph.py) for a call."""
    results = tensor_results(node)
    encoded_attributes: dict[str, ir.Attribute] = {
        "callee": ir.StringAttr.get(callee(node)),
        "reason": ir.StringAttr.get(reason),
        "args": ir.ArrayAttr.get([attribute(a) for a in args]),
        "kwargs": ir.DictAttr.get({name: attribute(a) for name, a in kwargs.items()}),
        "strides": encoded([None if t is None else sizes_attribute(memory_strides(t)) for t in results]),
    }
    operands = [value.meta["val"] for value in template(node)[0]]
    tensors = [t for t in results if t is not None]
    complex_ones = [t.dtype in REAL for t in (*operands, *tensors)]
    # ATen's formulas for gradients, among others, rely on the strides that they ask for
    if reason not in ("library", "scatter") or encoded_attributes["callee"].value in STRICT or any(complex_ones):
        encoded_attributes["needs"] = ir.ArrayAttr.get([sizes_attribute(memory_strides(t)) for t in operands])
    if any(map(is_open, tensors)):
        encoded_attributes["sizes"] = ir.ArrayAttr.get([sizes_attribute(memory_sizes(t)) for t in tensors])
    if any(complex_ones):
        encoded_attributes["callee"] = ir.StringAttr.get(ON_COMPLEX + encoded_attributes["callee"].value)
        encoded_attributes["complex"] = ir.DenseBoolArrayAttr.get(complex_ones)
    if any(CODES[t.dtype] in NAMED for t in tensors):
        encoded_attributes["dtypes"] = ir.ArrayAttr.get([ir.StringAttr.get(CODES[REAL.get(t.dtype, t.dtype)]) for t in tensors])
    dtypes = [t.dtype for t in operands]
    if not _BYTES.isdisjoint(dtypes):
        encoded_attributes["takes"] = ir.ArrayAttr.get([ir.StringAttr.get(CODES[REAL.get(dtype, dtype)]) for dtype in dtypes])
    if tensors and tensors[0].dtype == torch.float32 and _may_round(encoded_attributes["callee"].value):
        encoded_attributes[TF32] = ir.UnitAttr.get()
    if support.has_effect(node):
        encoded_attributes["effect"] = ir.UnitAttr.get()
    return encoded_attributes


def _may_round(called: str) -> bool:
    """Returns whether torch allows an op to round its f32 factors to tf32."""
    if called in PRODUCTS:
        return rounds_to_tf32()
    return called in (CONVOLUTION, CONVOLUTION_BACKWARD) and convolutions_round_to_tf32()


def callee(node: fx.Node) -> str:
    """Returns the overload to call. A view becomes its copying variant: by then the memory that it would share may be reused."""
    return str(support.copying(node.target) or node.target)


def attribute(value: Any) -> ir.Attribute:
    """Encodes one argument of a call as an attribute. Raises TypeError for types that no program can hold."""
    if isinstance(value, _TensorMark):
        return ir.UnitAttr.get()
    if isinstance(value, torch.SymInt):
        return encoded(exact(value))
    if isinstance(value, list | tuple):
        return ir.ArrayAttr.get([attribute(a) for a in value])
    return encoded(str(value) if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format) else value)
