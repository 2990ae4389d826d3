"""The levels a model goes through, and the pipeline that leads to each from the one before.

    torch    what the importer makes of the FX graph
    linalg   linalg, tensor, arith and math on static shapes; external calls are calls of private functions
    graph    every computation in graph.group or graph.extern
    plan     buffers in one arena and steps in order; kernels as functions on tensors
    tile     kernels as block programs on memrefs
    llvm     kernels in the llvm dialect

The last way is the target's own (its lowering pipeline) and not here.
"""

from lamina.core.errors import CompileError

# torchdynamo-export-to-torch-backend-pipeline, then torch-backend-to-linalg-on-tensors-backend-pipeline spelled out (torch-mlir,
# TorchConversion/Transforms/Passes.cpp) without its quantisation passes and without its last, which rejects calls.
TORCH_TO_LINALG = (
    "torchdynamo-export-to-torch-backend-pipeline,"
    "func.func(torch-restructure-non-constant-axes,convert-torch-to-tmtensor,canonicalize,convert-torch-to-linalg,"
    "canonicalize,convert-torch-to-scf,convert-torch-to-arith,convert-torch-to-tensor),convert-torch-conversion-to-mlprogram,"
    "func.func(memref-expand,canonicalize,resolve-shaped-type-result-dims,cse),torch-func-backend-type-conversion,"
    "func.func(canonicalize,torch-finalizing-backend-type-conversion)"
)
LINALG_TO_GRAPH = (
    "lamina-random-bits,lamina-demote-f64,lamina-extern,lamina-fold-constants{fold},lamina-simplify{simplify},lamina-merge-views,"
    "lamina-rewrite-patterns,lamina-cse,lamina-dce,{layout}lamina-split-reductions{split},lamina-fuse{fuse}"
)
# A GPU has room for thousands of programs: enough of them for every multiprocessor to have memory accesses in flight.
# cuDNN's tensor cores want channels last, and so do packed weights on a CPU; others only where oneDNN is slow without.
_LAYOUT = {
    "nvvm": "lamina-layout{types=f16,bf16,tf32 packed=false grouped=false transposed=true gradients=true copied=true},",
    "cpu": "lamina-layout{slow=true packed=false transposed=true copied=true},",
}
_FUSE = {"nvvm": "{balance=16}"}  # an H200 does 67e12 operations in f32 while it moves 4.3e12 bytes
_SPLIT = {"nvvm": "{rows=32 columns=131072 parts=1024 programs=1056}"}
_CHOOSE = ("lamina-choose-attention", "lamina-choose", "lamina-depthwise")
_CHOOSE_CPU = ("lamina-depthwise",)

LEVELS = ("torch", "linalg", "graph", "plan", "tile")
_STEPS = {
    "linalg": TORCH_TO_LINALG,
    "graph": LINALG_TO_GRAPH,
    "plan": "{choose}lamina-plan",
    "tile": "lamina-tile{{target={target}{rounding}}}{horizontal}",
}


def pipeline(
    start: str,
    end: str,
    *,
    target: str = "cpu",
    fast_math: tuple[str, ...] = (),
    round_intermediates: bool = False,
    fold_bytes: int = 0,
    freeze_weights: bool = False,
) -> str:
    """The pipeline from level `start` to level `end`, "builtin.module()" when they are one. `fold_bytes`: constants up to this
    size are folded even where they are larger than the pass's own bound; for the rest see Options."""
    for level in (start, end):
        if level not in LEVELS:
            raise CompileError(f"no level is called {level!r}", remedy=f"levels: {', '.join(LEVELS)}")
    simplify = f"{{fast-math={','.join(fast_math)}}}" if fast_math else ""
    way = LEVELS[LEVELS.index(start) + 1 : LEVELS.index(end) + 1]
    fold = f"{{max-bytes={fold_bytes}}}" if fold_bytes else ""
    rounding = " round-intermediates=true" if round_intermediates else ""
    split = _SPLIT.get(target.partition(":")[0], "")
    kind = target.partition(":")[0]
    layout = "lamina-layout," if kind == "cpu" and freeze_weights else _LAYOUT[kind]
    fuse = _FUSE.get(target.partition(":")[0], "")
    options = {"target": target, "simplify": simplify, "fold": fold, "rounding": rounding, "split": split, "layout": layout}
    options["fuse"] = fuse
    steps_to_plan = _CHOOSE if kind == "nvvm" else _CHOOSE_CPU
    options["choose"] = "".join(f"{name}{{target={target}}}," for name in steps_to_plan)
    if target.startswith("nvvm"):
        options["choose"] += f"lamina-hook{'{round-intermediates=true}' if round_intermediates else ''},"
    options["horizontal"] = f",lamina-horizontal{{target={target}}}" if target.startswith("nvvm") else ""
    steps = [_STEPS[level].format(**options) for level in way]
    return f"builtin.module({','.join(steps)})"
