"""Reads nodes of captured graphs alike in Dynamo's dialect (torch's functions, operators and methods of tensors) and in
torch.export's (ATen before decomposition)."""

import inspect
import math
import operator
from collections.abc import Iterable
from math import prod
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional as F

from lamina.core.errors import CompileError
from lamina.core.sizes import Size

from .aliases import storage
from .sizes import exact

_SYNONYMS = {
    "truediv": "div", "itruediv": "div", "divide": "div", "true_divide": "div", "imul": "mul", "multiply": "mul", "iadd": "add",
    "numpy_T": "T", "swapaxes": "transpose", "swapdims": "transpose", "linalg_matmul": "matmul", "special_softmax": "softmax",
}  # fmt: skip
_SAME = ("to", "float", "half", "bfloat16", "double", "type", "type_as", "contiguous", "clone", "alias", "_to_copy")
_RESHAPES = ("view", "reshape", "_unsafe_view", "view_as", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze")
_IN_PLACE_OPERATORS = (operator.setitem, operator.delitem)
_RANDOM = ("rand", "bernoulli", "multinomial", "normal", "poisson", "empty", "new_empty", "dropout")
_CHECKS = ("_assert_tensor_metadata",)


def value(node: object) -> Tensor | None:
    """Returns the (fake) tensor of a node; None if it is not a tensor."""
    found = node.meta.get("example_value", node.meta.get("val")) if isinstance(node, fx.Node) else None
    return found if isinstance(found, Tensor) else None


def dtype(node: object) -> torch.dtype | None:
    """Returns the type of a node's elements; None if it is not a tensor."""
    found = value(node)
    return None if found is None else found.dtype


def shape(node: object) -> tuple[Any, ...]:
    """Returns the shape of a node's tensor, of numbers and expressions, so that comparing shapes adds no guards; () if it is no
    tensor."""
    found = value(node)
    return () if found is None else sizes(found.shape)


def sizes(numbers: Iterable[Any]) -> tuple[Any, ...]:
    """Returns sizes or strides of a fake tensor as numbers and expressions. One that is not an expression of the sizes of a call
    stays as it is."""
    return tuple(map(_size, numbers))


def has_exact_sizes(tensor: Tensor) -> bool:
    """Returns whether the sizes and strides of a fake tensor are numbers and expressions of the sizes of a call."""
    return all(isinstance(n, int | Size) for n in (*sizes(tensor.shape), *sizes(tensor.stride())))


def _size(number: Any) -> Any:
    try:
        return exact(number)
    except CompileError:
        return number


def name(node: object) -> str:
    """Returns the name of the op that a node calls, in ATen's terms and without the mark of an in-place op; "" if it is not
    torch's."""
    if not isinstance(node, fx.Node) or node.op not in ("call_function", "call_method"):
        return ""
    target = node.target
    if node.op == "call_method":
        op_name = str(target)
    elif isinstance(target, torch._ops.OpOverload):
        op_name = target._opname if target.namespace == "aten" else ""
    elif target is getattr:
        op_name = str(node.args[1])
    else:
        op_name = getattr(target, "__name__", "") if _is_torchs(target) else ""
    op_name = op_name if op_name.endswith("__") else op_name.removesuffix("_")
    return _SYNONYMS.get(op_name, op_name)


def _is_torchs(target: object) -> bool:
    module = getattr(target, "__module__", None) or ""
    return module.partition(".")[0] in ("torch", "_operator") and not isinstance(target, torch._ops.HigherOrderOperator)


def arguments_by_name(node: fx.Node, *names: str) -> dict[str, Any]:
    """Returns the arguments of a call by these names; ATen's names are mapped to those of torch's functions."""
    renamed = {"self": "input", "tensor2": "other", "mat2": "other", "train": "training"}
    kwargs = {renamed.get(key, key): arg for key, arg in node.kwargs.items()}
    return dict(zip(names, node.args, strict=False)) | kwargs


def users(node: fx.Node) -> list[fx.Node]:
    """Returns the users of a node, except checks, which compute nothing."""
    return [user for user in node.users if not is_check(user)]


def is_check(node: fx.Node) -> bool:
    """Returns whether a call only checks what is known of a tensor."""
    return name(node) in _CHECKS


def number(arg: object) -> float | None:
    """Returns a finite number that is written into the graph; None for others."""
    plain = isinstance(arg, int | float) and not isinstance(arg, bool)
    return float(arg) if plain and math.isfinite(arg) else None  # type: ignore[arg-type]


def same_elements(node: object) -> fx.Node | None:
    """Returns the source that a node has the elements of, in the same order; shape, layout and float type may differ."""
    if not isinstance(node, fx.Node) or name(node) not in (*_SAME, *_RESHAPES) or is_in_place(node) or not node.args:
        return None
    source, result, other = node.args[0], value(node), value(node.args[0])
    if not isinstance(source, fx.Node) or result is None or other is None or result.device != other.device:
        return None
    cast = result.dtype is not other.dtype
    if cast and (name(node) in _RESHAPES or not (result.dtype.is_floating_point and other.dtype.is_floating_point)):
        return None
    if not has_exact_sizes(result) or not has_exact_sizes(other):
        return None
    return source if prod(sizes(result.shape)) == prod(sizes(other.shape)) else None


def without_dropout(node: fx.Node) -> fx.Node | None:
    """Returns the operand of a dropout that drops nothing; None for other nodes."""
    if name(node) != "dropout":
        return None
    args = arguments_by_name(node, "input", "p", "training")
    idle = args.get("training", True) is False or args.get("p", 0.5) == 0
    source = args.get("input")
    return source if idle and isinstance(source, fx.Node) else None


def drop(node: fx.Node) -> tuple[fx.Node, float] | None:
    """Returns the operand of a dropout and the probability of an element to be dropped, above 0; None for other nodes."""
    args = arguments_by_name(node, "input", "p", "training") if name(node) == "dropout" and not is_in_place(node) else {}
    source, probability = args.get("input"), number(args.get("p", 0.5))
    return (source, probability) if isinstance(source, fx.Node) and probability and args.get("training", True) is True else None


def scaled(node: fx.Node) -> tuple[fx.Node, float] | None:
    """Returns a tensor and the number that a node multiplies it by; None for other nodes."""
    kind, args = name(node), arguments_by_name(node, "input", "other")
    if kind not in ("mul", "div") or set(args) != {"input", "other"}:
        return None
    source, by = args["input"], number(args["other"])
    if by is None and kind == "mul":
        source, by = args["other"], number(args["input"])
    result, other = value(node), value(source)
    if (
        by is None
        or not isinstance(source, fx.Node)
        or result is None
        or other is None
        or result.dtype is not other.dtype
        or by == 0
    ):
        return None
    return source, by if kind == "mul" else 1 / by


def transposed(node: fx.Node) -> fx.Node | None:
    """Returns the tensor whose last two dimensions a node swaps; None for other nodes."""
    source = node.args[0] if node.args else None
    rank = len(shape(source))
    if not isinstance(source, fx.Node) or rank < 2:
        return None
    kind, dims = name(node), node.args[1:]
    if kind == "mT" or (kind in ("T", "t") and rank == 2):
        return source
    if kind == "permute":
        order = dims[0] if dims and isinstance(dims[0], list | tuple) else dims
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        plain = len(order) == rank and all(isinstance(d, int) for d in order)
        return source if plain and [d % rank for d in order] == swapped else None
    if kind != "transpose" or node.kwargs or not all(isinstance(d, int) for d in dims):
        return None
    return source if {d % rank for d in dims} == {rank - 1, rank - 2} else None


def is_softmax(node: object) -> bool:
    """Returns whether a node is a softmax along the last dimension."""
    if not isinstance(node, fx.Node) or name(node) != "softmax":
        return False
    dim, rank = arguments_by_name(node, "input", "dim").get("dim"), len(shape(node))
    return isinstance(dim, int) and dim in (-1, rank - 1)


def is_in_place(node: fx.Node) -> bool:
    """Returns whether a call writes to an argument."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.is_mutable
    if node.op == "call_method":
        called = str(target)
        return called in ("__setitem__", "set_") or (called.endswith("_") and not called.endswith("__"))
    if node.op != "call_function" or target is getattr:
        return node.op == "call_module"
    called = getattr(target, "__name__", "")
    if target is torch.ops.higher_order.flex_attention:  # refuses functions that write
        return False
    if target in _IN_PLACE_OPERATORS or "out" in node.kwargs or not _is_torchs(target):
        return True
    if getattr(target, "__module__", "") == "_operator":
        return called.startswith("i") and hasattr(operator, f"__{called}__") and called not in ("inv", "invert", "index")
    return called.endswith("_") or (hasattr(F, called) and _says_in_place(target, node))


def _says_in_place(target: Any, node: fx.Node) -> bool:
    try:
        bound = inspect.signature(target).bind(*node.args, **node.kwargs)
    except (TypeError, ValueError):
        return bool(node.kwargs.get("inplace"))
    return bool(bound.arguments.get("inplace"))


def writes_to(node: fx.Node) -> set[int] | None:
    """Returns the storages that a call may write to; None if that is not known."""
    if not is_in_place(node):
        return set()
    first = bool(name(node)) and "out" not in node.kwargs and bool(node.args) and isinstance(node.args[0], fx.Node)
    written = [value(arg) for arg in (node.args[:1] if first else node.all_input_nodes)]
    return None if any(v is None for v in written) else {storage(v) for v in written if v is not None}


def is_repeatable(node: fx.Node) -> bool:
    """Returns whether a call gives the same result each time."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags:
        return False
    return not name(node).startswith(_RANDOM)
