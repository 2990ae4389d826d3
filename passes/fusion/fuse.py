"""lamina-fuse: fuses linalg and tensor ops into `graph.group`s, one kernel each.

`find_groups` decides which values are materialized and which of them share a kernel (passes/trace). This file rewrites the
function: it emits the groups as ops, in an order in which every value is computed before it is read.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from torch_mlir import ir

from lamina.core.walks import operands_first

from ..infra.base import Pass
from ..ir.affine import row_major
from ..ir.extern_calls import group as graph_group
from ..ir.extern_calls import memory_strides
from ..ir.generics import empty
from ..ir.locations import fused
from ..ir.reading import SCATTER, Generic, Untraceable, nested, producer, shape_of
from ..ir.rewriting import copy_ops, function_bodies
from ..space.space import find_space
from ..trace.gathered import copy_gathered
from ..trace.grouping import Group
from .consistent import CONSISTENT, ops_before_comparisons
from .group_names import GroupNames
from .group_order import in_order
from .groups import Limits, find_groups
from .pooled_images import store_pooled
from .split_bias import split_bias

_NOTHING = ("arith.constant", "tensor.empty", "linalg.fill")  # ops that compute nothing, so they are left out of a group's location


@dataclass(frozen=True)
class Fuse(Pass):
    """Fuse linalg and tensor ops into groups by the bytes they move.

    Before: @main computes on tensors. After: @main holds graph.group, graph.kernel, graph.extern, constants, and views that feed
    these or the return. Vertical fusion (chains, producers into reductions, epilogues over the same rows), horizontal fusion (ops
    that read the same input) and multi-output fusion follow one rule: merge ops that run over the same rows and columns when that
    saves bytes. Values that are cheaper to compute again than to store are computed again. A group is named after the model's
    first five ops in it, where a decomposed op or a matched pattern counts as one: "add_layer_norm", "gelu_mul".

    On a GPU, an f32 product with a bias that only groups read becomes a product without one, and the groups compute the addition.
    Also on a GPU, an image that is gathered from, or concatenated, for a library call that takes channels last is first copied to
    channels last. On a CPU, an image that is pooled for such a call is stored in the order in which it is read, and another kernel
    transposes it.

        %0 = linalg.generic (exp) ; %1 = linalg.generic (sum of %0)   ->   "graph.group"(%x) ({ exp; sum })

    max_ops   the most stored values that one group computes
    max_cost  the most operations per element up to which groups are merged. Longer groups are bound by computation, so that storing
              a value in the middle costs nothing, and they take longer to compile than their parts
    balance   operations that the machine executes while it moves a byte (0: a CPU). It decides whether values that the windows of
              a pooling or convolution read several times are recomputed for each or stored; with 0, they are recomputed only where
              that is nearly free. The same goes for values that several kernels read
    """

    name: ClassVar[str] = "lamina-fuse"
    max_ops: int = 64
    max_cost: int = 1024
    balance: int = 0

    def run(self, module: ir.Module) -> None:
        """Fuses every function of the module that has a body."""
        for block in function_bodies(module):
            if self.balance:
                split_bias(block)
                copy_gathered(block, Generic.read_affine)
            _GroupEmitter(block, self, {} if self.balance else store_pooled(block, Generic.read_affine)).run()


class _GroupEmitter:
    """Replaces the ops of one block by groups.

    materialized    which values are materialized (the analysis of passes/trace)
    groups          the groups to emit
    old             the ops of the block, which are erased at the end
    needed_outside  values that calls and results read, or whose change the caller sees
    compared        ops whose results must be the same wherever they are computed (consistent.py)
    readers         for each value in memory, the values that are computed from it
    new             the emitted counterparts of old values
    names           gives the groups their names
    sound           texts of groups for which an iteration space was found
    """

    def __init__(self, block: ir.Block, options: Fuse, stored: dict[ir.Value, int]) -> None:
        self.block = block
        self.materialized, self.groups = find_groups(block, Limits(options.max_ops, options.max_cost, options.balance), stored)
        self.old = list(self.materialized.ops)
        self.needed_outside, self.compared = self.materialized.needed_outside(), ops_before_comparisons(self.materialized)
        self.readers: dict[ir.Value, list[ir.Value]] = {}
        for node in (n for g in self.groups for n in g.nodes):
            for v in node.reads:
                self.readers.setdefault(v, []).append(node.value)
        self.new: dict[ir.Value, ir.Value] = {a: a for a in block.arguments}
        self.names = GroupNames()
        self.sound: set[str] = set()

    def run(self) -> None:
        """Emits the groups and the ops that stay outside them, and erases the old ops."""
        end = self.old[-1]
        with ir.InsertionPoint(end):
            for unit in in_order(self.old, self.groups, self.materialized.bases):
                if isinstance(unit, Group):
                    self._emit(unit)
                else:
                    self._clone(unit)
            for i, v in enumerate(end.operands):
                end.operands[i] = self._value(v)
        for op in reversed(self.old[:-1]):
            op.erase()

    def _value(self, v: ir.Value) -> ir.Value:
        """Returns the new counterpart of `v`: views and constants are cloned on demand."""
        if v not in self.new:
            op = producer(v)
            assert op is not None
            self._clone(op)
        return self.new[v]

    def _clone(self, op: ir.Operation) -> None:
        """Clones an op that stays outside of groups, after what it reads."""
        for v in op.operands:
            self._value(v)
        copy_ops([op], self.new)

    def _emit(self, group: Group) -> None:
        """Emits a group as one op, or as one op per value if the group turns out to have no common iteration space."""
        op, outs, body = self._group(group)
        block = op.regions[0].blocks[0]
        strides = {a: memory_strides(v) for a, v in zip(block.arguments, op.operands, strict=True)}
        text = _text(op) + str(list(strides.values())) if len(group.nodes) > 1 else ""
        try:
            if text and text not in self.sound:  # layers repeat: each body is tried once
                find_space(block, strides, [row_major(shape_of(v)) for v in outs])
                self.sound.add(text)
            op.attributes["sym_name"] = ir.StringAttr.get(self.names.name(group, body))
        except Untraceable:
            op.erase()
            for node in group.nodes:
                self._emit(Group([node]))
            return
        self.new.update(zip(outs, op.results, strict=True))

    def _group(self, group: Group) -> tuple[ir.Operation, list[ir.Value], list[ir.Operation]]:
        """Creates the op of a group. Returns it, the old values that its results replace, and the old ops that its body copies."""
        inside = {n.value for n in group.nodes}
        body, ins, unread = self._slice(group, inside)
        outs = [n.value for n in group.nodes if self._escapes(n.value, inside)]
        location = fused(o.location for o in body if o.name not in _NOTHING)
        changed = [op for op in body if op.name == SCATTER]  # the tensor that one changes is its own operand, as it may be a copy

        def fill(*arguments: ir.Value) -> list[ir.Value]:
            """Copies the group's ops into its body."""
            local: dict[ir.Value, ir.Value] = dict(zip(ins, arguments, strict=False))
            for v in unread:
                local[v] = empty(v.type)
            copy_ops(body, local)
            for op, argument in zip(changed, arguments[len(ins) :], strict=True):
                local[op.results[0]].owner.operands[0] = argument
            return [local[v] for v in outs]

        operands = [self._value(v) for v in (*ins, *(op.operands[0] for op in changed))]
        with location:
            op = graph_group("", operands, [v.type for v in outs], fill)
        if self.compared.intersection(body):
            op.attributes[CONSISTENT] = ir.UnitAttr.get()
        return op, outs, body

    def _slice(self, group: Group, inside: set[ir.Value]) -> tuple[list[ir.Operation], list[ir.Value], list[ir.Value]]:
        """Slices the ops that compute a group's values out of the block.

        Returns the ops, operands first; the values in memory that they read, by first use; and the values that they use without
        reading an element, such as the source of an empty slice. The order makes groups that compute the same have the same text,
        wherever in the module their ops are.
        """
        read = {v for n in group.nodes for v in n.reads}
        ins: dict[ir.Value, None] = {}
        unread: dict[ir.Value, None] = {}

        @cache
        def sources(op: ir.Operation) -> tuple[list[ir.Operation], list[ir.Value]]:
            """Returns the ops of the group that produce operands of an op, and its operands from outside."""
            used = [(v, producer(v)) for v in (*op.operands, *_captured(op))]
            outside = [v for v, source in used if source is None or self._is_operand(v, inside)]
            return [source for v, source in used if source is not None and v not in outside], outside

        ends = [op for n in group.nodes if (op := producer(n.value)) is not None]
        body = list(operands_first(ends, lambda op: sources(op)[0]))
        for op in body:
            for v in sources(op)[1][1 if op.name == SCATTER else 0 :]:
                (ins if v in read or not self._is_operand(v, inside) else unread)[v] = None
        return body, list(ins), list(unread)

    def _is_operand(self, v: ir.Value, inside: set[ir.Value]) -> bool:
        """Returns whether `v` is a tensor in memory that the group does not compute."""
        return isinstance(v.type, ir.RankedTensorType) and v not in inside and self.materialized.is_memory(v)

    def _escapes(self, value: ir.Value, inside: set[ir.Value]) -> bool:
        """Returns whether something outside the group reads the memory of `value`."""
        return value in self.needed_outside or any(reader not in inside for reader in self.readers.get(value, ()))


def _text(op: ir.Operation) -> str:
    """Returns a text that is equal for groups that compute the same. It is that of a clone outside of any block, whose values are
    numbered from 0."""
    return op.clone(ip=False).get_asm(use_local_scope=True, assume_verified=True)


def _captured(op: ir.Operation) -> list[ir.Value]:
    """Returns the values defined outside of `op` that its regions use."""
    *inside, _ = nested(op)
    own = {a for region in op.regions for block in region.blocks for a in block.arguments} | {v for o in inside for v in o.results}
    return [v for o in inside for v in o.operands if v not in own]
