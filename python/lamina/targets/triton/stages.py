"""Runs Triton's compiler stage by stage up to PTX.

`triton.compile` would go on to a cubin, by a run of ptxas that Lamina makes once for all kernels of a program. It also keeps its
own cache, whose key is a hash of Triton's library of 460 MB. Together these take more time than the stages.
"""

import re
import threading
from dataclasses import dataclass
from typing import Any

from lamina.core.gpu import Gpu
from lamina.core.program import Needs

from ..ptx import cuda_release, ptxas

EXTRA_POINTERS = 2  # parameters that Triton adds to every kernel
ALIGNED = 16  # bytes; Triton specializes on memory with this alignment
LANES = 32  # lanes of a warp

_LABEL = re.compile(r"^(\$L\w+):", re.MULTILINE)
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$L\w+);")
_FROM_REGISTERS = re.compile(r"wgmma\.mma_async\.[\w.]+\s+\{[^}]*\},\s*\{")
_WAIT = re.compile(r"(wgmma\.wait_group\.sync\.aligned) (\d+)")

_READING = threading.Lock()
"""Serializes Triton's use of Python 3.11's `ast`, which at times fails in two threads at once ("recursion depth mismatch"). It
holds the interpreter's lock all the while, so this takes no longer."""


@dataclass(frozen=True)
class Ptx:
    """A compiled function, called `name` in the text."""

    text: str
    name: str
    needs: Needs


def to_ptx(function: Any, pointers: tuple[tuple[str, int], ...], gpu: Gpu, *, warps: int, stages: int, checks: bool = False) -> Ptx:
    """Compiles a @triton.jit or @gluon.jit function whose parameters are all pointers. Raises what Triton's stages raise.

    pointers  Triton's type of each parameter, such as "*bf16", and the alignment of its memory in bytes
    checks    the function has device_assert, which Triton compiles in debug mode only
    """
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend
    from triton.experimental.gluon._runtime import GluonASTSource

    target = GPUTarget("cuda", gpu.capability, LANES)
    backend = make_backend(target)
    signature = dict(zip(function.arg_names, (type_ for type_, _ in pointers), strict=True))
    aligned = {(i,): [["tt.divisibility", ALIGNED]] for i, (_, align) in enumerate(pointers) if align % ALIGNED == 0}
    source = (GluonASTSource if function.is_gluon() else ASTSource)(fn=function, signature=signature, constexprs={}, attrs=aligned)
    debugged = {"debug": True, "sanitize_overflow": False} if checks else {}
    options = backend.parse_options({"num_warps": warps, "num_stages": stages, "ptx_version": ptx_version(gpu), **debugged})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with _READING:
        module = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    below: dict[str, Any] = {}
    backend.add_stages(below, options, source.language)
    meta: dict[str, Any] = {"target": target, **options.__dict__}
    for name, stage in below.items():
        module = stage(module, meta)
        if name == "ptx":
            break
    scratch, align = meta.get("global_scratch_size") or 0, meta.get("global_scratch_align") or 1
    module = module if function.is_gluon() else with_full_waits(module)
    return Ptx(module, meta["name"], Needs(meta["shared"], scratch, align, EXTRA_POINTERS, threads_of(module)))


def threads_of(ptx: str) -> int:
    """Returns the threads of a block that the PTX requires: kernels with specialized warps have more than num_warps says."""
    found = re.search(r"\.reqntid\s+(\d+)", ptx)
    return int(found[1]) if found else 0


def ptx_version(gpu: Gpu) -> int:
    """Returns the newest PTX version that Lamina's assembler reads, 87 for 8.7. Triton by itself would write for the assembler in
    TRITON_PTXAS_PATH, which TorchInductor sets to that of the CUDA toolkit."""
    from triton.backends.nvidia.compiler import ptx_get_version

    return ptx_get_version(cuda_release(ptxas(gpu.arch)))


def with_full_waits(ptx: str) -> str:
    """Returns PTX where the last wait for wgmma in each loop that reads registers waits for all products.

    A `wgmma.mma_async` reads the fragments of its left operand from registers while the program goes on, so these may not be
    written before `wgmma.wait_group` has waited for it. Where Triton pipelines a loop whose left operands are in registers, as
    computed ones are, each iteration waits only for the first product of the previous one: the registers of the others may be
    overwritten while they are read (triton-lang/triton#9433; seen with Triton 3.6 on an H200, 1 to 30 of 30 runs wrong).
    """
    if not _FROM_REGISTERS.search(ptx):
        return ptx
    labels = {found[1]: found.start() for found in _LABEL.finditer(ptx)}
    ends: set[int] = set()
    for branch in _BRANCH.finditer(ptx):
        begin = labels.get(branch[1], branch.end())
        if _FROM_REGISTERS.search(ptx, begin, branch.start()):
            ends.update(wait.start() for wait in list(_WAIT.finditer(ptx, begin, branch.start()))[-1:])
    return _WAIT.sub(lambda wait: f"{wait[1]} 0" if wait.start() in ends else wait[0], ptx)
