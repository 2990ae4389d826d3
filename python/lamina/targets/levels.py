"""The levels of lowering, and the pass pipeline that leads from each to the next.

    torch    the importer's output for the FX graph
    linalg   linalg, tensor, arith and math; external calls are calls of private functions
    graph    every computation in graph.group or graph.extern
    plan     buffers in one arena and steps in order; kernels as functions on tensors
    tile     kernels as block programs on memrefs
    llvm     kernels in the llvm dialect

The last pipeline, from tile down, belongs to the target (its lowering pipeline) and is not here.
"""

from lamina.core.errors import CompileError
from lamina.core.target import Target

from . import registry
from .steps import options

# torchdynamo-export-to-torch-backend-pipeline, then torch-backend-to-linalg-on-tensors-backend-pipeline spelled out (torch-mlir,
# TorchConversion/Transforms/Passes.cpp) without its quantization passes and without its last, which rejects calls.
TORCH_TO_LINALG = (
    "torchdynamo-export-to-torch-backend-pipeline,"
    "func.func(torch-restructure-non-constant-axes,convert-torch-to-tmtensor,canonicalize,convert-torch-to-linalg,"
    "canonicalize,convert-torch-to-scf,convert-torch-to-arith,convert-torch-to-tensor),convert-torch-conversion-to-mlprogram,"
    "func.func(memref-expand,canonicalize,resolve-shaped-type-result-dims,cse),torch-func-backend-type-conversion,"
    "func.func(canonicalize,torch-finalizing-backend-type-conversion)"
)
LEVELS = ("torch", "linalg", "graph", "plan", "tile")


def pipeline(
    start: str,
    end: str,
    *,
    target: str | Target = "cpu",
    fast_math: tuple[str, ...] = (),
    round_intermediates: bool = False,
    fold_bytes: int = 0,
    freeze_weights: bool = False,
    wide_sizes: bool = False,
) -> str:
    """Writes the pipeline from level `start` to level `end`, "builtin.module()" when they are the same.

    fold_bytes  constants up to this size are folded even where they are larger than the pass's own bound
    The other arguments are as in Options. Raises CompileError for an unknown level or target.
    """
    for level in (start, end):
        if level not in LEVELS:
            raise CompileError(f"no level is called {level!r}", remedy=f"levels: {', '.join(LEVELS)}")
    goal = Target.parse(target).machine
    steps = registry.steps(goal, round_intermediates=round_intermediates, freeze_weights=freeze_weights, wide_sizes=wide_sizes)
    graph = (
        "lamina-name-sizes",
        "lamina-import-ops",
        "lamina-demote-f64",
        "lamina-extern",
        *steps.forms,
        f"lamina-fold-constants{options(max_bytes=fold_bytes)}",
        f"lamina-simplify{options(fast_math=','.join(fast_math))}",
        "lamina-merge-views",
        "lamina-rewrite-patterns",
        "lamina-cse",
        "lamina-dce",
        steps.layout,
        f"lamina-split-reductions{steps.split}",
        "lamina-scatter",
        f"lamina-fuse{steps.fuse}",
    )
    to = {
        "linalg": (TORCH_TO_LINALG,),
        "graph": graph,
        "plan": (*steps.choose, "lamina-plan", *steps.ranges),
        "tile": (f"lamina-tile{steps.tile}", *steps.launch),
    }
    way = LEVELS[LEVELS.index(start) + 1 : LEVELS.index(end) + 1]
    return f"builtin.module({','.join(step for level in way for step in to[level])})"
