"""Makes each call of scaled_dot_product_attention one op of Lamina's, before gradients are traced.

What no fused kernel computes, by dtype, rank and sizes (families/attention/torch_kernels/), keeps torch's decomposition. Masks that
depend on nothing but shapes become flags afterwards (mask_flags.py).

Vendors' kernels draw dropout's random numbers in orders of their own. Attention with dropout that Lamina's kernels are to compute
has a seed, which the gradients read too; all other keeps torch's decomposition.
"""

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional as F

from lamina.core.dtypes import HALF
from lamina.core.sizes import is_symbolic, typical
from lamina.core.walks import reachable
from lamina.passes.families.attention.cost import MOST
from lamina.passes.families.attention.torch_kernels.kernel import Case
from lamina.passes.families.attention.torch_kernels.registry import OLDEST, preferred, settings

from ..fx.dtypes import CODES
from ..fx.random_bits import RANGE, SEED
from ..fx.reading import has_exact_sizes, number, shape, sizes, value
from ..fx.rewriter import Graft, fake_mode, store, takes_layout, written_memory
from .heads import before_repetition
from .op import ATTENTION

aten = torch.ops.aten
SDPA = aten.scaled_dot_product_attention.default
FUNCTIONS = (F.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention, SDPA)
_HALF = (torch.float16, torch.bfloat16)
_IN_REGISTERS = 128
"""The largest head size for which torch's memory-efficient kernel keeps a block's results in registers; longer ones it writes and
reads again for each block of keys. With heads of 512 elements, a model of two attentions and six products took 1.86 times as long
on an H200 as torch.compile with products and softmaxes."""


def make_whole(gm: fx.GraphModule, trained: Collection[fx.Node] = (), gpu: bool = False) -> int:
    """Replaces calls of scaled_dot_product_attention in place, also in bodies of checkpoints. Returns how many.

    trained  arguments that need a gradient
    gpu      the graph is compiled for a GPU
    """
    nodes = list(gm.graph.nodes)
    replaced = sum(_in_checkpoint(node, gm, bool(trained), gpu) for node in nodes)
    calls = [node for node in nodes if node.op == "call_function" and node.target in FUNCTIONS]
    fake = fake_mode(gm) if calls else None
    if fake is None or any(node.target is torch.nn.attention._sdpa_kernel for node in nodes):  # the graph changes torch's settings
        return replaced
    written = written_memory(gm.graph)
    here = sum(_is_replaced(node, Graft(node, (), fake), written, trained, gpu) for node in calls)
    if here:
        gm.recompile()
    return replaced + here


def _in_checkpoint(node: fx.Node, gm: fx.GraphModule, trains: bool, gpu: bool) -> int:
    if node.target is not torch.ops.higher_order.tag_activation_checkpoint or not isinstance(node.args[0], fx.Node):
        return 0
    body = getattr(gm, str(node.args[0].target))
    return make_whole(body, body.graph.find_nodes(op="placeholder") if trains else (), gpu)


def _is_replaced(node: fx.Node, graft: Graft, written: set[int] | None, trained: Collection[fx.Node], gpu: bool) -> bool:
    """Replaces one call where a kernel computes it, and returns whether it did."""
    *operands, mask, probability, causal = positional_arguments(node.args, node.kwargs)
    dropout, scale = number(probability), node.kwargs.get("scale")
    query, attention = value(operands[0]), None
    if query is not None and dropout is not None and isinstance(causal, bool) and (mask is None or not causal):
        scale = _default_scale(query) if scale is None else number(scale)
        if (result := value(node)) is not None and result.dtype is not query.dtype:  # by autocast
            operands = [graft.call(aten._to_copy.default, n, dtype=result.dtype) for n in operands]
        attention = emit_attention(graft, operands, mask, Wanted(causal, scale, dropout, by_torch=True), trained, gpu)
    changed = None if attention is None else fit_into_place(attention, graft, written)
    if changed is None:
        graft.undo()
        return False
    graft.replace()
    for other, new in changed.items():
        store(other, new)
    return True


def _default_scale(query: Tensor) -> float | None:
    """Returns the scale of scores where the call gives none; None for heads of a symbolic number of elements."""
    size = query.shape[-1]
    return size**-0.5 if isinstance(size, int) else None


