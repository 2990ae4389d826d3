"""Decomposes ops that optimizers call: ops on lists of tensors (torch._foreach_*) into one op per tensor, and Dynamo's fma.

lamina-horizontal merges the resulting kernels where that pays.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._inductor import inductor_prims

aten = torch.ops.aten
Op = Callable[..., Tensor]


def for_each(op: Op) -> Callable[..., list[Tensor]]:
    """Applies `op` to the i-th items of all lists, for every i; arguments that are not lists go to each call."""

    def run(*args: Any, **kwargs: Any) -> list[Tensor]:
        """Applies the op to each item of the lists."""
        named = kwargs.items()
        count = next(len(a) for a in (*args, *kwargs.values()) if isinstance(a, list | tuple))
        return [op(*(_item(a, i) for a in args), **{k: _item(a, i) for k, a in named}) for i in range(count)]

    return run


def _item(value: Any, i: int) -> Any:
    return value[i] if isinstance(value, list | tuple) else value


def _with_value(op: Op) -> Op:
    """Adapts addcmul and addcdiv, which take their factor by name; the ops on lists take it by position."""
    return lambda x, a, b, value=1, scalars=None: op(x, a, b, value=value if scalars is None else scalars)


def _bound(op: Op, by_number: Op) -> Op:
    return lambda x, bound: (op if isinstance(bound, Tensor) else by_number)(x, bound)


def _norm(x: Tensor, ord: Any = 2, dtype: torch.dtype | None = None) -> Tensor:
    return torch.linalg.vector_norm(x, ord, dtype=dtype)


_SAME = (
    "abs acos add asin atan ceil clamp_max clamp_min clone cos cosh div erf erfc exp expm1 floor frac lerp log log10 log1p log2 "
    "mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc"
).split()
_OWN: dict[str, Op] = {
    "addcdiv": _with_value(torch.addcdiv),
    "addcmul": _with_value(torch.addcmul),
    "copy": lambda x, source, non_blocking=False: aten.copy.default(x, source),
    "maximum": _bound(torch.maximum, torch.clamp_min),
    "minimum": _bound(torch.minimum, torch.clamp_max),
    "norm": _norm,
    "zero": torch.zeros_like,
}
_ON_HOST = ("addcdiv.Tensor", "addcmul.Tensor")  # they read their factors as numbers on the host, which a program cannot


def _decompositions() -> dict[Any, Callable[..., Any]]:
    found = {}
    for name, op in {**{name: getattr(torch, name) for name in _SAME}, **_OWN}.items():
        if not hasattr(aten, f"_foreach_{name}"):
            continue  # this torch is older than the op (clone: torch 2.12)
        packet = getattr(aten, f"_foreach_{name}")
        for overload in packet.overloads():
            if "out" not in overload and f"{name}.{overload}" not in _ON_HOST:
                found[getattr(packet, overload)] = for_each(op)
    return found


def _fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Decomposes Dynamo's op for addcmul with a tensor as factor; the back ends contract products into sums themselves."""
    return a * b + c


FOREACH = _decompositions()
if hasattr(inductor_prims, "fma"):
    FOREACH[inductor_prims.fma] = _fma
