"""Attention on GPUs, kept whole: torch's decomposition sends a masked one to products and a softmax in device memory.

A mask that depends on nothing but shapes (transformers' models build theirs of arange and comparisons) is computed at compile time.
Where it lets everything through it is dropped, where it is causal it becomes the flag: fused kernels then skip what it hides.
What is left goes to the fused kernel that eager would take for these shapes.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .interface import attribute

aten = torch.ops.aten
ATTENTION = aten.scaled_dot_product_attention.default
_FLASH, _EFFICIENT, _CUDNN = 1, 2, 3  # torch.nn.attention.SDPBackend
_NODES = 256  # that a mask may be made of, to be computed here
_HIDDEN = -1e4  # a bias from which on a position has no weight, in any float type


def attend(node: fx.Node, gm: fx.GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """The result of `node`, a call of ATTENTION with these (fake) tensors, by a fused kernel; None where torch has none for it, or
    the tensors are not on a GPU."""
    query, key, value, mask, dropout, causal = _positional(args, kwargs)
    scale, grouped = kwargs.get("scale"), bool(kwargs.get("enable_gqa", False))
    if query.device.type != "cuda" or query.dim() != 4 or dropout or grouped:
        return None
    if mask is not None and not causal:
        mask_node = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
        kind = meaning(concrete(mask_node, gm)) if isinstance(mask_node, fx.Node) else "bias"
        mask, causal = (mask, False) if kind == "bias" else (None, kind == "causal" and query.shape[2] > 1)
    backend = _choice(query, key, value, mask, causal, scale)
    bias = None if mask is None else _bias(mask, query, key)
    if backend == _FLASH and mask is None:
        return aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, False, scale=scale)[0]
    if backend == _CUDNN:
        return aten._scaled_dot_product_cudnn_attention(query, key, value, bias, False, 0.0, causal, False, scale=scale)[0]
    if backend == _EFFICIENT and (bias is None or bias.shape[-1] % 8 == 0):
        return aten._scaled_dot_product_efficient_attention(query, key, value, bias, False, 0.0, causal, scale=scale)[0]
    return None


def _positional(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    defaults = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False}
    return tuple({**defaults, **given}[name] for name in names)


def concrete(node: fx.Node, gm: fx.GraphModule) -> Tensor | None:
    """The value of a node that depends on no argument of the graph."""
    needed: dict[fx.Node, None] = {}
    stack = [node]
    while stack:
        n = stack.pop()
        if n in needed:
            continue
        if n.op not in ("call_function", "get_attr") or len(needed) == _NODES:
            return None
        needed[n] = None
        stack += n.all_input_nodes
    values: dict[fx.Node, Any] = {}
    with unset_fake_temporarily(), torch.no_grad():
        for n in gm.graph.nodes:
            if n not in needed:
                continue
            if n.op == "get_attr":
                values[n] = attribute(gm, str(n.target))
                continue
            target: Callable[..., Any] = n.target  # type: ignore[assignment]
            values[n] = target(*fx.map_arg(n.args, values.__getitem__), **fx.map_arg(n.kwargs, values.__getitem__))
    found = values[node]
    return found if isinstance(found, Tensor) else None


def meaning(mask: Tensor | None) -> str:
    """ "nothing" for a mask that hides nothing, "causal" for one that hides exactly what comes later, else "bias"."""
    if mask is None or mask.dim() < 2 or not mask.numel():
        return "bias"
    if mask.dtype is torch.bool:
        seen = mask
    elif bool(((mask == 0) | (mask <= _HIDDEN)).all()):
        seen = mask == 0
    else:
        return "bias"
    if bool(seen.all()):
        return "nothing"
    later = torch.ones(seen.shape[-2:], dtype=torch.bool, device=seen.device).tril()
    return "causal" if seen.shape[-1] == seen.shape[-2] and bool((seen == later).all()) else "bias"


def _choice(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> int:
    """What eager would take, asked with tensors that are there."""
    with unset_fake_temporarily(), torch.no_grad():
        real = [
            None if t is None else torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
            for t in (query, key, value, mask)
        ]
        return int(torch._fused_sdp_choice(*real, 0.0, causal, scale=scale))  # type: ignore[arg-type]


def _bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """The mask as what is added to the scores, for every batch and head."""
    if mask.dtype is torch.bool:
        nothing = torch.zeros((), dtype=query.dtype, device=query.device)
        mask = torch.where(mask, nothing, torch.full_like(nothing, -torch.inf))
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
