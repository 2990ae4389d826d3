"""Compiles printed kernels by Triton to PTX, which is assembled with the kernels of the NVVM path.

Neither a GPU nor Triton's launcher, which needs a C compiler, is used. A kernel's parameters are its pointers in order and two
more: scratch memory in which the kernel keeps descriptors, and memory for a profiler, which is not used.
"""

import linecache
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.program import Needs
from lamina.kernels.gluon import has_gluon

from .printing.ops import POINTERS
from .printing.printed import Printed
from .stages import to_ptx

_log = logging.getLogger("lamina")
_NOISE = re.compile(r"^\s*\.(?:loc|file)\b.*$|^\s*//.*$", re.MULTILINE)
_DEBUG = re.compile(r"^\s*\.section\s+\.debug.*?^\s*\}\s*$", re.MULTILINE | re.DOTALL)
_DEFINED = re.compile(  # a module's symbols besides the kernel: memory, tables, texts, functions that are not inlined
    r"^\s*(?:(?:\.visible\s+|\.weak\s+)?\.(?:global|const)|\.extern\s+\.shared)(?:\s+\.align\s+\d+)?\s+\.\w+\s+([\w$]+)|"
    r"^\s*(?:\.visible\s+|\.weak\s+)?\.func\s+(?:\([^)]*\)\s*)?([\w$]+)\s*\(",
    re.MULTILINE,
)
_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel in PTX.

    name   its symbol
    needs  its launch requirements
    text   the Triton text, or the source as comments, of a source kernel; "" for printed ones
    """

    name: str
    ptx: str
    needs: Needs
    text: str = ""


@dataclass(frozen=True)
class Awaited:
    """A kernel that is compiled when it is asked for, by the thread that asks."""

    name: str
    make: Callable[[], CompiledKernel]

    @cached_property
    def compiled(self) -> CompiledKernel:
        """The compiled kernel, made on first use."""
        return self.make()


def compile_kernel(kernel: Printed, gpu: Gpu) -> CompiledKernel:
    """Compiles a printed kernel, or its fallback where Triton refuses it. Raises CompileError with Triton's message."""
    kernel = for_gpu(kernel, gpu)
    if kernel.otherwise is not None:
        try:
            return _compiled(kernel, gpu)
        except CompileError as why:
            _log.warning("lamina: %s: no ping-pong", why.message)
            kernel = kernel.otherwise.instead(why.message)
    compiled = _compiled(kernel, gpu)
    return replace(compiled, needs=replace(compiled.needs, note=kernel.note))


def for_gpu(kernel: Printed, gpu: Gpu) -> Printed:
    """Returns the kernel, or its fallback where Lamina's Gluon kernels do not support this GPU or this version of Triton."""
    if kernel.otherwise is None or has_gluon(gpu):
        return kernel
    return kernel.otherwise.instead(f"{gpu.arch} and this version of Triton have no Gluon kernels of Lamina")


def _compiled(kernel: Printed, gpu: Gpu) -> CompiledKernel:
    types = [POINTERS.get(dtype) for dtype, _ in kernel.arguments]
    if None in types:
        dtype = kernel.arguments[types.index(None)][0]
        raise CompileError(f"kernel @{kernel.name} has an argument of {dtype}, which Triton has no type for")
    pointers = tuple((str(type_), align) for type_, (_, align) in zip(types, kernel.arguments, strict=True))
    try:
        config, checks = kernel.config, "tl.device_assert(" in kernel.kernel
        compiled = to_ptx(defined(kernel), pointers, gpu, warps=config.warps, stages=config.stages, checks=checks)
    except Exception as error:  # Triton raises what its stages raise
        lines = str(error).strip().splitlines() or [type(error).__name__]
        refusal = f"Triton refuses kernel @{kernel.name} ({kernel.config}): {lines[-1]}"
        raise CompileError(refusal, remedy="see its text by --emit=triton") from error
    if compiled.needs.shared > gpu.shared_bytes:
        asks = f"kernel @{kernel.name} ({kernel.config}) asks for {compiled.needs.shared} bytes of shared memory"
        raise CompileError(asks, remedy=f"{gpu.arch} has {gpu.shared_bytes} for a CTA: smaller blocks, or fewer stages")
    return CompiledKernel(kernel.name, renamed(compiled.text, compiled.name, kernel.name), compiled.needs)


def defined(kernel: Printed) -> Any:
    """Returns the Triton function that a printed kernel's text defines."""
    return define(kernel.name, kernel.text)


def define(name: str, text: str, **scope: Any) -> Any:
    """Executes a text and returns what it calls `name`. Triton reads the source again by its file name, through linecache."""
    file = f"<lamina kernel {name} {hash(text):x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    known: dict[str, Any] = {"__name__": "lamina_kernel", **scope}
    exec(compile(text, file, "exec"), known)
    return known[name]


def renamed(ptx: str, name: str, wanted: str) -> str:
    """Returns the PTX with the kernel and all its symbols renamed to be unique in the program, and without debug information."""
    ptx = _DEBUG.sub("", _NOISE.sub("", ptx))
    ptx = re.sub(rf"\b{re.escape(name)}(?=\(|_param_)", wanted, ptx)
    for own in {name for pair in _DEFINED.findall(ptx) for name in pair if name}:
        ptx = re.sub(rf"(?<![\w$]){re.escape(own)}(?![\w$])", f"{wanted}_{own.lstrip('_$')}", ptx)
    return ptx


def join(texts: Sequence[str]) -> str:
    """Joins PTX texts for one chip under the newest of their PTX versions."""
    found = [_VERSION.search(text) for text in texts]
    newest = max((int(v[1]), int(v[2])) for v in found if v)
    first, *rest = (_VERSION.sub(".version {}.{}".format(*newest), text, count=1) for text in texts)
    heads = re.compile(r"^\.(?:version|target|address_size)\b.*$", re.MULTILINE)
    return "\n".join([first, *(heads.sub("", text) for text in rest)])
