"""The CPU backend: tile programs -> LLVM dialect -> LLVM IR -> object file, with the processor's vectors and instructions.

    lamina-expand-math, lamina-tile-to-cpu     Lamina's passes
    lowering_pipeline()                        upstream, to the llvm dialect
    translate, llvm_text                       LLVM 24's text to LLVM 22's
    llvmlite                                   optimize, emit

All kernels of a module go through one pipeline and into one object: each stage has a fixed cost that is paid once.
"""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import llvmlite.binding as llvm
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.target import Target
from lamina.passes.ir.locations import where
from lamina.passes.ir.reading import nested
from lamina.passes.lower.expand_math import ExpandMath
from lamina.passes.lower.tile_to_cpu import CHECKS, TileToCpu

from .. import llvm_text
from ..base import Artifact, Backend
from ..clock import Stopwatch
from ..module import programs_of, to_llvm


def lowering_pipeline() -> str:
    """Returns the upstream part of the lowering, after `lamina-expand-math,lamina-tile-to-cpu`, as text without `builtin.module`.

    Vectors of rank 2 are split into rows first (reductions, transfers), then everything becomes the llvm dialect. Functions are
    converted before the rest because `convert-to-llvm` has no option for bare pointers and must not see any.
    """
    return (
        "func.func(lower-vector-multi-reduction{lowering-strategy=inner-reduction},"
        "convert-vector-to-scf{full-unroll=1},arith-expand),"
        "expand-strided-metadata,lower-affine,convert-scf-to-cf,"
        "convert-vector-to-llvm{reassociate-fp-reductions=1 vector-transpose-lowering=shuffle16x16},"
        "convert-math-to-llvm{approximate-log1p=0},convert-math-to-libm,"
        "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},"
        "convert-to-llvm,reconcile-unrealized-casts"
    )


class CpuBackend(Backend):
    """Compiles for a processor of the host's architecture."""

    def __init__(self, target: Target) -> None:
        self.target, self.device = target, target.cpu

    def compile(self, module: ir.Module, ready: Sequence[Any] = ()) -> Artifact:
        """Compiles all tile programs into one object file. Raises CompileError for an op that does not lower to LLVM."""
        kernels = tuple(programs_of(module))
        clock = Stopwatch()
        with module.context, ir.Location.unknown():
            with clock.stage("expand-math"):
                ExpandMath(ldexp=self.device.avx512).run(module)
            with clock.stage("tile-to-cpu"):
                TileToCpu().run(module)
            text = to_llvm(module, lowering_pipeline(), clock, check_converted)
            messages = tuple(ir.StringAttr(m).value for m in ir.ArrayAttr(module.operation.attributes[CHECKS]))
        with clock.stage("text"):
            text = llvm_text.attach(llvm_text.convert(text), {"prefer-vector-width": str(self.device.simd_bits)})
        with clock.stage("parse"):
            machine = self.machine()
            parsed = llvm_text.parse(text, machine)
        with clock.stage("optimize"):
            optimize(parsed, machine)
        with clock.stage("emit"):
            code = machine.emit_object(parsed)
        return Artifact(str(self.target), code, kernels, messages, text, clock.seconds)

    def below(self, module: ir.Module, ready: Sequence[Any] = ()) -> Iterator[tuple[str, Callable[[], str]]]:
        """Yields the levels "llvm" and "asm". The whole module is compiled before the first."""
        artifact = self.compile(module)
        yield "llvm", lambda: str(module.operation.get_asm(enable_debug_info=True))
        yield "asm", lambda: self.assembly(artifact)

    def assembly(self, artifact: Artifact) -> str:
        """Returns the assembly text, compiled again from the artifact's LLVM IR."""
        machine = self.machine()
        parsed = llvm_text.parse(artifact.llvm, machine)
        optimize(parsed, machine)
        return str(machine.emit_assembly(parsed))

    def machine(self) -> llvm.TargetMachine:
        """Returns LLVM's target machine for the processor: O3, position-independent code, small code model."""
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        return target.create_target_machine(
            cpu=self.device.processor, features=self.device.features, opt=3, reloc="pic", codemodel="small"
        )


def check_converted(module: ir.Module) -> ir.Operation:
    """Returns the module's op. Raises CompileError for an op outside the llvm dialect: translation would end the process on it
    without naming it."""
    for op in nested(module.operation):
        if not op.name.startswith(("llvm.", "builtin.module")):
            raise CompileError(
                f"{op.name} did not lower to LLVM on the CPU: {textwrap.shorten(str(op), 200, placeholder=' ...')}",
                where=where(op.location),
                remedy="a tile program for the CPU may use vectors of rank 1 and 2, scalars and memrefs of static shape",
            )
    return module.operation


def optimize(parsed: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Runs the middle end, function by function.

    A tile program is vector code whose values are already hoisted to the outermost loop possible: measured on softmax, GELU and
    LayerNorm, LLVM's O2 makes it no faster than two passes do and takes twenty times as long. Scalar programs (scans) get all of
    O2's function passes.
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    blocks = llvm.create_new_function_pass_manager()
    blocks.add_simplify_cfg_pass()
    blocks.add_instruction_combine_pass()
    scalars = builder.getFunctionPassManager()
    for function in parsed.functions:
        if not function.is_declaration:
            (scalars if _is_scalar_loop(function) else blocks).run(function, builder)


def _is_scalar_loop(function: llvm.ValueRef) -> bool:
    blocks = list(function.blocks)
    return len(blocks) > 1 and not any(op.type.is_vector for block in blocks for op in block.instructions)
