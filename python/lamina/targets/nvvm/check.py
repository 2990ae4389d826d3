"""Finds ops that would end the process in the translation to LLVM IR or in LLVM's backend, and reports them as errors."""

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.passes.ir.locations import where

# LLVM intrinsics without NVPTX instructions or library functions: LLVM aborts on them
_NO_CODE = {
    f"llvm.intr.{name}"
    for name in (
        "acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "exp10", "exp2", "log", "log10", "log2", "pow", "powi", "sin",
        "sincos", "sinh", "tan", "tanh",
    )
}  # fmt: skip
ASSERT = "__assertfail"  # provided by the driver: it prints a message and ends the launch, as an assert in CUDA C++ does
_TENSOR_CORE = ("nvvm.wgmma.", "nvvm.setmaxregister", "nvvm.tcgen05.")
_CLUSTER = ("nvvm.cluster", "nvvm.mapa")


def check_converted(module: ir.Operation, gpu: Gpu) -> None:
    """Raises CompileError for the first op of a gpu.module that has no translation or no code, or that this GPU does not
    support."""
    found: list[tuple[ir.Operation, str, str]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name.startswith("llvm."):
            if name in _NO_CODE:
                found.append((op, f"{name} has no GPU code", "lamina-expand-math{target=nvvm} must run before"))
            elif name == "llvm.func" and not op.regions[0].blocks and not _is_known(op):
                symbol = ir.StringAttr(op.attributes["sym_name"]).value
                found.append((op, f"{symbol} is a function of a library, and no GPU has it", "lower the op that calls it before"))
        elif name.startswith("nvvm."):
            found.extend(_misplaced(op, gpu))
        elif name not in ("gpu.module", "builtin.module"):
            found.append((op, f"{name} did not lower to NVVM: {_short(op)}", "see lamina-gpu-to-nvvm for what it takes"))
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op, message, remedy in found:
        raise CompileError(message, where=where(op.location), remedy=remedy)


def _misplaced(op: ir.Operation, gpu: Gpu) -> list[tuple[ir.Operation, str, str]]:
    if op.name.startswith(_TENSOR_CORE) and not gpu.arch.endswith("a"):
        return [(op, f"{op.name} needs an architecture of one chip, not {gpu.arch}", f"compile for nvvm:{gpu.arch}a")]
    if op.name.startswith(_CLUSTER) and gpu.capability < 90:
        return [(op, f"{op.name} needs clusters, which {gpu.arch} has not", "compile for nvvm:sm_90 or newer")]
    return []


def _is_known(op: ir.Operation) -> bool:
    symbol: str = ir.StringAttr(op.attributes["sym_name"]).value
    return symbol.startswith("llvm.") or symbol == ASSERT


def _short(op: ir.Operation) -> str:
    return str(op).split("\n")[0][:200]
