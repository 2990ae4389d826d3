"""Compiles LLVM IR to PTX with the NVPTX backend of llvmlite's LLVM."""

import re

import llvmlite.binding as llvm

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.passes.lower.nvvm.atomics import LEAST_PTX

from .check import ASSERT

TRIPLE = "nvptx64-nvidia-cuda"
# The PTX version that an architecture needs: 8.0 (CUDA 12.0) for all older than Hopper, whose sums of vectors in memory need 8.1.
PTX = {90: LEAST_PTX, 100: 86, 103: 88, 120: 87}
DEFAULT_PTX = 80

LOADS_IN_FRONT = "--machine-sink-load-blocks-threshold=0"
"""An option of LLVM's that keeps loads in front of branches. By default, a load moves down past up to 20 basic blocks to what reads
it: past the predicated stores of the rows or accesses before it, so that each load waits for those that were in flight with it."""


def machine(gpu: Gpu) -> llvm.TargetMachine:
    """Returns LLVM's target machine for a GPU."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("lamina", LOADS_IN_FRONT)  # of the process: code for CPUs hardly has such loads
    version = PTX.get(gpu.capability, DEFAULT_PTX)
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=gpu.arch, features=f"+ptx{version}", opt=3, reloc="default", codemodel="default"
    )


def optimize(parsed: llvm.ModuleRef, target: llvm.TargetMachine) -> None:
    """Runs the middle end: two passes over each function, since ptxas optimizes again and a thread's values are in registers.

    One call serves all functions, because each call waits for Python's lock, which other threads hold.
    """
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.run(parsed, builder)


def emit(parsed: llvm.ModuleRef, target: llvm.TargetMachine) -> str:
    """Returns PTX text. Raises CompileError for functions that LLVM would call but no GPU has, before the assembler sees them."""
    ptx: str = target.emit_assembly(parsed)
    if missing := sorted(set(re.findall(r"^\.extern \.func.*?\b(\w+)\s*$", ptx, re.M)) - {ASSERT}):
        raise CompileError(
            f"GPU code would call {', '.join(missing)}, which no GPU has",
            remedy="lower the op that becomes it in lamina-expand-math",
        )
    return ptx
