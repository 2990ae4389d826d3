"""Replaces masks of attention that follow from shapes by the causal flag, or by nothing where they hide nothing."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import _disable_current_modes

from lamina.core.sizes import SizeLike, is_symbolic
from lamina.passes.families.attention.masks.meaning import HIDES, Meaning, of_values
from lamina.passes.families.attention.masks.positions import CAUSAL, Region

from ..fx.dtypes import CODES
from ..fx.known import concrete
from ..fx.reading import shape, value
from .calls import FUNCTIONS, positional
from .positions import Two, place

_HALF = (torch.float16, torch.bfloat16)


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


def kind_of_mask(node: fx.Node, gm: fx.GraphModule) -> str:
    """Returns the `meaning` of an attention node's mask; "bias" where it has none."""
    mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
    if isinstance(mask, fx.Node) and is_symbolic(shape(mask)):
        found = place(mask, gm)
        hides = isinstance(found, Two) and _shows(found, value(mask))
        return form_of(hides, shape(mask)[-2:]) if isinstance(hides, Region) and len(shape(mask)) > 1 else "bias"
    with _disable_current_modes(), torch.no_grad():  # the graph may be run for a trace, in which tensors have no values
        return meaning(concrete(mask, gm, node)) if isinstance(mask, fx.Node) else "bias"


def _shows(found: Two, mask: Tensor | None) -> Region | None:
    """Returns where a mask shows keys; None where that is no region, or it does more."""
    if mask is not None and mask.dtype is torch.bool:
        return found.where(bool)
    plain = all(x == 0 or x <= HIDES for x in (found.inside, found.outside))
    return found.where(lambda x: x == 0) if plain else None


def form_of(region: Region, sizes: Sequence[SizeLike]) -> str:
    """Returns the `meaning` of a mask that shows a region. sizes: of queries and keys."""
    if not region.bounds:
        return "nothing"
    return "causal" if region == CAUSAL and sizes[0] == sizes[1] else "bias"


def meaning(mask: Tensor | None) -> str:
    """Returns "nothing" for a mask that hides nothing, "causal" for one that hides exactly the later positions, else "bias"."""
    if mask is None or mask.dim() < 2 or not mask.numel():
        return "bias"
    once = mask[tuple(slice(1) if step == 0 else slice(None) for step in mask.stride()[:-2])].cpu()
    values = once.reshape(-1, 1, *mask.shape[-2:]).to(torch.float32 if mask.dtype in _HALF else mask.dtype)
    of = replace(of_values(values.numpy(), "i1" if mask.dtype is torch.bool else CODES[mask.dtype]), hides=False)
    if of == Meaning():
        return "nothing"
    return "causal" if of == Meaning(causal=True) and mask.shape[-1] == mask.shape[-2] else "bias"
