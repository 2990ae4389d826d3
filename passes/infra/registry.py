"""The registry of Lamina's passes. A pass's module is imported when it is loaded, so that a pipeline imports only the passes that
it names."""

from importlib import import_module

from .base import Pass

PASSES: dict[str, str] = {
    "lamina-name-sizes": "lamina.passes.simplify.name_sizes:NameSizes",
    "lamina-import-ops": "lamina.passes.simplify.import_ops:ImportOps",
    "lamina-extern": "lamina.passes.simplify.extern:ExternPass",
    "lamina-rewrite-patterns": "lamina.passes.simplify.rewrite_patterns:RewritePatterns",
    "lamina-demote-f64": "lamina.passes.simplify.demote_f64:DemoteF64",
    "lamina-simplify": "lamina.passes.simplify.simplify:Simplify",
    "lamina-merge-views": "lamina.passes.simplify.merge_views:MergeViews",
    "lamina-fold-constants": "lamina.passes.simplify.fold_constants:FoldConstants",
    "lamina-cse": "lamina.passes.simplify.cse:Cse",
    "lamina-dce": "lamina.passes.simplify.dce:Dce",
    "lamina-split-reductions": "lamina.passes.fusion.reductions.split_reductions:SplitReductions",
    "lamina-scatter": "lamina.passes.fusion.scatter:ScatterPass",
    "lamina-fuse": "lamina.passes.fusion.fuse:Fuse",
    "lamina-convolution-forms": "lamina.passes.families.conv.convolution_forms:ConvolutionForms",
    "lamina-pad-products": "lamina.passes.families.gemm.pad_products:PadProducts",
    "lamina-layout": "lamina.passes.families.conv.layout:ChooseLayout",
    "lamina-select-kernels": "lamina.passes.families.select:SelectKernels",
    "lamina-vendor-calls": "lamina.passes.families.vendor_calls:VendorCalls",
    "lamina-depthwise": "lamina.passes.families.conv.depthwise_cpu:Depthwise",
    "lamina-plan": "lamina.passes.plan.plan:PlanPass",
    "lamina-size-ranges": "lamina.passes.tile.ranges.size_ranges:SizeRanges",
    "lamina-tile": "lamina.passes.tile.tile:TilePass",
    "lamina-horizontal": "lamina.passes.horizontal.horizontal:Horizontal",
    "lamina-start-early": "lamina.passes.tile.start_early:StartEarly",
    "lamina-route-to-triton": "lamina.passes.lower.route_to_triton:RouteToTriton",
    "lamina-expand-math": "lamina.passes.lower.expand_math:ExpandMath",
    "lamina-distribute": "lamina.passes.lower.distribute:Distribute",
    "lamina-gpu-to-nvvm": "lamina.passes.lower.gpu_to_nvvm:GpuToNvvm",
    "lamina-tile-to-cpu": "lamina.passes.lower.tile_to_cpu:TileToCpu",
}


def load(name: str) -> type[Pass]:
    """Imports the class of a pass of Lamina. Raises KeyError for any other name."""
    module, cls = PASSES[name].split(":")
    found: type[Pass] = getattr(import_module(module), cls)
    if found.name != name:
        raise TypeError(f"{PASSES[name]} calls itself {found.name!r}, the registry {name!r}")
    return found