@dataclass(frozen=True)
class Wanted:
    """An attention as the graph asks for it.

    causal    query i sees keys 0 to i
    scale     of the scores; None if it is not known
    dropout   the probability that a weight is dropped
    by_torch  dropout may stay torch's
    exact     the mask is not rounded
    cap       soft cap of the scores, which no vendor's kernel has; 0 for none
    """

    causal: bool
    scale: float | None
    dropout: float = 0.0
    by_torch: bool = False
    exact: bool = False
    cap: float = 0.0


def emit_attention(
    graft: Graft, operands: list[fx.Node], mask: fx.Node | None, wanted: Wanted, trained: Collection[fx.Node], gpu: bool
) -> fx.Node | None:
    """Emits attention before the node that the graft is for, and returns its result; None if no kernel computes it.

    operands  query, key and value
    trained   arguments of the graph that need a gradient
    gpu       the graph is compiled for a GPU
    """
    query, key, values = map(value, operands)
    if query is None or key is None or values is None or wanted.scale is None:
        return None
    mask_value = None if mask is None else value(mask)
    if not is_attention(query, key, values) or not is_usable_mask(query, key, mask_value):
        return None
    trains_mask = mask is not None and mask_value is not None and mask_value.is_floating_point() and depends_on(mask, trained)
    case = case_of(query, key, values, mask is not None, trains_mask, wanted.causal)
    rounded = gpu and mask_value is not None and mask_value.dtype is torch.float32 is not query.dtype
    allowed = _allowed(case, wanted, (query, key, values), bool(trained), gpu, rounded)
    if allowed is None:
        return None
    if mask is not None and len(shape(mask)) < 4:
        mask = graft.call(aten.reshape.default, mask, [1] * (4 - len(shape(mask))) + [*shape(mask)])
    if trains_mask and shape(mask) != case.scores:
        mask = graft.call(aten.expand.default, mask, list(case.scores))
    if mask is not None and not wanted.dropout and allowed:
        mask = _as_number(graft, mask, query, gpu)
    seed = graft.call(SEED, *RANGE, [], dtype=torch.int64, device=query.device) if wanted.dropout else None
    sources = [before_repetition(node) for node in operands[1:]]
    if not trained and None not in sources and shape(sources[0])[1] == shape(sources[1])[1]:
        operands = [operands[0], *(node for node in sources if node is not None)]
    how = (wanted.dropout, wanted.causal, wanted.scale, allowed, *([wanted.cap] if wanted.cap else []))
    return graft.call(operator.getitem, graft.call(ATTENTION, *operands, mask, seed, *how), 0)


def _allowed(case: Case, wanted: Wanted, tensors: Sequence[Tensor], trains: bool, gpu: bool, rounded: bool) -> str | None:
    """Returns the names of vendors' kernels that may compute an attention, with spaces between: none where only Lamina's kernels
    compute it; None if no kernel does.

    tensors  query, key and value
    trains   some argument of the graph needs a gradient
    rounded  vendors' kernels would round the mask
    """
    allowed = settings()
    if wanted.dropout:
        return allowed if gpu and _is_dropped(case, wanted, allowed) else None
    if gpu and ((wanted.exact and case.masked) or wanted.cap) and _is_alone(case):
        return ""
    if wanted.cap or (wanted.exact and rounded):
        return None
    vendor = preferred(case, OLDEST if gpu else None, allowed)
    query, key, _ = tensors
    shares = trains and key.shape[1] < query.shape[1]  # the memory-efficient kernel has no gradients of shared heads
    apart = any(sizes(t.stride())[-1] != 1 for t in tensors)
    if apart or vendor is None or (shares and vendor.repeats_heads):
        return None
    return vendor.name if case.trains_mask else allowed  # it computes both passes, as in eager: few have gradients of a mask


def is_attention(query: Tensor, key: Tensor, values: Tensor) -> bool:
    """Returns whether tensors have the shapes and the one dtype and device of attention, (batch, heads, length, size), with as many
    heads of keys as of queries or a divisor of that."""
    tensors = (query, key, values)
    if any(t.dim() != 4 or 0 in sizes(t.shape) or not has_exact_sizes(t) for t in tensors):
        return False
    of_query, of_key, of_values = (sizes(t.shape) for t in tensors)
    (batch, heads, _, size), (_, shared, keys, longest) = of_query, of_values
    alike = len({(t.dtype, t.device) for t in tensors}) == 1 and of_values[0] == batch and heads % shared == 0
    return alike and of_key == (batch, shared, keys, size) and not is_symbolic((size, longest)) and query.dtype in CODES


