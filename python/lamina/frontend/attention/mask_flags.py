"""Replaces attention masks that depend only on shapes by the causal flag, or drops them if they hide nothing. Other masks of
symbolic sizes that show a region of positions are computed from positions again, for every sequence and head at once."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import _disable_current_modes

from lamina.core.sizes import SizeLike, is_symbolic
from lamina.passes.families.attention.masks.meaning import HIDES, MaskMeaning, of_values
from lamina.passes.families.attention.masks.positions import CAUSAL, Region

from ..fx.dtypes import CODES
from ..fx.known import known_value
from ..fx.reading import shape, value
from ..fx.rewriter import Graft, fake_mode
from .calls import FUNCTIONS, positional_arguments
from .positions import TwoValued, read_positions

aten = torch.ops.aten
_HALF = (torch.float16, torch.bfloat16)
_FORMS = ((1, -1), (-1, 1), (0, 1), (0, -1))
"""Factors of the query's and the key's position in a bound: a key before or after the query's place, or before or after a fixed
one."""


def flag_masks(gm: fx.GraphModule) -> int:
    """Replaces, in place, known masks of attention that hide nothing, or just later positions, by the causal flag, and other
    regions of positions by masks of two dimensions. Returns how many."""
    changed, fake, small_masks = 0, fake_mode(gm), dict[fx.Node, fx.Node | None]()
    for node in gm.graph.nodes:
        if node.op != "call_function" or node.target not in FUNCTIONS:
            continue
        *tensors, mask, dropout, causal = positional_arguments(node.args, node.kwargs)
        kind = "bias" if causal or not isinstance(mask, fx.Node) else kind_of_mask(node, gm)
        if kind != "bias":
            rest = {name: arg for name, arg in node.kwargs.items() if name in ("scale", "enable_gqa")}
            node.args, node.kwargs = (*tensors, None, dropout, kind == "causal"), rest
            changed += 1
        elif isinstance(mask, fx.Node) and fake is not None and is_symbolic(shape(mask)):
            if mask not in small_masks:
                small_masks[mask] = _anew(mask, gm, Graft(node, (), fake))
            if (other := small_masks[mask]) is not None:
                node.replace_input_with(mask, other)
                changed += 1
    return changed


def _anew(mask: fx.Node, gm: fx.GraphModule, graft: Graft) -> fx.Node | None:
    """Computes a mask of two dimensions that has the same values; None if these depend on more than positions."""
    two_valued, val = read_positions(mask, gm), value(mask)
    if not isinstance(two_valued, TwoValued) or not two_valued.region.bounds or val is None or val.dim() < 2:
        return None
    if any(form not in _FORMS or not isinstance(b.constant, int) for b in two_valued.region.bounds for form in [(b.query, b.key)]):
        return None
    rows, columns = (graft.call(aten.arange.default, n, device=val.device) for n in shape(mask)[-2:])
    rows = graft.call(aten.unsqueeze.default, rows, 1)
    inside = None
    for b in two_valued.region.bounds:
        sign, relative = b.key, b.query != 0
        edge = graft.call(aten.add.Tensor, rows, -sign * b.constant) if relative else -sign * b.constant
        target = {(-1, True): aten.le.Tensor, (1, True): aten.ge.Tensor, (-1, False): aten.le.Scalar, (1, False): aten.ge.Scalar}
        part = graft.call(target[sign, relative], columns, edge)
        inside = part if inside is None else graft.call(aten.bitwise_and.Tensor, inside, part)
    if val.dtype is torch.bool:
        return inside if two_valued.inside else graft.call(aten.bitwise_not.default, inside)
    chosen = graft.call(aten.where.Scalar, inside, float(two_valued.inside), float(two_valued.outside))
    return chosen if val.dtype is torch.float32 else graft.call(aten._to_copy.default, chosen, dtype=val.dtype)


def kind_of_mask(node: fx.Node, gm: fx.GraphModule) -> str:
    """Returns the `mask_kind` of an attention node's mask; "bias" where it has none."""
    mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
    return known_form(mask, gm, node) if isinstance(mask, fx.Node) else "bias"


def known_form(mask: fx.Node, gm: fx.GraphModule, before: fx.Node) -> str:
    """Returns the `mask_kind` of a mask as it is before a node."""
    if is_symbolic(shape(mask)):
        found = read_positions(mask, gm)
        hides = isinstance(found, TwoValued) and _shows(found, value(mask))
        return form_of(hides, shape(mask)[-2:]) if isinstance(hides, Region) and len(shape(mask)) > 1 else "bias"
    with _disable_current_modes(), torch.no_grad():  # the graph may be run for a trace, in which tensors have no values
        return mask_kind(known_value(mask, gm, before))


def _shows(two_valued: TwoValued, mask: Tensor | None) -> Region | None:
    """Returns where a mask shows keys; None if that is not a region, or it does more."""
    if mask is not None and mask.dtype is torch.bool:
        return two_valued.where(bool)
    plain = all(x == 0 or x <= HIDES for x in (two_valued.inside, two_valued.outside))
    return two_valued.where(lambda x: x == 0) if plain else None


def form_of(region: Region, sizes: Sequence[SizeLike]) -> str:
    """Returns the `mask_kind` of a mask that shows a region. sizes: of queries and keys."""
    if not region.bounds:
        return "nothing"
    return "causal" if region == CAUSAL and sizes[0] == sizes[1] else "bias"


def mask_kind(mask: Tensor | None) -> str:
    """Returns "nothing" for a mask that hides nothing, "causal" for one that hides exactly the later positions, else "bias"."""
    if mask is None or mask.dim() < 2 or not mask.numel():
        return "bias"
    once = mask[tuple(slice(1) if step == 0 else slice(None) for step in mask.stride()[:-2])].cpu()
    values = once.reshape(-1, 1, *mask.shape[-2:]).to(torch.float32 if mask.dtype in _HALF else mask.dtype)
    meaning = replace(of_values(values.numpy(), "i1" if mask.dtype is torch.bool else CODES[mask.dtype]), only_hides=False)
    if meaning == MaskMeaning():
        return "nothing"
    return "causal" if meaning == MaskMeaning(causal=True) and mask.shape[-1] == mask.shape[-2] else "bias"
