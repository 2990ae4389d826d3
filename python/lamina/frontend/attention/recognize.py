"""Recognizes attention that a model writes out, `softmax(q @ k.T * scale + mask) @ v`, as one scaled_dot_product_attention.

This runs before anything is decomposed. A match needs three things: no other user of the scores and weights, a fused kernel that
computes it faster, and eager's values (see `score_masks` for masks). Masks that depend on nothing but shapes, and hide nothing or
just later positions, become the causal flag.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import prod

import torch
from torch import fx

from lamina.core.sizes import typical
from lamina.core.target import Target

from ..fx.aliases import storage
from ..fx.destination import for_gpu
from ..fx.reading import dtype, has_exact_sizes, name, same_elements, shape, sizes, users, value, without_dropout, writes_to
from ..fx.rewriter import Graft, fake_mode, store, written_memory
from .block_lists import drop_block_lists
from .calls import Wanted, emit_attention, fit_into_place, is_fast, make_whole
from .encoder_layers import open_layers
from .flex import open_flex
from .mask_flags import flag_masks, form_of, mask_kind
from .products import Operand, traced_back
from .score_masks import Shown, emit_bias, is_exact, known_bias
from .written_chain import Written, read_chain

aten = torch.ops.aten

SMALL = {False: 2**18, True: 2**21}
"""Number of scores below which two products and Lamina's softmax are faster on a CPU than torch's fused kernel, without and with
gradients. In half types the fused kernel is always faster, as products are slow."""
_MODES = ("grad_enabled", "autocast", "inference_mode")  # in the names of nodes that change a mode


def recognize(gm: fx.GraphModule, trained: Collection[fx.Node] = (), target: str | Target | None = None) -> int:
    """Replaces, in place, written-out attention by one op, and known masks of attention ops by flags. Returns how many ops changed.
    Removes dropout that drops nothing.

    trained  arguments that need a gradient
    target   what the graph is compiled for; None for the device of its tensors

    Does nothing to a graph with a transform of torch.func: its values belong to a level that has ended.
    """
    drop_block_lists(gm)
    if any("increment_nesting" in str(node.target) for node in gm.graph.nodes):
        return 0
    _skip_idle_dropout(gm)
    open_layers(gm)
    changed = flag_masks(gm)
    if changed:
        gm.recompile()
    gpu = for_gpu(target, gm)
    changed += open_flex(gm, trained, gpu)
    return changed + make_whole(gm, trained, gpu) + _joined(gm, trained, gpu)


def _skip_idle_dropout(gm: fx.GraphModule) -> None:
    """Removes dropout that drops nothing: eager returns the argument itself, torch's decomposition a copy."""
    idle = [(node, source) for node in gm.graph.nodes if (source := without_dropout(node)) is not None]
    for node, source in reversed(idle):
        node.replace_all_uses_with(source)
        gm.graph.erase_node(node)
    if idle:
        gm.recompile()


def _joined(gm: fx.GraphModule, trained: Collection[fx.Node], gpu: bool) -> int:
    if not any(name(node) == "softmax" for node in gm.graph.nodes):
        return 0
    fake = fake_mode(gm)
    if fake is None:
        return 0
    written = written_memory(gm.graph)
    replaced = 0
    for node in list(gm.graph.nodes):
        chain = read_chain(node, gm)
        if chain is not None:
            replaced += _Rewrite(chain, gm, Graft(*_end(chain), fake), written, trained, gpu).run()
    if replaced:
        gm.recompile()
    return replaced


def _four(lead: Sequence[int]) -> tuple[int, ...]:
    """Pads up to two leading dimensions with ones to batch and heads."""
    return (*lead, 1, 1)[:2]


def _end(written: Written) -> tuple[fx.Node, tuple[fx.Node, ...]]:
    """Returns the node that attention replaces, and the nodes before it that become dead: where the leading dimensions of a product
    are merged only to be split again, attention skips both."""
    whole = (*_four(written.shape[:-2]), written.shape[-2], shape(written.node)[-1])
    gone: list[fx.Node] = []
    node = written.node
    while not written.last.order and shape(node) != whole and len(users(node)) == 1:
        gone.append(node)
        (node,) = users(node)
        if same_elements(node) is not gone[-1] or dtype(node) is not dtype(written.node):
            break
    fits = gone and shape(node) == whole and same_elements(node) is gone[-1] and dtype(node) is dtype(written.node)
    return (node, tuple(gone)) if fits else (written.node, ())


