"""lamina-fuse: fuses linalg and tensor ops into `graph.group`s, one kernel each.

`passes/trace` decides what is materialized and which values share a kernel; here the groups are written as ops, in an order in
which every value is computed before it is read.
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
from ..ir.locations import decomposed_op, fused, model_ops, op_word
from ..ir.reading import SCATTER, Generic, Untraceable, nested, producer, shape_of
from ..ir.rewriting import bodies, copy_ops
from ..simplify.matching.rule import PATTERN
from ..space.space import find_space
from ..trace.gathered import copy_gathered
from ..trace.grouping import Group
from ..trace.uses import OUTSIDE
from ..trace.windows_apart import store_pooled
from .bias_apart import add_apart
from .consistent import CONSISTENT, compared
from .groups import Limits, find_groups

_NOTHING = ("arith.constant", "tensor.empty", "linalg.fill")  # ops that compute nothing, and do not name a kernel's location


@dataclass(frozen=True)
class Fuse(Pass):
    """Fuse linalg and tensor ops into groups by the bytes they move.

    Before: @main computes on tensors. After: @main holds graph.group, graph.kernel, graph.extern, constants, and views that feed
    these or the return. Vertical (chains, producers into reductions, epilogues over the same rows), horizontal (ops that read the
    same input) and multi-output fusion are one rule: merge what runs over the same rows and columns when that saves bytes. Values
    that are cheaper to compute again than to store are computed again. A group is named by the model's first five ops in it, where
    a decomposed op or a matched pattern counts as one: "add_layer_norm", "gelu_mul". On a GPU, a product of f32 with a
    bias becomes one without and an addition, where only groups read it: these then compute the addition, too. There, an image
    that is gathered from, or concatenated, for a library call that takes channels last is copied to channels last first. On a CPU,
    an image that is pooled for such a call is stored in the order in which it is read, and transposed by a kernel of its own.

        %0 = linalg.generic (exp) ; %1 = linalg.generic (sum of %0)   ->   "graph.group"(%x) ({ exp; sum })

    max_ops   stored values that one group computes at most
    max_cost  operations per element that groups are merged up to: longer ones are bound by computation, so that a value stored in
              the middle costs nothing, and their code takes longer to compile than that of their parts
    balance   operations that the machine does while it moves a byte: values are recomputed for the taps of a window, rather than
              stored, by this measure (0: only where that is nearly free)
    """

    name: ClassVar[str] = "lamina-fuse"
    max_ops: int = 64
    max_cost: int = 1024
    balance: int = 0

    def run(self, module: ir.Module) -> None:
        """Fuses every function of the module that has a body."""
        for block in bodies(module):
            if self.balance:
                add_apart(block)
                copy_gathered(block, Generic.read_affine)
            _Rewrite(block, self, {} if self.balance else store_pooled(block, Generic.read_affine)).run()


class _Rewrite:
    def __init__(self, block: ir.Block, given: Fuse, apart: dict[ir.Value, int]) -> None:
        self.block = block
        self.real, self.groups = find_groups(block, Limits(given.max_ops, given.max_cost, given.balance), apart)
        self.old = list(self.real.ops)
        self.kept, self.compared = self.real.kept(), compared(self.real)
        self.readers: dict[ir.Value, list[ir.Value]] = {}
        for node in (n for g in self.groups for n in g.nodes):
            for v in node.reads:
                self.readers.setdefault(v, []).append(node.value)
        self.new: dict[ir.Value, ir.Value] = {a: a for a in block.arguments}
        self.names: dict[str, int] = {}
        self.sound: set[str] = set()

    def run(self) -> None:
        """Emits the groups and what stays outside them, and erases the old ops."""
        end = self.old[-1]
        with ir.InsertionPoint(end):
            for unit in self._order():
                if isinstance(unit, Group):
                    self._emit(unit)
                else:
                    self._clone(unit)
            for i, v in enumerate(end.operands):
                end.operands[i] = self._value(v)
        for op in reversed(self.old[:-1]):
            op.erase()

    def _order(self) -> list[Group | ir.Operation]:
        """Returns groups and external calls, each value's producer before its users, close to program order."""
        unit_of: dict[ir.Value, Group | ir.Operation] = {n.value: g for g in self.groups for n in g.nodes}
        reads: dict[Group | ir.Operation, list[ir.Value]] = {}
        first: dict[Group | ir.Operation, int] = {}
        for g in self.groups:
            reads[g] = [v for n in g.nodes for v in n.reads]
            first[g] = min(n.position for n in g.nodes)
        effect: ir.Operation | None = None
        after: dict[ir.Operation, ir.Operation] = {}
        for i, op in enumerate(self.old):
            if op.name in OUTSIDE and op != self.old[-1]:
                reads[op], first[op] = [self.real.bases.get(v, v) for v in op.operands], i
                unit_of.update(dict.fromkeys(op.results, op))
                if "graph.effect" in op.attributes:
                    if effect is not None:
                        after[op] = effect
                    effect = op

        def needs(u: Group | ir.Operation) -> list[Group | ir.Operation]:
            """Returns what has to come before a unit, the last first."""
            found = [unit_of[v] for v in reads[u] if v in unit_of and unit_of[v] is not u]
            return [*([after[u]] if u in after else []), *reversed(found)]  # type: ignore[index, operator]

        return list(operands_first(sorted(reads, key=first.__getitem__), needs))

    def _value(self, v: ir.Value) -> ir.Value:
        """Returns the new counterpart of `v`: views and constants are cloned on demand."""
        if v not in self.new:
            op = producer(v)
            assert op is not None
            self._clone(op)
        return self.new[v]

    def _clone(self, op: ir.Operation) -> None:
        for v in op.operands:
            self._value(v)
        copy_ops([op], self.new)

    def _emit(self, group: Group) -> None:
        """Writes the group as an op; as one op per value where it turns out to have no common iteration space."""
        op, outs, body = self._group(group)
        block = op.regions[0].blocks[0]
        strides = {a: memory_strides(v) for a, v in zip(block.arguments, op.operands, strict=True)}
        text = _text(op) + str(list(strides.values())) if len(group.nodes) > 1 else ""
        try:
            if text and text not in self.sound:  # layers repeat: each body is tried once
                find_space(block, strides, [row_major(shape_of(v)) for v in outs])
                self.sound.add(text)
            op.attributes["sym_name"] = ir.StringAttr.get(self._name(group, body))
        except Untraceable:
            op.erase()
            at = self.groups.index(group)
            self.groups[at : at + 1] = [Group([n]) for n in group.nodes]
            for single in self.groups[at : at + len(group.nodes)]:
                self._emit(single)
            return
        self.new.update(zip(outs, op.results, strict=True))

    def _group(self, group: Group) -> tuple[ir.Operation, list[ir.Value], list[ir.Operation]]:
        """Returns the op, the values that are its results, and the ops that its body copies."""
        inside = {n.value for n in group.nodes}
        body, ins, unread = self._slice(group, inside)
        outs = [n.value for n in group.nodes if self._escapes(n.value, inside)]
        made = fused(o.location for o in body if o.name not in _NOTHING)
        changed = [op for op in body if op.name == SCATTER]  # what is changed is an operand of its own: it may be a copy

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
        with made:
            op = graph_group("", operands, [v.type for v in outs], fill)
        if self.compared.intersection(body):
            op.attributes[CONSISTENT] = ir.UnitAttr.get()
        return op, outs, body

    def _slice(self, group: Group, inside: set[ir.Value]) -> tuple[list[ir.Operation], list[ir.Value], list[ir.Value]]:
        """Returns the operations that compute the group's values, operands first; the memory values they read, by first use; and
        those that they use but read no element of: a slice of no elements, or what lies in the padding. Thus groups that compute
        the same have the same text, wherever in the module their operations stand."""
        read = {v for n in group.nodes for v in n.reads}
        ins: dict[ir.Value, None] = {}
        unread: dict[ir.Value, None] = {}

        @cache
        def sources(op: ir.Operation) -> tuple[list[ir.Operation], list[ir.Value]]:
            """Returns the ops of the group that an op reads, and the values from outside."""
            used = [(v, producer(v)) for v in (*op.operands, *_captured(op))]
            outside = [v for v, made in used if made is None or self._is_given(v, inside)]
            return [made for v, made in used if made is not None and v not in outside], outside

        ends = [op for n in group.nodes if (op := producer(n.value)) is not None]
        body = list(operands_first(ends, lambda op: sources(op)[0]))
        for op in body:
            for v in sources(op)[1][1 if op.name == SCATTER else 0 :]:
                (ins if v in read or not self._is_given(v, inside) else unread)[v] = None
        return body, list(ins), list(unread)

    def _is_given(self, v: ir.Value, inside: set[ir.Value]) -> bool:
        """Returns whether `v` is memory that the group does not compute."""
        return isinstance(v.type, ir.RankedTensorType) and v not in inside and self.real.is_memory(v)

    def _escapes(self, value: ir.Value, inside: set[ir.Value]) -> bool:
        """Returns whether something outside the group reads the memory of `value`."""
        return value in self.kept or any(reader not in inside for reader in self.readers.get(value, ()))

    def _name(self, group: Group, body: list[ir.Operation]) -> str:
        """Returns a name from the first ops of the group: those of its values, and of what it computes for them."""
        ends = {producer(n.value) for n in group.nodes}
        words = [_whole(op) or _kind(op) for op in body if op in ends or _computes(op)]
        name = "_".join(list(dict.fromkeys(words))[:5]) or "kernel"
        self.names[name] = self.names.get(name, 0) + 1
        return name if self.names[name] == 1 else f"{name}_{self.names[name]}"


