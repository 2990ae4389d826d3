"""Compiles CUDA C++ to PTX by NVRTC, an NVIDIA library that needs neither a GPU nor a C++ compiler. It comes with torch for CUDA,
or as the package nvidia-cuda-nvrtc, and is loaded when the first kernel is compiled."""

import ctypes
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from lamina.core.cuda_source import CudaSource
from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu

OVERRIDE = "LAMINA_NVRTC"
_NAMES = ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12")
_ERROR = re.compile(r"^(.+?)\((\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (.*)$", re.MULTILINE)
_MISSING = re.compile(r'could not open source file "([^"]+)"|cannot open source file "([^"]+)"')
_SHOWN = 3  # errors that a message shows at most


def compile_source(source: CudaSource, macros: Mapping[str, str], gpu: Gpu) -> tuple[str, str]:
    """Returns the PTX and the kernel's mangled name in it. Raises CompileError with NVRTC's messages and the user's line where it
    refuses."""
    library = _Nvrtc(*_library(source))
    program = library.program(_with_macros(source, macros), source.file)
    try:
        expression = source.function.encode()
        library.check("nvrtcAddNameExpression", program, expression)
        options = [f"--gpu-architecture=compute_{gpu.arch.removeprefix('sm_')}", *source.flags]
        options += [f"-I{folder}" for folder in _includes(library.path)]
        given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        code = library.calls.nvrtcCompileProgram(program, len(options), given)
        if code:
            raise _refusal(source, library.text("ProgramLog", program) or library.error_text(code))
        lowered = ctypes.c_char_p()
        library.check("nvrtcGetLoweredName", program, expression, ctypes.byref(lowered))
        return library.text("PTX", program), (lowered.value or b"").decode()
    finally:
        library.calls.nvrtcDestroyProgram(ctypes.byref(program))


def _with_macros(source: CudaSource, macros: Mapping[str, str]) -> str:
    """Returns the text with macros after its last #include: names in headers are not to be replaced by them."""
    lines = source.text.split("\n")
    behind = max((i + 1 for i, line in enumerate(lines) if re.match(r"\s*#\s*include\b", line)), default=0)
    defined = [f"#define {name} {text}" for name, text in macros.items()]
    first, then = (f'#line {source.line + i} "{source.file}"' for i in (0, behind))
    return "\n".join((first, *lines[:behind], *defined, then, *lines[behind:], ""))


class _Nvrtc:
    """The loaded library.

    calls  its functions
    path   its file, "" if the dynamic linker found it by name
    """

    def __init__(self, calls: ctypes.CDLL, path: str) -> None:
        self.calls, self.path = calls, path

    def program(self, text: str, name: str) -> ctypes.c_void_p:
        """Makes an NVRTC program from a source text and its file name."""
        handle = ctypes.c_void_p()
        self.check("nvrtcCreateProgram", ctypes.byref(handle), text.encode(), name.encode(), 0, None, None)
        return handle

    def text(self, what: str, program: ctypes.c_void_p) -> str:
        """Returns an output of a program, such as "PTX" or "ProgramLog"."""
        size = ctypes.c_size_t()
        self.check(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        found = ctypes.create_string_buffer(size.value)
        self.check(f"nvrtcGet{what}", program, found)
        return found.value.decode(errors="replace")

    def error_text(self, code: int) -> str:
        """Returns the text of an error code."""
        self.calls.nvrtcGetErrorString.restype = ctypes.c_char_p
        return str(self.calls.nvrtcGetErrorString(code).decode())

    def check(self, function: str, *arguments: object) -> None:
        """Calls a function. Raises CompileError if it returns an error code."""
        if code := getattr(self.calls, function)(*arguments):
            raise CompileError(f"{function} failed: {self.error_text(code)}")


def _library(source: CudaSource) -> tuple[ctypes.CDLL, str]:
    library = find_library()
    if library is None:
        raise CompileError(
            f"kernel {source.name} is CUDA C++, and there is no NVRTC to compile it",
            where=source.place,
            remedy=f"pip install nvidia-cuda-nvrtc, or name a libnvrtc.so in {OVERRIDE}",
        )
    return library


def find_library() -> tuple[ctypes.CDLL, str] | None:
    """Returns the NVRTC library and its path; None if there is none."""
    return _opened(os.environ.get(OVERRIDE, ""))


@cache
def _opened(override: str) -> tuple[ctypes.CDLL, str] | None:
    """Returns the library and its path: the one that LAMINA_NVRTC names, else the newest in NVIDIA's packages, else the
    system's."""
    if override:
        try:
            return _loaded(override), override
        except OSError as error:
            raise CompileError(
                f"{OVERRIDE} names {override}, which cannot be loaded: {error}", remedy=f"unset {OVERRIDE}"
            ) from error
    packaged = [f for folder in _packages() for f in folder.glob("*/lib/libnvrtc.so.*")]
    newest = sorted(packaged, key=lambda f: [int(n) for n in re.findall(r"\d+", f.name)], reverse=True)
    for path in (*map(str, newest), *_NAMES):
        try:
            return _loaded(path), path if path not in _NAMES else ""
        except OSError:
            continue
    return None


def _loaded(path: str) -> ctypes.CDLL:
    """Loads a library, after the builtins library next to it, which it opens by its bare name. Raises OSError if that fails."""
    for other in Path(path).parent.glob("libnvrtc-builtins.so*") if "/" in path else ():
        ctypes.CDLL(str(other), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(path)


def _packages() -> Iterator[Path]:
    """Yields the folders of the namespace package that NVIDIA's packages share."""
    spec = find_spec("nvidia")
    yield from map(Path, spec.submodule_search_locations or () if spec else ())


def _includes(library: str) -> Iterator[Path]:
    """Yields the folders of headers such as cuda_fp16.h: next to the library, in NVIDIA's packages, in CUDA_HOME, in triton."""
    folders = [Path(library).parents[1] / "include"] if library else []
    folders += [folder for root in _packages() for folder in sorted(root.glob("*/include"))]
    if home := os.environ.get("CUDA_HOME"):
        folders.append(Path(home, "include"))
    triton = find_spec("triton")
    folders += [Path(root, "backends", "nvidia", "include") for root in (triton.submodule_search_locations or () if triton else ())]
    for folder in dict.fromkeys(folders):
        yield from (folder / inner for inner in ("", "cccl") if (folder / inner).is_dir())


def _refusal(source: CudaSource, log: str) -> CompileError:
    errors = _ERROR.findall(log)
    messages = [message.strip() for _, _, message in errors] or [line for line in log.strip().splitlines() if line][:1]
    more = f" (and {len(messages) - _SHOWN} more)" if len(messages) > _SHOWN else ""
    header = next((a or b for a, b in _MISSING.findall(log)), "")
    return CompileError(
        f"NVRTC refuses kernel {source.function}: {'; '.join(messages[:_SHOWN])}{more}",
        where=f"{errors[0][0]}:{errors[0][1]}" if errors else source.place,
        remedy=_remedy(header) if header else "",
    )


def _remedy(header: str) -> str:
    if header.startswith(("nv/", "cuda/", "cub/", "thrust/")):
        return "pip install nvidia-cuda-cccl, which has it"
    if header.startswith(("cuda", "vector_", "cooperative_groups")):
        return "pip install nvidia-cuda-runtime, which has it"
    if "." not in header or header == "stdint.h":
        return f"NVRTC has no standard library of C++: nvidia-cuda-cccl has <cuda/std/{header.removesuffix('.h')}>"
    return 'name its folder: flags=("-I...",)'
