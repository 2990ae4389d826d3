"""Replaces calls of flex_attention by Lamina's attention op, before gradients are traced.

What its functions do to a score is inlined (`score_functions`). Where a score is only scaled, capped by a tanh, added to and
hidden, the call becomes Lamina's attention with that as its soft cap and mask, if a kernel computes it. Else it is written out:
products, with all that happens to a score and the softmax in a kernel between them.

A block mask's lists of blocks say no more than its function, and are not read, as in eager.
"""

import math
import operator
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor, fx
from torch._higher_order_ops.flex_attention import flex_attention

from ..fx.reading import number, shape, sizes, value
from ..fx.rewriter import Graft, fake_mode, store, written_memory
from .calls import Wanted, depends_on, emit_attention, fit_into_place
from .mask_flags import known_form
from .op import accumulation_dtype
from .score_functions import ChangedScores, NotLinear, ScoreFunction, as_four, before_expansion, item_of

aten = torch.ops.aten


def open_flex(gm: fx.GraphModule, trained: Collection[fx.Node], gpu: bool) -> int:
    """Replaces calls of flex_attention in place. Returns how many.

    trained  arguments that need a gradient
    gpu      the graph is compiled for a GPU
    """
    calls = gm.graph.find_nodes(op="call_function", target=flex_attention)
    fake = fake_mode(gm) if calls else None
    if fake is None or any("autocast" in str(node.target) for node in gm.graph.nodes):  # products would be computed in half types
        return 0
    replaced = 0
    for node in calls:
        call = _FlexCall.read(node, gm)
        if call is None or (item := item_of(node, 0)) is None:
            continue
        node.append(item)
        replaced += _FlexRewrite(call, gm, Graft(item, (), fake), trained, gpu).run()
    if replaced:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return replaced


@dataclass(frozen=True)
class _FlexCall:
    """A call: its operands, its functions of scores and of positions, and the factor of scores."""

    node: fx.Node
    operands: tuple[fx.Node, fx.Node, fx.Node]
    scores: ScoreFunction
    shows: ScoreFunction
    scale: float

    @staticmethod
    def read(node: fx.Node, gm: fx.GraphModule) -> "_FlexCall | None":
        """Reads a call; None if the graph does not hold its functions or operands."""
        query, key, values, score_function, blocks, scale, _, *others = node.args
        captured = (*others, (), ())[:2]
        modules = [getattr(gm, str(f.target), None) if isinstance(f, fx.Node) else None for f in (score_function, blocks[-1])]
        operands, factor = (query, key, values), _number_in(scale)
        if factor is None or None in map(value, operands) or not all(isinstance(m, fx.GraphModule) for m in modules):
            return None
        return _FlexCall(node, operands, ScoreFunction(modules[0], captured[0]), ScoreFunction(modules[1], captured[1]), factor)


def _number_in(arg: object) -> float | None:
    """Returns a number that is written into the graph, or that a node has for all sizes; None for others."""
    val = arg.meta.get("example_value", arg.meta.get("val")) if isinstance(arg, fx.Node) else arg
    if isinstance(val, torch.SymFloat):
        val = float(val) if val.node.expr.is_number else None
    return number(val)