def is_usable_mask(query: Tensor, key: Tensor, mask: Tensor | None) -> bool:
    """Returns whether a mask is bool or float, has an element for each key, and broadcasts to the scores."""
    if mask is None:
        return True
    scores, dims = (*sizes(query.shape)[:3], *sizes(key.shape)[2:3]), sizes(mask.shape)
    each = zip(dims, scores[4 - mask.dim() :], strict=True) if mask.dim() <= 4 else ()
    fits = 0 < mask.dim() <= 4 and dims[-1] == scores[-1] and all(n in (1, whole) for n, whole in each)
    return fits and mask.device == query.device and mask.dtype in (torch.bool, torch.float32, *_HALF, query.dtype)


def _as_number(graft: Graft, mask: fx.Node, query: Tensor, gpu: bool) -> fx.Node:
    """Returns a mask as vendors' kernels read it: added to the scores, in the queries' dtype, on CPUs also in f32."""
    given = value(mask)
    if given is None or given.dtype is query.dtype or (given.dtype is torch.float32 and not gpu):
        return mask
    if given.dtype is not torch.bool:
        return graft.call(aten._to_copy.default, mask, dtype=query.dtype)
    zero, hidden = (graft.number(n, query.dtype, query.device) for n in (0.0, -torch.inf))
    return graft.call(aten.where.self, mask, zero, hidden)


def case_of(query: Tensor, key: Tensor, values: Tensor, masked: bool, trains_mask: bool, causal: bool) -> Case:
    """Returns the properties of an attention that decide which of torch's kernels compute it."""
    batch, heads, queries, size = sizes(query.shape)
    scores = (batch, heads, queries, sizes(key.shape)[2])
    return Case(CODES[query.dtype], scores, size, values.shape[3], masked, trains_mask, causal)


def _is_dropped(case: Case, wanted: Wanted, allowed: str) -> bool:
    """Returns whether Lamina's kernels for GPUs draw the random numbers of an attention with dropout."""
    if case.dtype not in HALF or max(case.size, case.values) > MOST or case.trains_mask:
        return False
    vendor = preferred(case, allowed=allowed) if wanted.by_torch else None
    positive = wanted.scale is not None and wanted.scale > 0
    return positive and 0 < wanted.dropout <= 1 and (vendor is None or not vendor.keeps_dropout)


def _is_alone(case: Case) -> bool:
    """Returns whether Lamina's kernels for GPUs compute an attention, with a mask in any dtype."""
    return case.dtype in HALF and max(case.size, case.values) <= MOST and not case.trains_mask


def is_fast(query: Tensor, values: Tensor) -> bool:
    """Returns whether fused kernels of GPUs take less time than products and a softmax, for heads of these sizes."""
    longest = max(query.shape[-1], values.shape[-1])
    return longest <= (MOST if query.dtype in _HALF else _IN_REGISTERS)


def fit_into_place(attention: fx.Node, graft: Graft, written: set[int] | None) -> dict[fx.Node, Tensor] | None:
    """Fits `attention` to the place of the graft's node, or a copy of it in eager's layout where its own cannot be used.

    Returns the fake values that change with it; None if neither can replace the node.
    """
    for fit in (lambda: attention, lambda: _in_layout_of(graft, attention)):
        fitted = value(fit())
        changed = None if fitted is None else takes_layout(graft.node, fitted, graft.fake, written)
        if changed is not None:
            return changed
    return None


def _in_layout_of(graft: Graft, attention: fx.Node) -> fx.Node:
    """Emits a copy of `attention` whose dimensions have the order in memory that they have in the graft's node."""
    eager = value(graft.node)
    assert eager is not None
    order = sorted(range(eager.dim()), key=[*map(typical, sizes(eager.stride()))].__getitem__, reverse=True)
    in_order = order == sorted(order)
    outermost_first = attention if in_order else graft.call(aten.permute.default, attention, order)
    copy = graft.call(aten.clone.default, outermost_first, memory_format=torch.contiguous_format)
    return copy if in_order else graft.call(aten.permute.default, copy, [order.index(i) for i in range(len(order))])


def depends_on(node: fx.Node, trained: Collection[fx.Node]) -> bool:
    """Returns whether a node is one of `trained` or computed from one."""
    return any(at in trained for at in reachable([node], lambda n: n.all_input_nodes))


def positional_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Returns query, key, value, mask, the dropout probability and whether attention is causal, with defaults filled in."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    defaults = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False}
    return tuple({**defaults, **given}[name] for name in names)
