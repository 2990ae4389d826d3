"""Finds ops that would end the process in the translation to LLVM IR or in LLVM's backend, and reports them as errors."""

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.passes.ir.locations import where
from lamina.passes.ir.reading import name_of, nested

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
    for op in nested(module):
        if why := _why_not(op, gpu):
            message, remedy = why
            raise CompileError(message, where=where(op.location), remedy=remedy)


def _why_not(op: ir.Operation, gpu: Gpu) -> tuple[str, str] | None:
    """Returns what is wrong with an op, and the remedy."""
    name = op.name
    if name in _NO_CODE:
        return f"{name} has no GPU code", "lamina-expand-math{target=nvvm} must run before"
    if name == "llvm.func" and not op.regions[0].blocks and not _is_known(op):
        symbol = name_of(op)
        return f"{symbol} is a function of a library, and no GPU has it", "lower the op that calls it before"
    if name.startswith(_TENSOR_CORE) and not gpu.arch.endswith("a"):
        return f"{name} needs an architecture of one chip, not {gpu.arch}", f"compile for nvvm:{gpu.arch}a"
    if name.startswith(_CLUSTER) and gpu.capability < 90:
        return f"{name} needs clusters, which {gpu.arch} has not", "compile for nvvm:sm_90 or newer"
    if not name.startswith(("llvm.", "nvvm.", "gpu.module", "builtin.module")):
        return f"{name} did not lower to NVVM: {str(op).splitlines()[0][:200]}", "see lamina-gpu-to-nvvm for what it takes"
    return None


def _is_known(op: ir.Operation) -> bool:
    symbol: str = name_of(op)
    return symbol.startswith("llvm.") or symbol == ASSERT