@dataclass(frozen=True)
class _Rewrite:
    """Rewrites one attention.

    source            the attention as it is written out
    written_storages  memory that the graph writes to anywhere; None if that is not known
    gpu               the graph is compiled for a GPU
    seen              nodes that were looked through: attention reads their arguments later than the model does
    """

    source: Written
    gm: fx.GraphModule
    graft: Graft
    written_storages: set[int] | None
    trained: Collection[fx.Node]
    gpu: bool
    seen: set[fx.Node] = field(default_factory=set)

    def run(self) -> bool:
        """Replaces the attention by one op and returns True, or leaves the graph as it was and returns False."""
        query, key = traced_back(self.source.first.left), traced_back(self.source.first.right.swapped())
        operands = (query, key, self.source.last.right)
        self.seen.update(self.source.chain, self.graft.dead, query.seen, key.seen)
        changed = None
        if self._is_plain(operands) and self._is_worth_it():
            scores = shape(self.source.chain[-1])[:-2], shape(self.source.chain[0])[:-2]
            nodes = [self._operand(operand, lead) for operand, lead in zip(operands, (scores[0], *scores), strict=True)]
            found = [node for node in nodes if node is not None]
            made = self._attention(found, query.scale * key.scale * self.source.scale) if len(found) == 3 else None
            changed = None if made is None else fit_into_place(self._as_product(made), self.graft, self.written_storages)
        if changed is None or not self._reads_the_same():
            self.graft.undo()
            return False
        self.graft.replace()
        for node, new in changed.items():
            store(node, new)
        self._erase()
        return True

    def _is_plain(self, operands: Sequence[Operand]) -> bool:
        """Returns whether no size depends on values and all tensors have one dtype and device; scores may be f32."""
        values = [value(n) for n in (*(operand.node for operand in operands), self.source.node, *self.source.chain)]
        real = [v for v in values if v is not None and 0 not in sizes(v.shape) and has_exact_sizes(v)]
        if len(real) < len(values) or not 2 <= len(self.source.shape) <= 4 or len({v.device for v in real}) > 1:
            return False
        kind = real[0].dtype
        scores = {kind} if kind is torch.float64 else {kind, torch.float32}
        return kind.is_floating_point and {v.dtype for v in real[:4]} == {kind} and {v.dtype for v in real[4:]} <= scores

    def _is_worth_it(self) -> bool:
        val = value(self.source.node)
        wide = val is not None and val.dtype.itemsize >= 4
        return self.gpu or not wide or prod(map(typical, self.source.shape)) >= SMALL[bool(self.trained)]

    def _operand(self, operand: Operand, lead: tuple[int, ...]) -> fx.Node | None:
        """Returns an operand of a product with leading dimensions `lead` as (batch, heads, length, size); None if they do not
        fit."""
        node = operand.node if not operand.order else self.graft.call(aten.permute.default, operand.node, list(operand.order))
        *own, length, size = shape(node)
        if len(own) != len(lead) or any(n not in (1, m) for n, m in zip(own, lead, strict=True)):
            return None
        if tuple(own) != lead:
            node = self.graft.call(aten.expand.default, node, [*lead, -1, -1])
        whole = (*_four(self.source.shape[:-2]), length, size)
        node = self._unmerged(node, whole)
        if shape(node) != whole:
            node = self.graft.call(aten.reshape.default, node, list(whole))
        found = value(node)
        if found is not None and sizes(found.stride())[-1] != 1:
            node = self.graft.call(aten.clone.default, node, memory_format=torch.contiguous_format)
        return node

    def _unmerged(self, node: fx.Node, whole: tuple[int, ...]) -> fx.Node:
        """Returns the source of `node` that has its elements in the shape `whole`, if there is one; else `node`."""
        source: fx.Node | None = node
        passed: list[fx.Node] = []
        while source is not None and dtype(source) is dtype(node):
            if shape(source) == whole:
                self.seen.update(passed)
                return source
            passed.append(source)
            source = same_elements(source)
        return node

    def _attention(self, operands: Sequence[fx.Node], scale: float) -> fx.Node | None:
        """Emits attention by a fused kernel as (batch, heads, length, size); None if there is no exact one."""
        q = operands[0].meta.get("example_value", operands[0].meta.get("val"))
        *_, rows, columns = self.source.shape
        mask = known_bias(self.source.steps, self.gm, self.source.node, rows, columns) if self.source.steps else None
        kind = form_of(mask.region, (rows, columns)) if isinstance(mask, Shown) else mask_kind(mask)
        bias = None
        if self.source.steps and kind == "bias":
            if not is_exact(self.source.steps, mask):
                return None
            bias = emit_bias(self.graft, self.source.steps, self.gm, q, self.source.shape, mask, self.gpu)
            if bias is None:
                return None
        attention = self._op(operands, None if bias is None else bias.node, kind == "causal", scale)
        if attention is None:
            return None
        if bias is None or bias.lost is None:
            return attention
        nan, one = (self.graft.number(n, q.dtype, q.device) for n in (torch.nan, 1.0))
        factor = self.graft.call(aten.where.self, bias.lost, nan, one)
        return self.graft.call(aten.mul.Tensor, attention, factor)  # gradients become NaN too, wherever eager's are

    def _op(self, operands: Sequence[fx.Node], mask: fx.Node | None, causal: bool, scale: float) -> fx.Node | None:
        """Emits the attention call; None if no kernel computes it."""
        query, values = value(operands[0]), value(operands[2])
        if query is None or values is None or (self.gpu and not self.source.dropout and not is_fast(query, values)):
            return None
        wanted = Wanted(causal, scale, self.source.dropout, cap=self.source.cap)
        return emit_attention(self.graft, list(operands), mask, wanted, self.trained, self.gpu)

    def _as_product(self, attention: fx.Node) -> fx.Node:
        """Returns attention reshaped and permuted to the shape of the product with values, where it replaces that."""
        if self.graft.node is not self.source.node:
            return attention
        order = self.source.last.order
        whole = [shape(self.source.node)[order.index(i)] for i in range(len(order))] if order else [*shape(self.source.node)]
        if [*shape(attention)] != whole:
            attention = self.graft.call(aten.reshape.default, attention, whole)
        return self.graft.call(aten.permute.default, attention, list(order)) if order else attention

    def _reads_the_same(self) -> bool:
        """Returns whether no node writes to the operands of attention between where the model reads them and where attention
        does."""
        inserted = set(self.graft.calls)
        read = {storage(v) for made in inserted for v in map(value, made.all_input_nodes) if v is not None}
        node, waiting = self.graft.node, self.seen - {self.graft.node}
        while waiting:
            node = node.prev
            waiting.discard(node)
            memory = set() if node in inserted else writes_to(node)
            if memory is None or memory & read or any(mode in str(node.target) for mode in _MODES):
                return False
        return True

    def _erase(self) -> None:
        for node in (*reversed(self.graft.dead), *self.source.chain):
            for check in list(node.users):
                node.graph.erase_node(check)
            node.graph.erase_node(node)
