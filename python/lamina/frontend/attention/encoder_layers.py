"""Expands the fused calls that nn.TransformerEncoderLayer and nn.MultiheadAttention make in eval mode without gradients.

torch has one kernel each for a whole layer and for its attention. Expanded into products, attention and norms, they compile like
those of any other Transformer. Sources: aten/src/ATen/native/transformers/{transformer,attention}.cpp.
"""

import operator
from typing import Any

import torch
from torch import Tensor, fx

from ..fx.reading import name, value
from ..fx.rewriter import Graft, fake_mode
from .calls import SDPA

aten = torch.ops.aten

_LAYER, _ATTENTION = "_transformer_encoder_layer_fwd", "_native_multi_head_attention"
_KEY_PADDING = 1  # a mask of (batch, keys); others have the shape of scores, or of their last two dimensions


def open_layers(gm: fx.GraphModule) -> int:
    """Expands such calls of a captured graph in place. Returns how many."""
    calls = [node for node in gm.graph.nodes if name(node) in (_LAYER, _ATTENTION)]
    fake = fake_mode(gm) if calls else None
    if fake is None:
        return 0
    opened = [
        node
        for node in calls
        if (_layer if name(node) == _LAYER else _attention_alone)(Graft(node, (), fake), _named_arguments(node))
    ]
    if opened:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return len(opened)


def _named_arguments(node: fx.Node) -> dict[str, Any]:
    """Returns the arguments of a call by the names of ATen's schema."""
    arguments = getattr(aten, name(node)).default._schema.arguments
    given = {a.name: a.default_value for a in arguments if a.has_default_value()}
    return given | dict(zip([a.name for a in arguments], node.args, strict=False)) | dict(node.kwargs)


def _layer(graft: Graft, args: dict[str, Any]) -> bool:
    """Replaces a layer with attention and a multilayer perceptron, each with a residual sum and a norm before or after."""

    def norm(x: fx.Node, number: int) -> fx.Node:
        """Inserts the layer norm of this number."""
        weights = args[f"norm_weight_{number}"], args[f"norm_bias_{number}"]
        return graft.call(aten.layer_norm.default, x, [args["embed_dim"]], *weights, args["eps"])

    first, source = args["norm_first"], args["src"]
    x = norm(source, 1) if first else source
    x, _ = _attend(graft, {**args, "query": x, "key": x, "value": x, "num_head": args["num_heads"], "need_weights": False})
    x = graft.call(aten.add.Tensor, x, source)
    middle = x if first else norm(x, 1)
    x = graft.call(aten.linear.default, norm(middle, 2) if first else middle, args["ffn_weight_1"], args["ffn_bias_1"])
    x = graft.call((aten.gelu if args["use_gelu"] else aten.relu).default, x)
    x = graft.call(aten.linear.default, x, args["ffn_weight_2"], args["ffn_bias_2"])
    x = graft.call(aten.add.Tensor, x, middle)
    graft.node.replace_all_uses_with(x if first else norm(x, 2))
    return True


def _attention_alone(graft: Graft, args: dict[str, Any]) -> bool:
    """Replaces a call of attention and returns whether it did: its weights may be read only where they were asked for."""
    node = graft.node
    parts = [user for user in node.users if user.target is operator.getitem]
    read = {user.args[1] for user in parts if user.users}
    if len(parts) < len(node.users) or (1 in read and not args["need_weights"]):
        return False
    results = _attend(graft, {**args, "need_weights": 1 in read})
    for part in parts:
        if part.users:
            part.replace_all_uses_with(results[part.args[1]])
    return True


def _attend(graft: Graft, args: dict[str, Any]) -> tuple[fx.Node, fx.Node | None]:
    """Returns the result of attention between its projections and, where they are needed, its weights."""
    heads, size = args["num_head"], args["embed_dim"]
    query, key, values = (_headed(graft, x, heads) for x in _projected(graft, args, size))
    bias = None if args["mask"] is None else _bias(graft, args["mask"], args["mask_type"], query)
    weights = None
    if args["need_weights"]:
        scores = graft.call(aten.matmul.default, query, graft.call(aten.transpose.int, key, -1, -2))
        scores = graft.call(aten.mul.Tensor, scores, (size // heads) ** -0.5)
        scores = scores if bias is None else graft.call(aten.add.Tensor, scores, bias)
        weights = graft.call(aten.softmax.int, scores, -1)
        result = graft.call(aten.matmul.default, weights, values)
        weights = graft.call(aten.mean.dim, weights, [1]) if args["average_attn_weights"] else weights
    else:
        result = graft.call(SDPA, query, key, values, bias)
    joined = graft.call(aten.flatten.using_ints, graft.call(aten.transpose.int, result, 1, 2), 2)
    return graft.call(aten.linear.default, joined, args["proj_weight"], args["proj_bias"]), weights


def _projected(graft: Graft, args: dict[str, Any], size: int) -> list[fx.Node]:
    """Computes query, key and value; by one product if all three come from one tensor."""
    sources = [args["query"], args["key"], args["value"]]
    weight, bias = args["qkv_weight"], args["qkv_bias"]
    if sources[0] is sources[1] is sources[2]:
        whole = graft.call(aten.linear.default, sources[0], weight, bias)
        return [graft.call(aten.slice.Tensor, whole, -1, i * size, (i + 1) * size) for i in range(3)]
    parts = [[graft.call(aten.slice.Tensor, t, 0, i * size, (i + 1) * size) for t in (weight, bias)] for i in range(3)]
    return [graft.call(aten.linear.default, x, *part) for x, part in zip(sources, parts, strict=True)]


def _headed(graft: Graft, x: fx.Node, heads: int) -> fx.Node:
    """Turns (batch, length, heads * size) into (batch, heads, length, size)."""
    return graft.call(aten.transpose.int, graft.call(aten.unflatten.int, x, -1, [heads, -1]), 1, 2)


def _bias(graft: Graft, mask: fx.Node, kind: int | None, like: fx.Node) -> fx.Node:
    """Returns the tensor to add to scores: -inf where the mask, of any dtype, is not zero.

    Rows that are masked whole get NaN, as in torch's kernels.
    """
    queries = value(like)
    assert isinstance(queries, Tensor)
    hidden = graft.call(aten.ne.Scalar, mask, 0)
    if kind == _KEY_PADDING:
        hidden = graft.call(aten.unsqueeze.default, graft.call(aten.unsqueeze.default, hidden, 1), 1)
    whole = graft.call(aten.all.dim, hidden, -1, True)
    shown = graft.call(aten.scalar_tensor.default, 0.0, dtype=queries.dtype, device=queries.device)
    bias = graft.call(aten.where.ScalarSelf, hidden, float("-inf"), shown)
    return graft.call(aten.where.ScalarSelf, whole, float("nan"), bias)
