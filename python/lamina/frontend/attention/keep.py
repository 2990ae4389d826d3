"""Keeps attention on GPUs whole: torch's decomposition turns masked attention into products and a softmax in device memory.

A mask that depends on nothing but shapes (transformers' models build theirs of arange and comparisons) is computed at compile time.
A mask that hides nothing is dropped, and a causal one becomes the flag, so that fused kernels skip what it hides. All other
attention goes to the fused kernel that eager would choose for these shapes. Keys and values that several heads share, by
`enable_gqa` or by repeated heads, stay shared where that kernel supports it.
"""

from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

from lamina.schedules.attention_cost import MOST

from ..fx.known import concrete
from .heads import repeated, share_heads

aten = torch.ops.aten
ATTENTION = aten.scaled_dot_product_attention.default
FUNCTIONS = (F.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention, ATTENTION)
_FLASH, _EFFICIENT, _CUDNN = 1, 2, 3  # torch.nn.attention.SDPBackend
FAST = (_FLASH, _CUDNN)
"""torch's kernels that are fast in both passes."""
_IN_REGISTERS = 128
"""The largest head size for which torch's memory-efficient kernel keeps a block's results in registers; longer ones it writes and
reads again for each block of keys. With heads of 512 elements, a model of two attentions and six products took 1.86 times as long
on an H200 as torch.compile with products and softmaxes."""
_HEAD = 8  # the flash kernel's head sizes are multiples of this
_HIDDEN = -1e4  # a bias at or below which a position has no weight, in any float type


def keep_whole(gm: fx.GraphModule) -> None:
    """Replaces, in place, attention in a graph that Dynamo captured by a call that AOTAutograd's trace without gradients keeps
    whole."""
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target in FUNCTIONS and is_on_gpu(node):
            kind = kind_of_mask(node, gm)
            share_heads(node)
            node.args = (kind, *node.args)
            node.target = whole
    gm.recompile()


def flag_masks(gm: fx.GraphModule) -> int:
    """Replaces, in place, known masks of attention that hide nothing, or just later positions, by the causal flag. Returns how
    many."""
    found = 0
    for node in gm.graph.nodes:
        if node.op != "call_function" or node.target not in FUNCTIONS:
            continue
        *tensors, mask, dropout, causal = positional(node.args, node.kwargs)
        kind = "bias" if causal or not isinstance(mask, fx.Node) else kind_of_mask(node, gm)
        if kind != "bias":
            rest = {name: arg for name, arg in node.kwargs.items() if name in ("scale", "enable_gqa")}
            node.args, node.kwargs = (*tensors, None, dropout, kind == "causal"), rest
            found += 1
    return found


def is_on_gpu(node: fx.Node) -> bool:
    """Returns whether an attention node is on a GPU, where its mask is worth reading; on the CPU torch's own decomposition
    stays."""
    query = node.args[0] if node.args else node.kwargs["query"]
    value = query.meta.get("example_value", query.meta.get("val")) if isinstance(query, fx.Node) else None
    return value.device.type == "cuda" if isinstance(value, Tensor) else torch.cuda.is_available()


def whole(kind: str, *args: Any, **kwargs: Any) -> Tensor:
    """Computes scaled_dot_product_attention by `attend` where that has a kernel, else by torch's function."""
    found = attend(kind, args, kwargs)
    return F.scaled_dot_product_attention(*args, **kwargs) if found is None else found


def kind_of_mask(node: fx.Node, gm: fx.GraphModule) -> str:
    """Returns the `meaning` of an attention node's mask; "bias" where it has none."""
    mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
    with _disable_current_modes(), torch.no_grad():  # the graph may be run for a trace, in which tensors have no values
        return meaning(concrete(mask, gm, node)) if isinstance(mask, fx.Node) else "bias"


def attend(kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Emits attention of these (fake) tensors as a call of a fused kernel. None where torch has none for it, or the tensors are not
    on a GPU. kind: of the mask, as `meaning` returns it."""
    query, key, value, mask, dropout, causal = positional(args, kwargs)
    scale, grouped = kwargs.get("scale"), bool(kwargs.get("enable_gqa", False))
    if query.device.type != "cuda" or query.dim() != 4 or dropout:
        return None
    if mask is not None and not causal and kind != "bias":
        mask, causal = None, kind == "causal" and query.shape[2] > 1
    backend = choice(query, key, value, mask, causal, scale, grouped)
    if grouped and (backend not in (_FLASH, _CUDNN) or mask is not None):
        key, value = (repeated(t, query.shape[1]) for t in (key, value))
        backend = choice(query, key, value, mask, causal, scale, False)
    bias = None if mask is None else _bias(mask, query, key)
    if backend == _FLASH and mask is None:
        return _flash(query, key, value, causal, scale)
    if backend == _CUDNN:
        return aten._scaled_dot_product_cudnn_attention(query, key, value, bias, False, 0.0, causal, False, scale=scale)[0]
    if backend == _EFFICIENT:
        return aten._scaled_dot_product_efficient_attention(query, key, value, bias, False, 0.0, causal, scale=scale)[0]
    return None


def _flash(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float | None) -> Tensor:
    """Calls the flash kernel, which supports head sizes that are multiples of 8. Others are padded with zeros, as
    scaled_dot_product_attention does: the zeros change neither scores nor the elements of the result that are kept."""
    size = query.shape[-1]
    if missing := -size % _HEAD:
        scale = size**-0.5 if scale is None else scale
        query, key, value = (F.pad(t, (0, missing)) for t in (query, key, value))
    found: Tensor = aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, False, scale=scale)[0]
    return found.narrow(3, 0, size) if missing else found


def positional(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Returns query, key, value, mask, the dropout probability and whether attention is causal, with defaults filled in."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    defaults = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False}
    return tuple({**defaults, **given}[name] for name in names)


def meaning(mask: Tensor | None) -> str:
    """Returns "nothing" for a mask that hides nothing, "causal" for one that hides exactly the later positions, else "bias"."""
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


def choice(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float | None, grouped: bool,
    dropout: float = 0.0,
) -> int:  # fmt: skip
    """Returns the SDPBackend that eager would choose, asked with real tensors of these layouts."""
    with _disable_current_modes(), torch.no_grad():
        real = [
            None if t is None else torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
            for t in (query, key, value, mask)
        ]
        return int(torch._fused_sdp_choice(*real, dropout, causal, scale=scale, enable_gqa=grouped))  # type: ignore[arg-type]


def is_fast(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> bool:
    """Returns whether torch has a fused kernel for these that takes less time than products and a softmax, or Lamina has one."""
    backend = choice(query, key, value, mask, causal, scale, False)
    longest = max(query.shape[-1], value.shape[-1])
    has_own = value.dtype in (torch.float16, torch.bfloat16) and longest <= MOST
    return bool(backend) and (backend != _EFFICIENT or longest <= _IN_REGISTERS or has_own)


def _bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """The mask as a bias that is added to the scores, expanded to every batch and head."""
    if mask.dtype is torch.bool:
        nothing = torch.zeros((), dtype=query.dtype, device=query.device)
        mask = torch.where(mask, nothing, torch.full_like(nothing, -torch.inf))
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
