"""Reads the calls of attention kernels: tensors and sizes, and the arguments and constants that several kernels have."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lamina.core.dropout import NUMBERS, keep_bound, keep_scale
from lamina.core.program import ITEM_BYTES, Call, Ref
from lamina.core.program_needs import require_number
from lamina.core.sizes import SizeLike, typical

from ..launches import strides, tensor_core_size, tensors
from .forward import EXTRAS

_SIDE_BY_SIDE = 16 << 20  # bytes of keys and values of the heads that run at the same time: these stay in the L2


@dataclass(frozen=True)
class Operands:
    """The operands and arguments of a call of a kernel over queries, keys and values.

    query, key, value  the first tensors
    extras             those of `EXTRAS` that it has, by the kernels' parameter names
    others             tensors after these
    kwargs             its other arguments
    """

    query: Ref
    key: Ref
    value: Ref
    extras: Mapping[str, Ref]
    others: tuple[Ref, ...]
    kwargs: Mapping[str, Any]

    @staticmethod
    def of(call: Call) -> "Operands":
        """Reads a call."""
        (query, key, value, *more), given = tensors(call), dict(call.kwargs)
        names = str(given["reads"]).split()
        extras = dict(zip(names, more[: len(names)], strict=True))
        return Operands(query, key, value, extras, tuple(more[len(names) :]), given)

    @cached_property
    def scores(self) -> tuple[SizeLike, SizeLike, SizeLike, SizeLike]:
        """Batch, heads, queries and keys."""
        batch, heads, queries, _ = self.query.shape
        return batch, heads, queries, self.key.shape[2]

    @property
    def kv_heads(self) -> SizeLike:
        """Heads of keys and values."""
        return self.value.shape[1]

    @property
    def elements(self) -> tuple[int, int]:
        """Elements of a head of queries and keys, and of values."""
        return require_number(self.query.shape[3], "attention"), require_number(self.value.shape[3], "attention")

    @property
    def constants(self) -> dict[str, Any]:
        """The constants that all kernels have."""
        batch, heads, queries, keys = self.scores
        size, values = self.elements
        mask, bounds, blocks = (self.extras.get(name) for name in ("mask", "bounds", "blocks"))
        how = "none" if mask is None else "bool" if mask.dtype == "bool" else "bias"
        return {
            "Q": strides(self.query), "K": strides(self.key), "V": strides(self.value),
            "MASK": (0, 0, 0, 0) if mask is None else strides(mask), "HEADS": heads, "GROUP": heads // self.kv_heads,
            "QUERIES": queries, "KEYS": keys, "SIZE": size, "VALUES": values, "SCALE": self.kwargs["scale"], "HOW": how,
            "BOUNDS": () if bounds is None else strides(bounds), "ALIBI": "slopes" in self.extras,
            "BATCH": batch, "D": tensor_core_size(size), "E": tensor_core_size(values), "CAUSAL": bool(self.kwargs.get("causal")),
            "BLOCKS": () if blocks is None else strides(blocks)[:3], "DROPS": self._drops,
            "CAP": float(self.kwargs.get("cap", 0.0)),
        }  # fmt: skip

    @property
    def _drops(self) -> tuple[int, float, float] | tuple[()]:
        """Dropout's bound on 16-bit numbers below which a weight is kept, the factor of kept weights, and their share; () without
        dropout."""
        dropout = float(self.kwargs.get("dropout", 0.0))
        below = keep_bound(dropout)
        return (below, keep_scale(dropout), below / NUMBERS) if below < NUMBERS else ()

    def names(self, *rest: str) -> dict[str, str]:
        """Maps parameters to the launch's arguments. rest: parameters for the tensors after the extras. An extra that the call does
        not have gets the queries as a placeholder."""
        has, after = list(self.extras), 3 + len(self.extras)
        extras = {name: f"x{3 + has.index(name)}" if name in has else "x0" for name in EXTRAS}
        return {"q": "x0", "k": "x1", "v": "x2", **extras, **{name: f"x{after + i}" for i, name in enumerate(rest)}}

    def together(self, by_keys: bool = False) -> int:
        """Returns how many heads run at the same time, so that what their programs share stays in the L2: keys and values, or, in
        programs for blocks of keys, queries and gradients."""
        batch, heads, queries, keys = map(typical, self.scores)
        kv_heads = typical(self.kv_heads)
        own, shared, length = (kv_heads, heads, queries) if by_keys else (heads, kv_heads, keys)
        head = length * sum(self.elements) * ITEM_BYTES[self.key.dtype] * shared // own
        return max(1, min(batch * own, _SIDE_BY_SIDE // max(head, 1)))