@dataclass(frozen=True)
class _FlexRewrite:
    """Rewrites one call at the node that takes its result."""

    call: _FlexCall
    gm: fx.GraphModule
    graft: Graft
    trained: Collection[fx.Node]
    gpu: bool

    def run(self) -> bool:
        """Replaces the call and returns True, or leaves the graph as it was and returns False."""
        result, (query, *_) = value(self.graft.node), map(value, self.call.operands)
        if result is None or query is None or result.dtype is not query.dtype or torch.is_autocast_enabled(query.device.type):
            return False
        logs, maxima = (item_of(self.call.node, i) for i in (1, 2))
        trains = any(depends_on(n, self.trained) for n in self.call.node.all_input_nodes)
        written = written_memory(self.gm.graph)
        plain = not (logs is not None and trains) and maxima is None
        for fit in (self._fused, self._written_out) if plain else (self._written_out,):
            emitted = fit()
            attention = None if emitted is None else emitted[0]
            changed = None if attention is None else fit_into_place(attention, self.graft, written)
            if emitted is None or changed is None:
                self.graft.undo()
                continue
            for item, more in ((logs, emitted[1]), (maxima, emitted[2])):
                if item is not None and more is not None:
                    item.replace_all_uses_with(more)
            self.graft.replace()
            for other, new in changed.items():
                store(other, new)
            return True
        return False

    def _positions(self) -> list[fx.Node]:
        query, key = self.call.operands[:2]
        val = value(query)
        assert val is not None
        numbers = (*shape(query)[:3], shape(key)[2])
        return [self.graft.call(aten.arange.default, n, dtype=torch.int32, device=val.device) for n in numbers]

    @property
    def _like(self) -> Tensor:
        """A (fake) tensor like the scores."""
        query, key = (value(n) for n in self.call.operands[:2])
        assert query is not None and key is not None
        with self.graft.fake:
            return query.new_empty((*query.shape[:3], key.shape[2]), dtype=accumulation_dtype(query))

    def _operands(self) -> list[fx.Node]:
        """Returns query, key and value, with as many batches."""
        query, *others = self.call.operands
        batch = shape(query)[0]
        wide = [n if shape(n)[0] == batch else self.graft.call(aten.expand.default, n, [batch, *shape(n)[1:]]) for n in others]
        return [query, *wide]

    def _fused(self) -> tuple[fx.Node | None, ...] | None:
        """Emits the call as one attention; returns its result and log-sum-exps. None if no kernel computes it."""
        graft, like, positions = self.graft, self._like, self._positions()
        try:
            changed = self.call.scores.inlined(graft, (ChangedScores(),), positions, like)
            seen = as_four(graft, before_expansion(self.call.shows.inlined(graft, (), positions, like)))
        except NotLinear:
            return None
        if not isinstance(changed, ChangedScores):
            return None
        kind = known_form(seen, self.gm, graft.node)
        if kind == "nothing" or (kind == "causal" and changed.added is None and changed.seen is None):
            seen = None
        if changed.seen is not None:
            more = as_four(graft, changed.seen)
            seen = more if seen is None else graft.call(aten.bitwise_and.Tensor, seen, more)
        mask = self._mask(seen, changed.added, like)
        scale = self.call.scale * changed.scale
        causal = kind == "causal" and seen is None
        wanted = Wanted(causal, scale, exact=True, cap=changed.cap)
        result = emit_attention(graft, self._operands(), mask, wanted, self.trained, self.gpu)
        if result is None:
            return None
        logs = self._logs(result, mask) if item_of(self.call.node, 1) is not None else None
        graft.calls.remove(result)
        graft.calls.append(result)  # takes the place of the graft's node, as the last one
        return result, logs, None

    def _mask(self, seen: fx.Node | None, added: fx.Node | None, like: Tensor) -> fx.Node | None:
        """Emits the mask of four dimensions, with an element for each key: bool, or what is added."""
        mask = seen
        if added is not None:
            val, query = value(added), value(self.call.operands[0])
            assert val is not None and query is not None
            dtype = val.dtype if val.dtype is query.dtype else like.dtype
            mask = added if val.dtype is dtype else self.graft.call(aten._to_copy.default, added, dtype=dtype)
            if seen is not None:
                hidden = self.graft.number(-math.inf, dtype, like.device)
                mask = self.graft.call(aten.where.self, seen, as_four(self.graft, mask), hidden)
        if mask is None:
            return None
        mask = as_four(self.graft, mask)
        keys = sizes(like.shape)[3]
        return mask if shape(mask)[3] == keys else self.graft.call(aten.expand.default, mask, [*shape(mask)[:3], keys])

    def _logs(self, result: fx.Node, mask: fx.Node | None) -> fx.Node:
        """Emits the log-sum-exps of base 2: -inf for rows that see nothing, for which libraries store other numbers."""
        graft, (attention, _) = self.graft, result.args
        sums = graft.call(operator.getitem, attention, 1)
        if mask is not None:
            hides = value(mask).dtype is not torch.bool  # type: ignore[union-attr]
            hidden = graft.call(aten.eq.Scalar, mask, -math.inf) if hides else graft.call(aten.bitwise_not.default, mask)
            sums = graft.call(aten.masked_fill.Scalar, sums, graft.call(aten.all.dim, hidden, -1), -math.inf)
        return self._as_item(1, sums)

    def _as_item(self, item: int, natural: fx.Node) -> fx.Node:
        """Emits logarithms of base 2 in the dtype that an item of the call has."""
        scaled, val = self.graft.call(aten.div.Tensor, natural, math.log(2)), value(item_of(self.call.node, item))
        if val is None or val.dtype is value(scaled).dtype:  # type: ignore[union-attr]
            return scaled
        return self.graft.call(aten._to_copy.default, scaled, dtype=val.dtype)

    def _written_out(self) -> tuple[fx.Node | None, ...] | None:
        """Emits products, with the function and the softmax between them; returns the result, log-sum-exps and maxima. None if
        vmap refuses a function, or it holds a tensor of its own."""
        graft, like, positions = self.graft, self._like, self._positions()
        query, *others = self._operands()
        times = shape(query)[1] // shape(others[0])[1]
        key, values = (n if times == 1 else graft.call(aten.repeat_interleave.self_int, n, times, 1) for n in others)
        wide = [n if value(n).dtype is like.dtype else graft.call(aten._to_copy.default, n, dtype=like.dtype) for n in (query, key)]  # type: ignore[union-attr]
        product = graft.call(aten.matmul.default, wide[0], graft.call(aten.transpose.int, wide[1], -2, -1))
        scores = graft.call(aten.mul.Tensor, product, self.call.scale)
        try:
            scores = self.call.scores.inlined(graft, (scores,), positions, like)
            seen = as_four(graft, before_expansion(self.call.shows.inlined(graft, (), positions, like)))
        except NotLinear:
            return None
        if known_form(seen, self.gm, graft.node) != "nothing":
            hidden = graft.number(-math.inf, value(scores).dtype, like.device)  # type: ignore[union-attr]
            scores = graft.call(aten.where.self, seen, scores, hidden)
        lost = graft.call(aten.all.dim, graft.call(aten.eq.Scalar, scores, -math.inf), -1, True)
        finite = graft.call(aten.masked_fill.Scalar, scores, lost, 0.0)  # with finite gradients, which then are zero
        weights = graft.call(aten.masked_fill.Scalar, graft.call(aten.softmax.int, finite, -1), lost, 0.0)
        val = value(query)
        assert val is not None
        if value(weights).dtype is not val.dtype:  # type: ignore[union-attr]
            weights = graft.call(aten._to_copy.default, weights, dtype=val.dtype)
        more: list[fx.Node | None] = [None, None]
        if item_of(self.call.node, 1) is not None:
            flat = graft.call(aten.squeeze.dim, lost, -1)
            sums = graft.call(aten.logsumexp.default, finite, [-1])
            more[0] = self._as_item(1, graft.call(aten.masked_fill.Scalar, sums, flat, -math.inf))
        if item_of(self.call.node, 2) is not None:
            more[1] = self._as_item(2, graft.call(aten.amax.default, scores, [-1]))
        return graft.call(aten.matmul.default, weights, values), *more
