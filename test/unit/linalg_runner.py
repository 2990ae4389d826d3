"""Runs a linalg-level module through upstream's bufferization and loops: a slow, independent executor to test the importer with."""

import ctypes
from collections.abc import Sequence

import numpy as np
import torch
from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager
from torch_mlir.runtime import get_ranked_memref_descriptor

from lamina.passes.simplify.demote_f64 import remove_calls

_PIPELINE = (
    "builtin.module(func.func(linalg-generalize-named-ops,tm-tensor-bufferize),"
    "one-shot-bufferize{bufferize-function-boundaries copy-before-write function-boundary-type-conversion=identity-layout-map},"
    "buffer-results-to-out-params{modify-public-functions},func.func(tm-tensor-to-loops,convert-linalg-to-loops),"
    "expand-strided-metadata,lower-affine,"
    "func.func(math-expand-ops{ops=powf,fpowi,rsqrt,roundeven}),convert-math-to-libm,"
    "func.func(arith-emulate-unsupported-floats{source-types=bf16 target-type=f32},arith-expand{include-bf16=true}),"
    "convert-scf-to-cf,convert-cf-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,"
    "finalize-memref-to-llvm,convert-func-to-llvm,convert-index-to-llvm,reconcile-unrealized-casts)"
)


def run(module: ir.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the results of @main on contiguous copies of `inputs`."""
    ctx = module.context
    with ctx, ir.Location.unknown():
        main = next(op for op in module.body.operations if op.attributes["sym_name"].value == "main")
        results = [ir.RankedTensorType(t) for t in ir.FunctionType(main.attributes["function_type"].value).results]
        outs = [torch.empty(list(t.shape), dtype=_DTYPES[str(t.element_type)]) for t in results]
        main.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        remove_calls(module)
        PassManager.parse(_PIPELINE).run(module.operation)
        engine = ExecutionEngine(module, opt_level=1)
    arrays = [_array(t.contiguous()) for t in (*inputs, *outs)]
    pointers = [ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(a))) for a in arrays]
    engine.invoke("main", *pointers)
    return outs


_DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "i1": torch.bool,
}  # fmt: skip


def _array(t: torch.Tensor) -> np.ndarray:
    """Returns the tensor's memory as an array of a numpy type of the same width."""
    return (t.view(torch.int16) if t.dtype in (torch.bfloat16, torch.float16) else t).numpy()
