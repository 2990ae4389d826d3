"""Emits the operands that replace attention masks: key bounds, ALiBi slopes, run-time key masks, and lists of visible blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.walks import reachable

from ....ir.extern_calls import kernel_call
from ....ir.generics import spread
from ....ir.reading import producer, shape_of
from ....ir.rewriting import ZERO, copy_ops, read_by
from ....ir.sizes import tensor_type
from ...surroundings import ValueMap, group_before
from .dropped import without_broadcast
from .meaning import BATCH, HEAD, KEY, QUERY, Keys, MaskMeaning
from .parts import Values, across_group
from .terms import meaning

BOUNDS, BLOCKS = "lamina.attention_bounds", "lamina.attention_blocks"


class SharedOperandsKey(NamedTuple):
    """The key under which calls share operands. The mask itself would not do: calls that share a broadcast mask may differ in the
    number of heads and keys, and some may be causal while others are not.

    sizes  batch, heads and keys
    """

    keys: Keys | None
    span: tuple[int, int] | None
    slopes: tuple[float, ...] | None
    sizes: tuple[int, int, int]


@dataclass
class Masks:
    """The masks of a module: their meanings, analyzed before anything changes, and the operands made for earlier calls.

    values    cache of evaluated values
    meanings  by mask, shape of the scores and causal flag
    narrow    for each mask that kernels still read: the mask before it is broadcast over heads and queries
    emitted   operands of earlier calls, by name
    listed    lists of visible blocks
    """

    values: Values = field(default_factory=Values)
    meanings: dict[tuple[ir.Value, tuple[int, ...], bool], MaskMeaning] = field(default_factory=dict)
    narrow: dict[ir.Value, ir.Value] = field(default_factory=dict)
    emitted: dict[SharedOperandsKey, dict[str, ir.Value]] = field(default_factory=dict)
    listed: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)

    def meaning(self, mask: ir.Value | None, scores: Sequence[int], causal: bool) -> MaskMeaning:
        """Returns the meaning of a mask, analyzed once. scores: batch, heads, queries, keys."""
        if mask is None:
            return MaskMeaning(causal)
        key = (mask, tuple(scores), causal)
        if key not in self.meanings:
            with mask.context:
                self.meanings[key] = meaning(mask, scores, causal, self.values)
        return self.meanings[key]

    def operands(self, mask: ir.Value, scores: Sequence[int], meaning: MaskMeaning) -> dict[str, ir.Value]:
        """Returns the operands that kernels read, by name. Emits them at the insertion point unless an earlier call has them."""
        if meaning.needs_mask:
            if mask not in self.narrow:
                self.narrow[mask] = without_broadcast(mask)
            return {"mask": self.narrow[mask]}
        key = SharedOperandsKey(meaning.keys, meaning.span, meaning.slopes, (scores[BATCH], scores[HEAD], scores[KEY]))
        if key not in self.emitted:
            self.emitted[key] = _operands_of(meaning, scores, len(self.emitted) + 1)
        return self.emitted[key]

    def blocks(
        self, mask: ir.Value, scores: Sequence[int], meaning: MaskMeaning, m: int, n: int, by_keys: bool = False
    ) -> ir.Value:
        """Returns the lists of visible blocks of a mask that kernels still read (kernels/attention/blocks.py): i32 of shape
        (batch or 1, heads or 1, blocks of m queries, blocks of n keys + 2). by_keys: (..., blocks of n keys, blocks of m queries
        + 2). Call `operands` for the mask first."""
        read, arguments = self.narrow[mask], {"m": m, "n": n, "queries": scores[QUERY], "keys": scores[KEY]}
        arguments |= {"offset": meaning.offset, "window": meaning.window}
        key = (read, meaning.causal, by_keys, *arguments.values())
        if key not in self.listed:
            counts = -(-scores[QUERY] // m), -(-scores[KEY] // n)
            shape = [*shape_of(read)[:QUERY], counts[by_keys], counts[not by_keys] + 2]
            type_ = tensor_type(shape, ir.IntegerType.get_signless(32))
            call = kernel_call(
                BLOCKS, [read], [type_], {"of": "attention's mask", **arguments, "causal": meaning.causal, "by_keys": by_keys}
            )
            self.listed[key] = call.results[0]
        return self.listed[key]


def _operands_of(meaning: MaskMeaning, scores: Sequence[int], number: int) -> dict[str, ir.Value]:
    """Emits the operands that replace a mask. number: of the mask, to name a new group."""
    operands: dict[str, ir.Value] = {}
    if meaning.keys is not None:
        visible = _visible_keys(meaning.keys, scores, number)
        operands = {} if meaning.keys.exact else {"mask": visible}
        operands["bounds"] = _bounds(visible, meaning.span or (0, scores[KEY]))
    elif meaning.span is not None:
        operands["bounds"] = _constant(np.array(meaning.span, np.int32).reshape(1, 1, 2))
    if meaning.slopes is not None:
        operands["slopes"] = _constant(np.array(meaning.slopes, np.float32))
    return operands


def _constant(value: np.ndarray) -> ir.Value:
    return arith.constant(
        ir.RankedTensorType.get(value.shape, ir.F32Type.get() if value.dtype == np.float32 else ir.IntegerType.get_signless(32)),
        ir.DenseElementsAttr.get(value),
    )


def _bounds(visible: ir.Value, span: tuple[int, int]) -> ir.Value:
    """Emits bounds, i32 of shape (batch or 1, heads or 1, 2): the first visible key within `span`, and one past the last."""
    shape = shape_of(visible)
    type_ = tensor_type([shape[BATCH], shape[HEAD], 2], ir.IntegerType.get_signless(32))
    return kernel_call(BOUNDS, [visible], [type_], {"of": "attention's mask", "low": span[0], "high": span[1]}).results[0]


def _visible_keys(keys: Keys, scores: Sequence[int], number: int) -> ir.Value:
    """Returns which keys are visible, i1 of shape (batch or 1, heads or 1, 1, keys): the mask's value if it is already that,
    else the result of a new group."""
    value = keys.part.value
    sizes = [scores[d] if d in keys.part.index else 1 for d in range(4)]
    sizes[QUERY], sizes[KEY] = 1, scores[KEY]
    value = _argument(value)
    needed = _backward_slice(value)
    if (
        not needed
        and keys.wanted
        and list(shape_of(value)) == sizes
        and all(at in (ZERO, d) for d, at in enumerate(keys.part.index))
    ):
        return value
    inside = {r for op in needed for r in op.results}
    read = dict.fromkeys(v for op in needed for v in read_by(op) if v not in inside)
    arguments = [v for v in read if isinstance(v, ir.BlockArgument) and v.owner == needed[0].block]
    outer = {v: _argument(v) for v in arguments} if needed else {value: value}

    def fill(values: ValueMap) -> list[ir.Value]:
        """Computes the mask's operand in a group of its own."""
        copy_ops(needed, values)
        return [_spread(values[value], keys, sizes)]

    type_ = tensor_type(sizes, ir.IntegerType.get_signless(1))
    name = (_name(producer(value)) if needed else "") or f"keys_{number}"
    return group_before(ir.InsertionPoint.current.ref_operation, [], outer, [type_], fill, name).results[0]


