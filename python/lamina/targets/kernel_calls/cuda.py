"""Compiles user kernels in CUDA C++ to PTX by NVRTC, with the numbers of a launch as constants, as in Triton kernels."""

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from lamina.core.cuda_source import ELEMENTS, CudaSource, Parameter
from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.program import Needs

from ..triton.compiler import CompiledKernel, renamed
from ..triton.stages import ptx_version
from .nvrtc import compile_source
from .ptx_parameters import PtxParameter, bind, most_threads, parameters

if TYPE_CHECKING:
    from .user import UserKernel

_INTEGERS = ("u", "s", "b")
_ADDRESSES = ("u64", "b64", "s64")
_FLOATS: dict[str, type[np.floating[Any]]] = {"f32": np.float32, "f64": np.float64}
_HALF = ("__half", "half")
_BFLOAT = ("__nv_bfloat16", "nv_bfloat16")


def compile_cuda(kernel: "UserKernel", source: CudaSource, gpu: Gpu) -> CompiledKernel:
    """Compiles a user kernel to PTX. Raises CompileError with the user's line where NVRTC refuses it or a parameter does not
    fit."""
    launch = json.loads(kernel.call)
    ptx, entry = compile_source(source, launch["macros"], gpu)
    declared = parameters(ptx, entry)
    if len(declared) != len(launch["arguments"]):
        raise _misfit(source, f"takes {len(declared)} parameters, arguments gives {len(launch['arguments'])}")
    thread_limit = most_threads(ptx, entry)
    if thread_limit and kernel.block > thread_limit:
        raise _misfit(source, f"is for blocks of at most {thread_limit} threads, threads gives {kernel.block}")
    n_in = len(kernel.arguments) - kernel.outputs
    names = [*(f"x{i}" for i in range(n_in)), *(f"y{i}" for i in range(kernel.outputs))]
    bindings = [
        _Given(source, i, value, parameter, launch["macros"]).bound(names, kernel)
        for i, (value, parameter) in enumerate(zip(launch["arguments"], declared, strict=True))
    ]
    text, left = bind(ptx, entry, kernel.symbol, bindings, len(names), kernel.threads)
    if left:
        which = ", ".join(_Given(source, i, None, declared[i], {}).name for i in left)
        raise _misfit(source, f"takes the address of {which}, which are numbers", "copy it to a variable first")
    return CompiledKernel(
        kernel.symbol,
        renamed(_with_assembler_version(text, gpu), kernel.symbol, kernel.symbol),
        Needs(kernel.shared),
        _shown(kernel, source),
    )


def _with_assembler_version(ptx: str, gpu: Gpu) -> str:
    """Sets the PTX version and the target for the assembler.

    The assembler comes with Triton and may be older than NVRTC. C++ code for one chip compiles to instructions that both of their
    PTX versions have; the assembler refuses any others.
    """
    newest = ptx_version(gpu)
    version = re.search(r"^\.version (\d+)\.(\d+)", ptx, re.MULTILINE)
    if version and int(version[1]) * 10 + int(version[2]) > newest:
        ptx = ptx.replace(version[0], f".version {newest // 10}.{newest % 10}", 1)
    return re.sub(r"^\.target .*$", f".target {gpu.arch}", ptx, count=1, flags=re.MULTILINE)


class _Given:
    """The value of parameter `number` of a kernel: "x0", "y0", a number, or None for a null pointer."""

    def __init__(
        self, source: CudaSource, number: int, value: "str | int | float | None", parameter: PtxParameter, macros: dict[str, str]
    ) -> None:
        written = source.parameters
        self.source, self.value, self.parameter, self.macros = source, value, parameter, macros
        self.written = written[number] if written and number < len(written) else Parameter("", "")
        self.name = repr(self.written.name) if self.written.name else f"number {number}"
        self.typed = f" ({self.written.type})" if self.written.type else ""

    def bound(self, names: list[str], kernel: "UserKernel") -> int | bytes:
        """Returns the index of a pointer, or the bytes of a constant. Raises CompileError if the value does not fit the
        parameter."""
        if isinstance(self.value, str):
            self._check_pointer()
            number = names.index(self.value)
            needed, known = self.written.alignment(self.macros), kernel.arguments[number][1]
            if known % needed:
                raise self._refuse(
                    f"points to elements of {needed} bytes, but gets memory that begins at a multiple of {known}",
                    "pass a copy, as x.clone() makes one, or say by `when` that the kernel does not serve",
                )
            return number
        if self.value is None:
            self._check_pointer()
            return bytes(8)
        if self.written.is_pointer:
            raise self._refuse(f"is a pointer, but gets {self.value!r}")
        return self._constant(self.value)

    def _check_pointer(self) -> None:
        """Raises CompileError unless the parameter may be a pointer. Its type as written may be an alias of a pointer type, but not
        a known number type."""
        known = not self.written.is_pointer and self.written.element(self.macros) in ELEMENTS
        if known or self.parameter.type not in _ADDRESSES:
            raise self._refuse("is not a pointer, but gets " + ("None" if self.value is None else "a tensor"))

    def _constant(self, value: int | float) -> bytes:
        """Returns the bytes of a number in the parameter's type. Raises CompileError if that is no type of numbers."""
        kind, size = self.parameter.type, self.parameter.bytes
        element = self.written.element(self.macros)
        if kind in _FLOATS:
            return _float(value, _FLOATS[kind])
        if element in _HALF:
            return _float(value, np.float16)
        if element in _BFLOAT:
            return _bfloat(value)
        if f"{kind[0]}{size * 8}" != kind or kind[0] not in _INTEGERS:
            raise self._refuse("is a struct, but kernels take tensors and numbers")
        if isinstance(value, float):
            raise self._refuse(f"is an integer, but gets {value!r}", "round it in arguments: int(...)")
        if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
            raise self._refuse(f"gets {value}, which {8 * size} bits do not hold")
        return (int(value) % (1 << (8 * size))).to_bytes(size, "little")

    def _refuse(self, why: str, remedy: str = "") -> CompileError:
        return _misfit(self.source, f"parameter {self.name}{self.typed} {why}", remedy, colon=True)


def _float(value: float, dtype: type[np.floating[Any]]) -> bytes:
    """Converts to IEEE bytes; a value that is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return np.array(value, np.float64).astype(dtype).tobytes()


def _bfloat(value: float) -> bytes:
    """Converts to bfloat16 bytes, rounding to nearest, ties to even."""
    bits = int.from_bytes(_float(value, np.float32), "little")
    if value == value:
        bits += 0x7FFF + (bits >> 16 & 1)
    return (bits >> 16).to_bytes(2, "little")


def _misfit(source: CudaSource, why: str, remedy: str = "", *, colon: bool = False) -> CompileError:
    return CompileError(f"kernel {source.name}{':' if colon else ''} {why}", where=source.place, remedy=remedy)


def _shown(kernel: "UserKernel", source: CudaSource) -> str:
    """Returns the source as comments, since the text around it is Python."""
    lines = (f"{source.place}: {source.function} as {kernel.symbol}: {kernel.call}", *source.text.strip().splitlines())
    return "\n".join(f"# {line}".rstrip() for line in lines)
