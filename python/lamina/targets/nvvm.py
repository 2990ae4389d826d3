"""The NVIDIA target: tile programs -> one thread's code -> NVVM -> LLVM IR -> PTX -> cubin, on a machine that needs no GPU.

    triton_text, triton                                          programs that lamina-tile has made for Triton, to PTX
    lamina-expand-math, lamina-distribute, lamina-gpu-to-nvvm     ours, for the rest
    lowering_pipeline()                                          upstream, to the nvvm and llvm dialects
    translate, llvm_text                                         LLVM 24's text to LLVM 22's
    nvvm_llvm                                                    llvmlite: optimise, PTX
    ptx                                                          ptxas

All kernels of a module go through one pipeline, one PTX text and one run of ptxas: each stage has a fixed cost that is paid once.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import llvm as llvm_dialect
from torch_mlir.passmanager import PassManager

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.passes.gpu import indices
from lamina.passes.gpu_to_nvvm import GpuToNvvm
from lamina.passes.locations import sources
from lamina.passes.registry import load

from . import llvm_text, nvvm_llvm, triton, triton_text
from .base import Artifact, Target
from .clock import Clock
from .nvvm_check import check_converted
from .ptx import Assembled, PtxError, Resources, assemble, disassemble

TMA = 90  # from here on chips have a tensor memory accelerator
KEPT = 8  # source lines named in an error


@dataclass(frozen=True)
class GpuArtifact(Artifact):
    """An Artifact whose code is a cubin.

    ptx        the text it was assembled from
    resources  what each kernel needs, as ptxas reports it, in the order of `kernels`
    """

    ptx: str = ""
    resources: tuple[Resources, ...] = ()


def lowering_pipeline(index_bits: int = indices.WIDE) -> str:
    """The upstream part of the lowering, after `lamina-gpu-to-nvvm`, as text without `builtin.module`.

    math becomes LLVM's intrinsics before convert-gpu-to-nvvm, which would call libdevice for it. Nothing is simplified here: that
    is a third of the time, and LLVM and ptxas do it again, to the same PTX.

    index_bits  32 where every buffer is small (passes/gpu/indices.py): a quarter fewer instructions in kernels full of indices
    """
    return (
        "gpu.module(expand-strided-metadata,arith-expand,convert-scf-to-cf,convert-math-to-llvm,"
        f"convert-gpu-to-nvvm{{use-bare-ptr-memref-call-conv=1 index-bitwidth={index_bits}}},reconcile-unrealized-casts)"
    )


class NvvmTarget(Target):
    """Code for NVIDIA GPUs of one architecture."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.name = f"nvvm:{gpu.arch}"

    @staticmethod
    def named(arch: str) -> "NvvmTarget":
        """By an architecture's name, such as "sm_90a"."""
        return NvvmTarget(Gpu.named(arch))

    def accepts(self, module: ir.Module) -> str | None:
        for op in module.body.operations:
            if "tile.grid" in op.operation.attributes:
                if "tile.threads" not in op.operation.attributes:
                    return f"@{_name(op.operation)} is a program for a CPU: it has no tile.threads"
                for argument in op.operation.regions[0].blocks[0].arguments:
                    if not isinstance(argument.type, ir.MemRefType) or not argument.type.has_static_shape:
                        return f"{argument.type} is not a memref of static shape"
        return None

    def compile(self, module: ir.Module, ready: Sequence[triton.Compiled] = ()) -> GpuArtifact:
        if why := self.accepts(module):
            raise CompileError(why, remedy=f"make it by lamina-tile{{target={self.name}}}")
        clock = Clock()
        printed = triton_text.take(module, self.gpu.capability >= TMA)
        llvm, texts = "", list[str]()
        kernels: tuple[str, ...] = ()
        with self._by_triton(printed, clock) as by_triton:  # in threads, while this one goes on with the other kernels
            if has_programs(module) or not (printed or ready):
                self.to_gpu(module, clock)
                llvm = self.to_llvm(module, clock)
                texts, kernels = [self.to_ptx(llvm, clock)], kernels_of(module)
            hot = [*by_triton(), *ready]
        kernels += tuple(k.name for k in hot)
        source = triton.join([*texts, *(k.ptx for k in hot)])
        with clock.stage("ptxas"):
            made = self._assemble(source, module, len(kernels))
        resources = tuple(sorted(made.resources, key=lambda r: kernels.index(r.kernel)))
        needs = {k.name: k.needs for k in hot}
        return GpuArtifact(self.name, made.cubin, kernels, (), llvm, clock.seconds, needs, source, resources)

    def below(self, module: ir.Module, ready: Sequence[triton.Compiled] = ()) -> Iterator[tuple[str, Callable[[], str]]]:
        def text() -> str:
            return str(module.operation.get_asm(enable_debug_info=True))

        clock = Clock()
        printed = triton_text.take(module, self.gpu.capability >= TMA)
        if not (printed or ready or has_programs(module)):
            raise CompileError("there are no kernels: every step is a call of a library", remedy="--emit=plan shows the calls")
        if printed or ready:
            yield "triton", lambda: "\n\n\n".join([triton_text.together(printed).rstrip(), *(k.text for k in ready)]) + "\n"
        texts = []
        if has_programs(module):
            self.to_gpu(module, clock)
            yield "gpu", text
            llvm = self.to_llvm(module, clock)
            yield "nvvm", text
            yield "llvm", lambda: llvm
            texts.append(self.to_ptx(llvm, clock))
        with self._by_triton(printed, clock) as by_triton:
            source = triton.join([*texts, *(k.ptx for k in (*by_triton(), *ready))])
        yield "ptx", lambda: source
        yield "sass", lambda: disassemble(self._assemble(source, module, 1).cubin)

    def assembly(self, artifact: Artifact) -> str:
        return disassemble(artifact.code)

    @contextmanager
    def _by_triton(self, programs: list[triton_text.Printed], clock: Clock) -> Iterator[Callable[[], list[triton.Compiled]]]:
        """What waits for the kernels that Triton compiles meanwhile."""
        if not programs:
            yield list
            return
        with ThreadPoolExecutor(min(len(programs), _processors()), thread_name_prefix="lamina-triton") as pool:
            started = [pool.submit(triton.compile_kernel, program, self.gpu) for program in programs]

            def wait() -> list[triton.Compiled]:
                with clock.stage("triton"):
                    return [one.result() for one in started]

            yield wait

    def to_gpu(self, module: ir.Module, clock: Clock) -> None:
        """The module at the gpu level: what one thread does. Math is expanded while it is one op a block, and then what
        distribution has brought (exponentials that rescale online sums)."""
        expand = ("lamina-expand-math", {"target": "nvvm"})
        with module.context, ir.Location.unknown():
            for name, options in (expand, ("lamina-distribute", {}), expand):
                with clock.stage(name):
                    load(name)(**options).run(module)

    def to_llvm(self, module: ir.Module, clock: Clock) -> str:
        """LLVM 24's text for the kernels of a module at the gpu level, which is left in the llvm dialect."""
        with module.context, ir.Location.unknown():
            with clock.stage("lamina-gpu-to-nvvm"):
                bits = indices.width(device_module(module))
                GpuToNvvm(index_bits=bits).run(module)
            with clock.stage("to llvm dialect"):
                manager = PassManager.parse(f"builtin.module({lowering_pipeline(bits)})")
                manager.enable_verifier(False)  # after each of its passes: half of their time; once at the end will do
                manager.run(module.operation)
            with clock.stage("translate"):
                device = device_module(module)
                check_converted(device, self.gpu)
                module.operation.verify()
                text: str = llvm_dialect.translate_module_to_llvmir(device)
        return text

    def to_ptx(self, llvm: str, clock: Clock) -> str:
        """PTX from LLVM 24's text."""
        with clock.stage("text"):
            text = llvm_text.convert(llvm)
        with clock.stage("parse"):
            target = nvvm_llvm.machine(self.gpu)
            parsed = nvvm_llvm.parse(text, target)
        with clock.stage("optimise"):
            nvvm_llvm.optimise(parsed, target)
        with clock.stage("ptx"):
            return nvvm_llvm.emit(parsed, target)

    def _assemble(self, source: str, module: ir.Module, count: int) -> Assembled:
        """ptxas; what it refuses stays in a file, with the kernel's lines in the model."""
        try:
            return assemble(source, self.gpu.arch, jobs=min(count, _processors()))
        except PtxError as error:
            handle, path = tempfile.mkstemp(prefix="lamina-", suffix=".ptx")
            with os.fdopen(handle, "w") as file:
                file.write(source)
            name = error.kernel or kernel_at(source, error.line)
            lines = lines_of(module, name)
            raise CompileError(
                f"ptxas refuses kernel {name or 'one of ' + ', '.join(kernels_of(module))} for {error.arch}: {error.message}",
                where=lines[0] if lines else "",
                remedy=f"its PTX is {path}" + (f"; it was made of {', '.join(lines[:KEPT])}" if lines else ""),
            ) from error


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def device_module(module: ir.Module) -> ir.Operation:
    """The gpu.module of a module."""
    for op in module.body.operations:
        if op.operation.name == "gpu.module":
            return op.operation
    raise CompileError("there is no gpu.module in this module", remedy="write one, or tile programs with tile.threads")