def _spread(tensor: ir.Value, keys: Keys, sizes: Sequence[int]) -> ir.Value:
    """Broadcasts a key mask to four dimensions, and inverts it if needed: true where a key is visible."""
    i1 = ir.IntegerType.get_signless(1)
    type_ = tensor_type(sizes, i1)
    reads = [None if at == ZERO or sizes[at] == 1 else at for at in keys.part.index]  # it may repeat its values for all queries
    return spread(tensor, type_, reads, lambda x: x if keys.wanted else arith.xori(x, arith.constant(i1, 1)))


def _backward_slice(value: ir.Value) -> list[ir.Operation]:
    """Returns the ops of a group that compute a value (its backward slice), in order; [] for values of @main."""
    op = producer(value)
    if op is None or op.parent is None or op.parent.operation.name != "graph.group":
        return []
    depended_on = set(
        reachable([op], lambda user: [o for o in map(producer, read_by(user)) if o is not None and o.block == op.block])
    )
    return [o.operation for o in op.block.operations if o.operation in depended_on]


def _argument(value: ir.Value) -> ir.Value:
    """Returns the operand of a group that an argument of its block stands for; other values as they are."""
    return (across_group(value) or value) if isinstance(value, ir.BlockArgument) else value


def _name(op: ir.Operation | None) -> str:
    while op is not None and op.name != "graph.group":
        op = op.parent.operation if op.parent is not None else None
    return "" if op is None else f"{ir.StringAttr(op.attributes['sym_name']).value}_keys"
