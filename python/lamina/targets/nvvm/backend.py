"""The NVIDIA backend: compiles tile programs to cubins. The machine that compiles needs no GPU.

Programs that lamina-tile has marked for Triton go through Triton to PTX (targets/triton). The others go through

    lamina-expand-math, lamina-distribute, lamina-gpu-to-nvvm    Lamina's passes: code of one thread
    lowering_pipeline()                                          upstream's passes: the nvvm and llvm dialects
    to_llvm, llvm_text                                           LLVM IR, from the text of LLVM 24 to that of LLVM 22
    codegen                                                      llvmlite: optimization, PTX

and ptxas assembles all PTX (ptx). Kernels are compiled in a few parts, each to its own cubin: while MLIR lowers one part, LLVM and
ptxas compile the parts before it, and Triton its programs. A part holds many kernels, because each stage has a fixed cost.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.program import Needs
from lamina.core.target import Target
from lamina.passes.infra.registry import load
from lamina.passes.lower.gpu_to_nvvm import GpuToNvvm
from lamina.passes.lower.nvvm import indices
from lamina.passes.lower.nvvm.atomics import LEAST_CAPABILITY
from lamina.passes.lower.nvvm.signature import pass_by_value
from lamina.runtime import cubins

from .. import llvm_text
from ..base import Artifact, Backend
from ..clock import Stopwatch
from ..module import device_module, has_programs, kernel_at, lines_of, name_of, programs_of, split, to_llvm
from ..ptx import PtxError, Resources, assemble, disassemble
from ..triton import compiler as triton
from ..triton import text as triton_text
from . import codegen
from .check import check_converted

TMA = 90  # compute capability from which on there is a tensor memory accelerator
KEPT = 8  # source lines that an error names at most
PARTS, LEAST = 4, 4  # the most parts, and the fewest kernels of each


@dataclass(frozen=True)
class GpuArtifact(Artifact):
    """An Artifact whose code is cubins (runtime/cubins.py).

    ptx        the PTX of all kernels
    resources  the resource usage of each kernel, as ptxas reports it, in the order of `kernels`
    """

    ptx: str = ""
    resources: tuple[Resources, ...] = ()


def lowering_pipeline(index_bits: int = indices.WIDE) -> str:
    """Returns the upstream part of the lowering, after `lamina-gpu-to-nvvm`, as text without `builtin.module`.

    Math is converted to LLVM's intrinsics before convert-gpu-to-nvvm, which would call libdevice for it. There is no
    canonicalization: it takes a third of the time, and LLVM and ptxas arrive at the same PTX without it.

    index_bits  32 if every buffer is small (passes/lower/nvvm/indices.py), which saves a quarter of the instructions in kernels
                that are dominated by index arithmetic
    """
    return (
        "gpu.module(expand-strided-metadata,arith-expand,convert-scf-to-cf,convert-math-to-llvm,"
        f"convert-gpu-to-nvvm{{use-bare-ptr-memref-call-conv=1 index-bitwidth={index_bits}}},reconcile-unrealized-casts)"
    )


class NvvmBackend(Backend):
    """Compiles for NVIDIA GPUs of one architecture."""

    def __init__(self, target: Target) -> None:
        self.target, self.gpu = target, target.gpu

    def compile(self, module: ir.Module, ready: Sequence[triton.Awaited] = ()) -> GpuArtifact:
        """Compiles all tile programs to cubins, with Triton, LLVM and ptxas in threads. Raises CompileError if a program cannot be
        compiled.

        ready  kernels in source, which are compiled separately (targets/kernel_calls)
        """
        if why := _refused(module):
            raise CompileError(why, remedy=f"make it by lamina-tile{{target={self.target}}}")
        clock = Stopwatch()
        printed = triton_text.take(module, self.gpu.capability >= TMA)
        names = [*programs_of(module), *(p.name for p in printed), *(k.name for k in ready)]
        parts = split(module, self._parts(module)) if has_programs(module) or not (printed or ready) else []
        llvm = []
        with ThreadPoolExecutor(_processors() + len(parts), thread_name_prefix="lamina-nvvm") as pool:
            jobs = [pool.submit(self._by_triton, program) for program in printed]
            jobs += [pool.submit(self._awaited, kernel) for kernel in ready]
            for part in parts:  # only this thread uses MLIR
                self.to_gpu(part, clock)
                llvm.append(self.to_llvm(part, clock))
                jobs.append(pool.submit(self._by_llvm, llvm[-1], len(parts)))
            with clock.stage("Triton, LLVM, ptxas"):
                made = [self._done(job, parts) for job in jobs]
        resources = sorted((r for m in made for r in m.resources), key=lambda r: names.index(r.kernel))
        return GpuArtifact(
            target=str(self.target),
            code=cubins.join([m.cubin for m in made]),
            kernels=tuple(names),
            llvm="\n".join(llvm),
            seconds=clock.seconds,
            needs={name: needs for m in made for name, needs in m.needs.items()},
            ptx=triton.join([m.ptx for m in made]),
            resources=tuple(resources),
        )

    def below(self, module: ir.Module, ready: Sequence[triton.Awaited] = ()) -> Iterator[tuple[str, Callable[[], str]]]:
        """Yields the levels below a tile module, as a name and a function that returns the text: "triton", "gpu", "nvvm" and
        "llvm", if some kernel has them, "ptx" and "sass". Raises CompileError if there are no kernels."""

        def text() -> str:
            """Returns the module's text at the current level."""
            return str(module.operation.get_asm(enable_debug_info=True))

        clock = Stopwatch()
        printed = [triton.for_gpu(p, self.gpu) for p in triton_text.take(module, self.gpu.capability >= TMA)]
        if not (printed or ready or has_programs(module)):
            raise CompileError("there are no kernels: every step is a call of a library", remedy="--emit=plan shows the calls")
        if printed or ready or any("tile.threads" in op.operation.attributes for op in module.body.operations):
            yield "triton", lambda: self._as_triton(module, printed, ready)
        texts = []
        if has_programs(module):
            self.to_gpu(module, clock)
            yield "gpu", text
            llvm = self.to_llvm(module, clock)
            yield "nvvm", text
            yield "llvm", lambda: llvm
            texts.append(self.to_ptx(llvm))
        source = triton.join([*texts, *(triton.compile_kernel(p, self.gpu).ptx for p in printed), *(k.compiled.ptx for k in ready)])
        yield "ptx", lambda: source
        yield "sass", lambda: disassemble(assemble(source, self.gpu.arch, jobs=_processors()).cubin)

    def _as_triton(self, module: ir.Module, printed: list[triton_text.Printed], ready: Sequence[triton.Awaited]) -> str:
        """Returns all kernels as Triton text: those that Triton compiles, then the others as they would be after
        lamina-route-to-triton."""
        texts = [triton_text.module_text(printed).rstrip(), *(k.compiled.text for k in ready)] if printed or ready else []
        if has_programs(module):
            with module.context, ir.Location.unknown():
                others = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
                load("lamina-route-to-triton")().run(others)
                texts.append(triton_text.others(others))
        return "\n\n\n".join(texts) + "\n"

    def assembly(self, artifact: Artifact) -> str:
        """Returns the SASS of all kernels."""
        return "\n".join(map(disassemble, cubins.divide(artifact.code)))

    def _parts(self, module: ir.Module) -> int:
        """Returns the number of parts to compile the kernels in: few enough for each to be worth its fixed cost."""
        return max(1, min(PARTS, _processors(), len(programs_of(module)) // LEAST))

    def _by_triton(self, program: triton_text.Printed) -> "MadeCode":
        return self._assembled([triton.compile_kernel(program, self.gpu)])

    def _awaited(self, kernel: triton.Awaited) -> "MadeCode":
        return self._assembled([kernel.compiled])

    def _by_llvm(self, llvm: str, parts: int) -> "MadeCode":
        ptx = self.to_ptx(llvm)
        made = assemble(ptx, self.gpu.arch, jobs=max(1, _processors() // parts))
        return MadeCode(ptx, made.cubin, made.resources, {})

    def _assembled(self, kernels: Sequence[triton.CompiledKernel]) -> "MadeCode":
        ptx = triton.join([k.ptx for k in kernels])
        made = assemble(ptx, self.gpu.arch)
        return MadeCode(ptx, made.cubin, made.resources, {k.name: k.needs for k in kernels})

    def to_gpu(self, module: ir.Module, clock: Stopwatch) -> None:
        """Lowers a module to the gpu level, the code of one thread. Math is expanded before distribution, while there is one op per
        block, and once more after it, for the exponentials that distribution adds to rescale online sums."""
        expand = ("lamina-expand-math", {"target": "nvvm"})
        with module.context, ir.Location.unknown():
            for name, options in (expand, ("lamina-distribute", {"lanes": self.target.lanes}), expand):
                with clock.stage(name):
                    load(name)(**options).run(module)

    def to_llvm(self, module: ir.Module, clock: Stopwatch) -> str:
        """Lowers a module at the gpu level in place to the llvm dialect, and returns its kernels as text of LLVM 24."""
        with module.context, ir.Location.unknown():
            with clock.stage("lamina-gpu-to-nvvm"):
                bits = indices.index_width(device_module(module))
                GpuToNvvm(index_bits=bits, join=self.gpu.capability >= LEAST_CAPABILITY).run(module)
            return to_llvm(module, lowering_pipeline(bits), clock, self._checked)

    def _checked(self, module: ir.Module) -> ir.Operation:
        """Returns the gpu.module of a lowered module. Raises CompileError if LLVM could not translate it."""
        device = device_module(module)
        check_converted(device, self.gpu)
        pass_by_value(device)
        return device

    def to_ptx(self, llvm: str) -> str:
        """Compiles LLVM 24's text to PTX."""
        text = llvm_text.convert(llvm)
        target = codegen.machine(self.gpu)
        parsed = llvm_text.parse(text, target)
        codegen.optimize(parsed, target)
        return codegen.emit(parsed, target)

    def _done(self, job: "Future[MadeCode]", parts: Sequence[ir.Module]) -> "MadeCode":
        """Returns a job's result. If ptxas refused the PTX, writes that to a file and raises CompileError with the kernel's lines
        in the model."""
        try:
            return job.result()
        except PtxError as error:
            handle, path = tempfile.mkstemp(prefix="lamina-", suffix=".ptx")
            with os.fdopen(handle, "w") as file:
                file.write(error.ptx)
            name = error.kernel or kernel_at(error.ptx, error.line)
            lines = [line for part in parts for line in lines_of(part, name)]
            raise CompileError(
                f"ptxas refuses kernel {name or 'of ' + path} for {error.arch}: {error.message}",
                where=lines[0] if lines else "",
                remedy=f"its PTX is {path}" + (f"; it was made of {', '.join(lines[:KEPT])}" if lines else ""),
            ) from error


@dataclass(frozen=True)
class MadeCode:
    """One part of an artifact: several kernels in one cubin."""

    ptx: str
    cubin: bytes
    resources: tuple[Resources, ...]
    needs: dict[str, Needs]


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def _refused(module: ir.Module) -> str:
    """Returns why a program of the module cannot run on a GPU: it has no tile.threads, or an argument that is not a memref of
    static shape. Returns "" if all can."""
    for op in (op.operation for op in module.body.operations if "tile.grid" in op.operation.attributes):
        if "tile.threads" not in op.attributes:
            return f"@{name_of(op)} is a program for a CPU: it has no tile.threads"
        for argument in op.regions[0].blocks[0].arguments:
            if not isinstance(argument.type, ir.MemRefType) or not argument.type.has_static_shape:
                return f"{argument.type} is not a memref of static shape"
    return ""
