"""Every Lamina pass by name. Modules are imported when a pass is asked for, so that a pipeline pays only for what it names."""

from difflib import get_close_matches
from importlib import import_module

from .base import Pass

PASSES: dict[str, str] = {
    "lamina-random-bits": "lamina.passes.random_bits:RandomBits",
    "lamina-extern": "lamina.passes.extern:ExternPass",
    "lamina-rewrite-patterns": "lamina.passes.rewrite_patterns:RewritePatterns",
    "lamina-demote-f64": "lamina.passes.demote_f64:DemoteF64",
    "lamina-simplify": "lamina.passes.simplify:Simplify",
    "lamina-merge-views": "lamina.passes.merge_views:MergeViews",
    "lamina-fold-constants": "lamina.passes.fold_constants:FoldConstants",
    "lamina-cse": "lamina.passes.cse:Cse",
    "lamina-dce": "lamina.passes.dce:Dce",
    "lamina-split-reductions": "lamina.passes.split_reductions:SplitReductions",
    "lamina-fuse": "lamina.passes.fuse:Fuse",
    "lamina-layout": "lamina.passes.layout:ChooseLayout",
    "lamina-choose-attention": "lamina.passes.choose_attention:ChooseAttention",
    "lamina-choose": "lamina.passes.choose:Choose",
    "lamina-depthwise": "lamina.passes.depthwise:Depthwise",
    "lamina-hook": "lamina.passes.hook:Hook",
    "lamina-plan": "lamina.passes.plan:Plan",
    "lamina-tile": "lamina.passes.tile:Tile",
    "lamina-horizontal": "lamina.passes.horizontal:Horizontal",
    "lamina-by-triton": "lamina.passes.by_triton:ByTriton",
    "lamina-expand-math": "lamina.passes.expand_math:ExpandMath",
    "lamina-distribute": "lamina.passes.distribute:Distribute",
    "lamina-gpu-to-nvvm": "lamina.passes.gpu_to_nvvm:GpuToNvvm",
    "lamina-tile-to-cpu": "lamina.passes.tile_to_cpu:TileToCpu",
}


def load(name: str) -> type[Pass]:
    """The class of a Lamina pass; KeyError for a name that is not ours."""
    module, cls = PASSES[name].split(":")
    found: type[Pass] = getattr(import_module(module), cls)
    if found.name != name:
        raise TypeError(f"{PASSES[name]} calls itself {found.name!r}, the registry {name!r}")
    return found


def nearest(name: str, known: list[str]) -> str:
    """ "The text ", did you mean 'x' or 'y'?" for a misspelt name, or "" when nothing is near."""
    near = get_close_matches(name, known, 3, 0.6)
    return f", did you mean {' or '.join(map(repr, near))}?" if near else ""
