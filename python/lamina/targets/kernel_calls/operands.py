"""Reads the operands of source kernels' calls: sizes, strides and constants, and describes launches."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lamina.core.dropout import NUMBERS, bound, factor
from lamina.core.program import Call, Ref
from lamina.core.program_needs import fixed
from lamina.passes.families.attention.forward import EXTRAS

_LEAST = 16  # least rows and columns of a tensor core operand
SIDE_BY_SIDE = 16 << 20  # bytes of keys and values of the heads that run at the same time: these stay in the L2


def extras(more: Sequence[Ref], given: Mapping[str, Any]) -> dict[str, Ref]:
    """Returns the operands besides queries, keys and values, by the kernels' parameter names."""
    return dict(zip(str(given["reads"]).split(), more, strict=True))


def listed(extras: Mapping[str, Ref]) -> tuple[int, ...]:
    """Returns the strides of the block lists without that of their elements; () where there are no lists."""
    return strides(extras["blocks"])[:3] if "blocks" in extras else ()


def drops(given: Mapping[str, Any]) -> tuple[int, float, float] | tuple[()]:
    """Returns dropout's bound on 16-bit numbers below which a weight is kept, the factor of kept weights, and their share; ()
    without dropout."""
    dropout = float(given.get("dropout", 0.0))
    below = bound(dropout)
    return (below, factor(dropout), below / NUMBERS) if below < NUMBERS else ()


def places(given: Mapping[str, Any]) -> dict[str, str]:
    """Maps the extra operands to the launch's arguments. One that the call does not have gets the queries as a placeholder."""
    said = str(given["reads"]).split()
    return {name: f"x{3 + said.index(name)}" if name in said else "x0" for name in EXTRAS}


def shared(query: Ref, key: Ref, value: Ref, extras: Mapping[str, Ref], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the constants that all kernels over queries, keys and values have."""
    _, heads, queries, size = sizes(query)
    _, kv_heads, keys, values = sizes(value)
    mask, bounds = extras.get("mask"), extras.get("bounds")
    how = "none" if mask is None else "bool" if mask.dtype == "bool" else "bias"
    return {
        "Q": strides(query), "K": strides(key), "V": strides(value), "MASK": (0, 0, 0, 0) if mask is None else strides(mask),
        "HEADS": heads, "GROUP": heads // kv_heads, "QUERIES": queries, "KEYS": keys, "SIZE": size, "VALUES": values,
        "SCALE": given["scale"], "HOW": how, "BOUNDS": () if bounds is None else strides(bounds), "ALIBI": "slopes" in extras,
    }  # fmt: skip


def said(
    given: Mapping[str, Any],
    names: Mapping[str, str],
    constants: Mapping[str, Any],
    blocks: int,
    warps: int,
    stages: int,
    flops: int,
) -> dict[str, Any]:
    """Describes a launch by the keys that frontend/fx/kernel_op.py uses."""
    call = ", ".join((*(f"{name}={x}" for name, x in names.items()), *(f"{name}={x!r}" for name, x in constants.items())))
    return {"of": given["of"], "call": call, "grid": (blocks, 1, 1), "warps": warps, "stages": stages, "flops": flops}


def tensors(call: Call) -> tuple[Ref, ...]:
    """Returns a call's input tensors."""
    return tuple(ref for ref in call.args if isinstance(ref, Ref))


def sizes(ref: Ref) -> tuple[int, ...]:
    """Returns a tensor's sizes as numbers. Raises CompileError for a symbolic one."""
    return tuple(fixed(n, "attention") for n in ref.shape)


def strides(ref: Ref) -> tuple[int, ...]:
    """Returns strides in elements, 0 for dimensions of length 1: a mask is then read for all heads, and the stride of a single
    element may be anything."""
    return tuple(0 if n == 1 else fixed(s, "attention") for n, s in zip(sizes(ref), ref.strides, strict=True))


def power(n: int) -> int:
    """Returns the least power of two that is no less than n and 16, the least that tensor cores take."""
    return max(_LEAST, 1 << math.ceil(math.log2(n)))
