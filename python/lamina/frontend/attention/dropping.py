"""Replaces attention with dropout, called as one op or written out, by Lamina's op, which draws its numbers from a seed.

That is decided here, in the captured graph, before gradients are traced: forward and backward pass belong to one op. Libraries'
kernels draw in orders of their own, so where a library keeps the forward pass, it keeps the gradients.
"""

import operator
from collections.abc import Collection

import torch
from torch import Tensor, fx

from lamina.schedules.attention_cost import MOST

from ..decompositions.ops.library import on_gpu
from ..fx.random_bits import RANGE, SEED
from ..fx.reading import number, shape, value
from ..fx.rewriter import Graft, fake_mode, store, takes_layout, written_memory
from .dropped import DROPPED
from .keep import FAST, FUNCTIONS, choice, positional

aten = torch.ops.aten

_MASKS = (torch.bool, torch.float16, torch.bfloat16, torch.float32)


def draw_ours(gm: fx.GraphModule, trained: Collection[fx.Node] = ()) -> int:
    """Replaces calls of scaled_dot_product_attention with dropout in place, where that pays. Returns how many.

    trained  arguments that need a gradient
    """
    calls = [node for node in gm.graph.nodes if node.op == "call_function" and node.target in FUNCTIONS]
    calls = [node for node in calls if number(positional(node.args, node.kwargs)[4])]
    fake = fake_mode(gm) if calls else None
    if fake is None:
        return 0
    written = written_memory(gm.graph)
    found = sum(_drawn(node, Graft(node, (), fake), written, trained) for node in calls)
    if found:
        gm.recompile()
    return found


def _drawn(node: fx.Node, graft: Graft, written: set[int] | None, trained: Collection[fx.Node]) -> bool:
    """Replaces one call where that pays, and returns whether it did."""
    query, key, values, mask, dropout, causal = positional(node.args, node.kwargs)
    q, k, v, given = value(query), value(key), value(values), node.kwargs.get("scale")
    if q is None or k is None or v is None or not isinstance(causal, bool) or (causal and mask is not None):
        return False
    scale = q.shape[-1] ** -0.5 if given is None else number(given)
    probability = number(dropout)
    if scale is None or probability is None or not is_ours(q, k, v, scale, probability):
        return False
    if mask is None and choice(q, k, v, None, causal, scale, k.shape[1] < q.shape[1], probability) in FAST:
        return False  # Lamina's gradients were not measured against those kernels'
    made = None
    if mask is None or (value(mask) is not None and not depends_on(mask, trained)):
        if mask is not None and len(shape(mask)) < 4:
            mask = graft.call(aten.reshape.default, mask, [1] * (4 - len(shape(mask))) + [*shape(mask)])
        if mask is None or takes_mask(q, k, value(mask)):
            made = dropped(graft, query, key, values, mask, causal, scale, probability)
    changed = None if made is None else _placed(made, graft, written)
    if changed is None:
        graft.undo()
        return False
    graft.replace()
    for other, new in changed.items():
        store(other, new)
    return True


def _placed(made: fx.Node, graft: Graft, written: set[int] | None) -> dict[fx.Node, Tensor] | None:
    """Fits `made`, or a copy of it in eager's layout, to the node's place: returns the fake values that change with it.

    Returns None where neither can replace the node.
    """
    for copied in (False, True):
        if copied:
            made = graft.call(aten.clone.default, made, memory_format=torch.contiguous_format)
        found = value(made)
        changed = None if found is None else takes_layout(graft.at, found, graft.fake, written)
        if changed is not None:
            return changed
    return None


def is_ours(query: Tensor, key: Tensor, values: Tensor, scale: float, dropout: float) -> bool:
    """Returns whether Lamina's kernels compute this attention and its gradients."""
    if not all(on_gpu(t) and t.dim() == 4 and t.numel() and all(type(n) is int for n in t.shape) for t in (query, key, values)):
        return False
    if query.dtype not in (torch.float16, torch.bfloat16) or {key.dtype, values.dtype} != {query.dtype}:
        return False
    (batch, heads, _, size), (_, shared, keys, wide) = query.shape, values.shape
    fits = key.shape == (batch, shared, keys, size) and values.shape[0] == batch and heads % shared == 0
    return fits and max(size, wide) <= MOST and scale > 0 and 0 < dropout <= 1


def takes_mask(query: Tensor, key: Tensor, mask: Tensor | None) -> bool:
    """Returns whether Lamina's kernels take this mask: 4-D, broadcast to the scores. They do not compute its gradient."""
    scores = (*query.shape[:3], key.shape[2])
    return (
        mask is not None
        and mask.device == query.device
        and mask.dtype in _MASKS
        and mask.dim() == 4
        and all(type(n) is int and n in (1, whole) for n, whole in zip(mask.shape, scores, strict=True))
    )


def depends_on(node: fx.Node, trained: Collection[fx.Node]) -> bool:
    """Returns whether a node is one of `trained` or computed from one."""
    waiting, behind = [node], set[fx.Node]()
    while waiting:
        at = waiting.pop()
        if at not in behind:
            behind.add(at)
            waiting += at.all_input_nodes
    return not behind.isdisjoint(trained)


def dropped(
    graft: Graft, query: fx.Node, key: fx.Node, values: fx.Node, mask: fx.Node | None, causal: bool, scale: float, dropout: float
) -> fx.Node:
    """Emits the op before the node that the graft is for, and returns its first result."""
    told = value(query)
    assert told is not None
    seed = graft.call(SEED, *RANGE, [], dtype=torch.int64, device=told.device)
    made = graft.call(DROPPED, query, key, values, mask, seed, dropout, causal, scale)
    return graft.call(operator.getitem, made, 0)
