"""Computes with narrow integers, and compares half types, in a form that torch-mlir converts as eager does.

Operands of two dtypes are converted to one: torch-mlir's own conversion of 8- and 16-bit integers ends the process. Bytes without a
sign are computed in wider dtypes, since torch-mlir extends and compares them as signed ones:

    add(x, 7) : u8   ->   view(convert(add(convert(x, i32), 7), i8), u8)
    amax(x) : u8     ->   view(amax(view(x, i8) ^ -128) ^ -128, u8)

What only moves bytes takes them as they are, and so do conversions from them. Those to bytes give the signed ones of the same bits:
torch-mlir folds constants of no others.

What a half type is compared with is rounded to it: torch-mlir compares in the wider type.

    lt(x: bf16, 0.1)   ->   lt(x, 0.10009765625)
"""

from typing import Any

import torch
from torch import fx

from ..decompositions.half import HALF, promoted_dtype, rounded_number
from ..fx import support
from ..fx.dtypes import wrapped
from ..fx.rewriter import insert, insert_number, replace

aten = torch.ops.aten

_CONVERT = torch.ops.prims.convert_element_type.default
_CONCERNED = {torch.bool, torch.uint8, torch.int8, torch.int16, *HALF}
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_PAIRS = _COMPARISONS | {
    *support.ARITHMETIC, "maximum", "minimum", "logical_and", "logical_or", "logical_xor",
    "bitwise_left_shift", "bitwise_right_shift",
}  # fmt: skip
"""Ops that promote two operands to one dtype."""
_MOVES = support.MOVES | {
    f"aten.{name}" for name in ("index.Tensor", "index_select.default", "gather.default", "flip.default", "repeat.default",
    "diagonal.default", "view.dtype")
}  # fmt: skip
_JOINS = (aten.cat.default, aten.where.self, aten.where.ScalarOther)
"""Moves that convert their operands to one dtype."""


def widen_narrow(graph: fx.Graph) -> None:
    """Rewrites the calls that lower: no two operands have different narrow dtypes, none but moves and conversions have tensors of
    uint8, and comparisons of half types have operands of one dtype."""
    for node in list(graph.nodes):
        name, dtypes = str(node.target), support.dtypes(node)
        if name not in support.LOWERED or dtypes.isdisjoint(_CONCERNED) or support.reason(node) is not None:
            continue
        if name.split(".")[1] in _PAIRS:
            _promote(node, name.split(".")[1])
        if torch.uint8 not in dtypes:
            continue
        if name in support.CASTS:
            _convert(node)
        elif node.target is aten.constant_pad_nd.default:
            _pad(node)
        elif node.target in _JOINS:
            _join(node)
        elif node.target in (aten.amax.default, aten.amin.default):
            _find_extreme(node)
        elif name not in _MOVES:
            _widen(node, name.split(".")[1])


def _promote(node: fx.Node, name: str) -> None:
    """Converts the operands to the dtype in which eager computes, if that is one of integers, or a half type in which it compares;
    a number wraps around in it."""
    dtype = _computed_in(node, name)
    if dtype is torch.bool or (dtype.is_floating_point and not (dtype in HALF and name in _COMPARISONS)):
        return
    for i, arg in enumerate(node.args[:2]):
        if isinstance(arg, fx.Node):
            node.update_arg(i, _converted(node, arg, dtype))
        elif type(arg) is int and not dtype.is_floating_point:
            node.update_arg(i, wrapped(arg, dtype))
        elif dtype in HALF and isinstance(arg, int | float):
            node.update_arg(i, rounded_number(arg, dtype))


def _convert(node: fx.Node) -> None:
    """Converts to bytes by integers that hold the source's, whose last bits are the result in eager."""
    if node.meta["val"].dtype is not torch.uint8 or node.args[0].meta["val"].dtype is torch.uint8:  # type: ignore[union-attr]
        return
    found = _converted(node, node.args[0], torch.uint8)
    found.meta["val"] = node.meta["val"]  # which may have another layout than its source
    replace(node, found)


def _pad(node: fx.Node) -> None:
    """Pads with the signed number of the same bits: torch-mlir converts the value to one."""
    x, sizes, *value = node.args
    if value:
        node.args = (x, sizes, (int(value[0]) + 0x80 & 0xFF) - 0x80)  # type: ignore[call-overload]


def _join(node: fx.Node) -> None:
    dtype = node.meta["val"].dtype
    if node.target is aten.cat.default:
        node.update_arg(0, [_converted(node, arg, dtype) for arg in node.args[0]])  # type: ignore[union-attr]
    else:
        node.args = (node.args[0], *(_converted(node, a, dtype) if isinstance(a, fx.Node) else a for a in node.args[1:]))


def _find_extreme(node: fx.Node) -> None:
    """Finds a greatest or least byte as a signed one: with the first bit flipped, these have the order of those without a sign."""
    result, source = node.meta["val"], node.args[0]
    assert isinstance(source, fx.Node)
    flip = insert_number(node, -0x80, result.new_empty((), dtype=torch.int8))

    def flipped(x: fx.Node) -> fx.Node:
        """Flips the bits of uint8, so that signed integers compare as unsigned ones."""
        return insert(node, _typed(x.meta["val"], torch.int8), aten.bitwise_xor.Tensor, x, flip)

    signed = insert(node, _typed(source.meta["val"], torch.int8), aten.view.dtype, source, torch.int8)
    signed_result = insert(node, _typed(result, torch.int8), node.target, flipped(signed), *node.args[1:], **node.kwargs)
    replace(node, insert(node, result, aten.view.dtype, flipped(signed_result), torch.uint8))


def _widen(node: fx.Node, name: str) -> None:
    result, dtype = node.meta["val"], _computed_in(node, name)
    wide, narrows = torch.int32 if dtype is torch.uint8 else dtype, result.dtype is torch.uint8

    def widened(arg: Any) -> Any:
        """Converts an operand of uint8 to the wide type."""
        return _converted(node, arg, wide) if isinstance(arg, fx.Node) and arg.meta["val"].dtype is torch.uint8 else arg

    args, kwargs = tuple(map(widened, node.args)), {key: wide if v is torch.uint8 else v for key, v in node.kwargs.items()}
    wide_result = insert(node, _typed(result, wide) if narrows else result, node.target, *args, **kwargs)
    replace(node, _converted(node, wide_result, torch.uint8) if narrows else wide_result)


def _computed_in(node: fx.Node, name: str) -> torch.dtype:
    """Returns the dtype in which eager computes a call."""
    made: torch.dtype = node.meta["val"].dtype
    if name in _PAIRS and not made.is_floating_point:
        return promoted_dtype(*(a.meta["val"] if isinstance(a, fx.Node) else a for a in node.args[:2]))
    return torch.uint8 if made is torch.bool else made


def _converted(before: fx.Node, source: Any, dtype: torch.dtype) -> fx.Node:
    value = source.meta["val"]
    if value.dtype is dtype:
        return source  # type: ignore[no-any-return]
    if dtype is not torch.uint8:
        return insert(before, _typed(value, dtype), _CONVERT, source, dtype)
    if value.dtype.is_floating_point:
        source = _converted(before, source, torch.int64 if value.dtype is torch.float64 else torch.int32)
    return insert(before, _typed(value, dtype), aten.view.dtype, _converted(before, source, torch.int8), dtype)


def _typed(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns a fake tensor in another dtype. A conversion would ask whether it is dense, which symbolic sizes may not answer."""
    return value.new_empty_strided(value.shape, value.stride(), dtype=dtype)