def has_programs(module: ir.Module) -> bool:
    """Whether a module holds tile programs, or what they have become."""
    return any("tile.grid" in op.operation.attributes or op.operation.name == "gpu.module" for op in module.body.operations)


def kernels_of(module: ir.Module) -> tuple[str, ...]:
    """The names of the kernels, at the gpu level or lowered."""
    functions = [o.operation for o in device_module(module).regions[0].blocks[0].operations]
    return tuple(_name(f) for f in functions if "kernel" in f.attributes or "nvvm.kernel" in f.attributes)


def lines_of(module: ir.Module, kernel: str) -> list[str]:
    """The lines of the model that a kernel was made of."""
    found: dict[str, None] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.update(dict.fromkeys(sources(op.location)))
        return ir.WalkResult.ADVANCE

    if not any(op.operation.name == "gpu.module" for op in module.body.operations):
        return []
    for op in device_module(module).regions[0].blocks[0].operations:
        if "sym_name" in op.operation.attributes and _name(op.operation) == kernel:
            op.operation.walk(visit)
    return list(found)


def kernel_at(source: str, line: int) -> str:
    """The kernel that a line of PTX, counted from 1, is in, or ""."""
    name = ""
    for text in source.split("\n")[:line]:
        if ".entry " in text:
            name = text.partition(".entry ")[2].partition("(")[0].strip()
    return name


def _name(op: ir.Operation) -> str:
    name: str = ir.StringAttr(op.attributes["sym_name"]).value
    return name