def _text(op: ir.Operation) -> str:
    """Returns text that is equal for groups that compute the same: a clone outside of any block numbers its values from 0."""
    return op.clone(ip=False).get_asm(use_local_scope=True, assume_verified=True)


def _computes(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and len(op.regions[0].blocks[0].operations) > 1


def _whole(op: ir.Operation) -> str:
    """Returns the name of the model's op, or of the pattern, that `op` is a part of; "" where it is no part of one."""
    if name := decomposed_op(op.location):
        return op_word(name)
    return ir.StringAttr(op.attributes[PATTERN]).value if PATTERN in op.attributes else ""


def _kind(op: ir.Operation) -> str:
    names = [name for name in model_ops(op.location) if name.startswith("aten.")]
    if names:
        return op_word(names[0])
    if op.name != "linalg.generic":
        return op.name.split(".")[1]
    ops = [o.operation.name.split(".")[1] for o in op.regions[0].blocks[0].operations]
    return ops[-2] if len(ops) > 1 else "copy"


def _captured(op: ir.Operation) -> list[ir.Value]:
    """Returns the values from outside that the regions of `op` use."""
    *inside, _ = nested(op)
    own = {a for region in op.regions for block in region.blocks for a in block.arguments} | {v for o in inside for v in o.results}
    return [v for o in inside for v in o.operands if v not in own]
