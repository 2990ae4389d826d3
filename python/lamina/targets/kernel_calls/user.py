"""Compiles a program's calls of source kernels to PTX and launches: users' kernels, and Lamina's own.

A kernel in CUDA C++ goes through NVRTC (cuda). One in Triton is called by a generated kernel whose parameters are pointers only:

    @triton.jit
    def custom_scaled_add(x0, x1, y0):
        kernel(x_ptr=x0, y_ptr=x1, out_ptr=y0, n=tl.full((), 1024, tl.int32), BLOCK=256)
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lamina.core.cuda_source import CudaSource
from lamina.core.custom_kernel import CustomKernel
from lamina.core.dtypes import ELEMENT_TYPES
from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.program import ITEM_BYTES, Buffer, Call, Launch, Program, Ref
from lamina.core.sizes import SizeLike, divisor

from ..triton.compiler import Awaited, CompiledKernel, define, renamed
from ..triton.printing.printed import HEADER
from ..triton.stages import ALIGNED, to_ptx
from .cuda import compile_cuda
from .hooks import function_of
from .own import place_own_kernels

_GLUON = f"{HEADER}from triton.experimental import gluon\n"
REASON = "kernel"  # the reason of calls that stand for source kernels: users', and Lamina's own
_POINTER = {type_.name: f"*{type_.pointee}" for type_ in ELEMENT_TYPES if type_.pointee}


@dataclass(frozen=True)
class UserKernel:
    """A kernel to compile: one source function with one set of constants.

    symbol     its name in the code
    key        key of the function that it calls
    call       the arguments of that function, as text
    arguments  dtype and alignment of each pointer: inputs, then outputs
    outputs    how many of them are outputs
    hook       names of the parameters that receive the epilogue function and its operands; "" if it has none
    epilogue   the epilogue, as lamina-select-kernels has written it
    gluon      the function is in Gluon, Triton's lower-level language
    divisors   of the symbolic sizes that it computes with, n0, n1, ...: each is a multiple of its divisor
    threads, shared  of kernels in CUDA C++: threads of a block along x, y and z, bytes of dynamic shared memory
    """

    symbol: str
    key: str
    call: str
    arguments: tuple[tuple[str, int], ...]
    outputs: int
    warps: int
    stages: int
    threads: tuple[int, ...] = ()
    shared: int = 0
    hook: str = ""
    epilogue: str = ""
    gluon: bool = False
    divisors: tuple[int, ...] = ()

    @property
    def block(self) -> int:
        """The number of threads of a block."""
        return math.prod(self.threads) if self.threads else 32 * self.warps

    @property
    def text(self) -> str:
        """The text of the generated kernel that calls the Triton function."""
        n_in = len(self.arguments) - self.outputs
        names = [*(f"x{i}" for i in range(n_in)), *(f"y{i}" for i in range(self.outputs))]
        call, above = self.call, ""
        if self.hook:
            function, operands = self.hook.split(" ")
            text, taken = function_of(f"{self.symbol}_epilogue", self.epilogue)
            above = f"\n\n{text}\n"
            call += f", {function}={self.symbol}_epilogue, {operands}=({''.join(f'{name}, ' for name in taken).rstrip()})"
        header, jit = (_GLUON, "gluon.jit") if self.gluon else (HEADER, "triton.jit")
        loads = [f"n{i} = tl.multiple_of(tl.load(sizes + {i}), {n})" for i, n in enumerate(self.divisors)]
        body = "\n    ".join([*loads, f"kernel({call})"])
        return f"{header}{above}\n\n@{jit}\ndef {self.symbol}({', '.join([*names, *self._sizes])}):\n    {body}\n"

    @property
    def pointers(self) -> tuple[tuple[str, int], ...]:
        """Triton's types of its parameters, and the alignment of their memory in bytes."""
        given = tuple((_POINTER[dtype], align) for dtype, align in self.arguments)
        return (*given, *((_POINTER["i32"], ALIGNED) for _ in self._sizes))

    @property
    def _sizes(self) -> list[str]:
        """The parameter with the symbolic sizes, if there are any."""
        return ["sizes"] if self.divisors else []


def as_launches(program: Program) -> tuple[Program, list[UserKernel]]:
    """Replaces a program's calls of source kernels by launches. Returns the program and the kernels; identical calls share one."""
    used_names = {step.kernel for step in program.steps if isinstance(step, Launch)}
    name_of: dict[UserKernel, str] = {}
    buffers, sizes = list(program.buffers), list(program.sizes)
    steps = []
    for step in program.steps:
        if not isinstance(step, Call) or step.reason != REASON:
            steps.append(step)
            continue
        kernel = _kernel(step)
        if kernel not in name_of:
            stem = f"custom_{re.sub(r'[^0-9A-Za-z_]', '_', kernel.symbol)}"
            name = next(n for n in (stem, *(f"{stem}_{i}" for i in range(1, len(program.steps) + 1))) if n not in used_names)
            used_names.add(name)
            name_of[kernel] = name
        launch = _launch(step, kernel, name_of[kernel])
        if needed := _sizes(step):
            scratch = Ref(len(buffers), 0, "i32", (len(needed),), (1,))
            buffers.append(Buffer("sizes", len(sizes), 0, ITEM_BYTES["i32"] * len(needed), -1))
            sizes.append(needed)
            launch = replace(launch, scratch=(scratch,))
        steps.append(launch)
    program = replace(program, steps=tuple(steps), buffers=tuple(buffers), sizes=tuple(sizes))
    return program, [replace(kernel, symbol=name) for kernel, name in name_of.items()]


def launched_with(call: Call) -> tuple[Ref, ...]:
    """Returns the tensors that the kernel is launched with: inputs, then outputs."""
    return (*(ref for ref in call.args if isinstance(ref, Ref)), *call.outs)


def _kernel(call: Call) -> UserKernel:
    """Describes the kernel that a call launches."""
    kwargs: dict[str, Any] = dict(call.kwargs)
    arguments = tuple((_checked(ref, call), alignment(ref)) for ref in launched_with(call))
    return UserKernel(
        symbol=kwargs["name"],
        arguments=arguments,
        outputs=len(call.outs),
        divisors=tuple(map(divisor, _sizes(call))),
        **{name: kwargs[name] for name in ("key", "call", "warps", "stages")},
        **{name: kwargs[name] for name in ("threads", "shared", "hook", "epilogue", "gluon") if name in kwargs},
    )


def _sizes(call: Call) -> tuple[SizeLike, ...]:
    """Returns the symbolic sizes that a kernel computes with."""
    kwargs: dict[str, Any] = dict(call.kwargs)
    return kwargs.get("sizes", ())


def _checked(ref: Ref, call: Call) -> str:
    if ref.dtype not in _POINTER:
        why = f"{call.name} takes a tensor of {ref.dtype}, which Triton has no type for"
        raise CompileError(why, where=", ".join(call.where), remedy="pass another dtype, or write the kernel in CUDA C++")
    return ref.dtype


def alignment(ref: Ref) -> int:
    """Returns the known alignment of a tensor in bytes."""
    return math.gcd(ALIGNED, divisor(ref.offset))


def _launch(call: Call, kernel: UserKernel, symbol: str) -> Launch:
    """Returns the launch that a call becomes."""
    kwargs: dict[str, Any] = dict(call.kwargs)
    refs = launched_with(call)
    x, y, z = kwargs["grid"] if math.prod(kwargs["grid"]) else (0, 1, 1)
    moved = sum(_elements(ref) * ITEM_BYTES[ref.dtype] for ref in dict.fromkeys(refs))
    return Launch(
        kernel=symbol,
        args=refs,
        n_out=len(call.outs),
        grid=x,
        grid_yz=(y, z),
        bytes=moved,
        flops=kwargs.get("flops", 0),
        name=kwargs["name"],
        where=call.where,
        ops=(kwargs["of"], *kwargs.get("fused", ())),
        threads=kernel.threads[0] if kernel.threads else 32 * kernel.warps,
        threads_yz=(kernel.threads[1], kernel.threads[2]) if kernel.threads else (1, 1),
    )


def _elements(ref: Ref) -> SizeLike:
    """Counts a tensor's elements in memory; expanded dimensions count once."""
    return math.prod(n for n, stride in zip(ref.shape, ref.strides, strict=True) if stride != 0)


def compile_user(kernel: UserKernel, function: Any, gpu: Gpu) -> CompiledKernel:
    """Compiles a source kernel to PTX. Raises CompileError with the compiler's message and the user's line where it refuses."""
    if isinstance(function, CudaSource):
        return compile_cuda(kernel, function, gpu)
    try:
        compiled = to_ptx(wrapper_function(kernel, function), kernel.pointers, gpu, warps=kernel.warps, stages=kernel.stages)
    except Exception as error:  # Triton raises what its stages raise
        raise _refusal(error, kernel, function) from error
    jit = "gluon.jit" if kernel.gluon else "triton.jit"
    text = f"# {_start(function)}\n@{jit}\n{function.src.rstrip()}\n\n\n{kernel.text.removeprefix(HEADER).strip()}"
    return CompiledKernel(kernel.symbol, renamed(compiled.text, compiled.name, kernel.symbol), compiled.needs, text)


def wrapper_function(kernel: UserKernel, function: Any) -> Any:
    """Returns the generated Triton function, which calls the source function."""
    return define(kernel.symbol, kernel.text, kernel=function)


def _refusal(error: BaseException, kernel: UserKernel, function: Any) -> CompileError:
    """Makes the error for a kernel that Triton refuses. Triton raises a chain of errors, one per call level; the last has the
    message."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    located = [e for e in chain if getattr(e, "node", None) is not None]
    last = located[-1] if located else error
    message = getattr(last, "error_message", None) or _said(chain[-1] if located else error)
    name = function.fn.__name__
    return CompileError(
        f"Triton refuses kernel {name}({kernel.call}): {message}",
        where=next((line for e in reversed(located) if (line := _line(e, function))), _start(function)),
    )


def _said(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def _line(error: Any, function: Any) -> str:
    """Returns the line of a user's function that an error of Triton's is at, or ""."""
    for found in _functions(function):
        if found.src == error.src:
            skipped = next((i for i, line in enumerate(found.raw_src) if line.lstrip().startswith("def ")), 0)
            return f"{found.fn.__code__.co_filename}:{found.starting_line_number + skipped + error.node.lineno - 1}"
    return ""


def _functions(function: Any) -> Iterator[Any]:
    """Yields a @triton.jit function and those that it can reach through module globals."""
    from triton.runtime.jit import JITFunction

    waiting, seen = [function], set()
    while waiting:
        found = waiting.pop()
        if id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [value for value in found.fn.__globals__.values() if isinstance(value, JITFunction)]


def _start(function: Any) -> str:
    return f"{function.fn.__code__.co_filename}:{function.fn.__code__.co_firstlineno}"


def take(program: Program, users: Sequence[CustomKernel], gpu: Gpu) -> tuple[Program, Sequence[Awaited]]:
    """Replaces calls of source kernels by launches. Returns the program and the kernels, to be compiled with all others.

    users  the users' kernels that the program may call
    """
    program, own = place_own_kernels(program, gpu)
    program, kernels = as_launches(program)
    found = {**{user.kernel.cache_key: user.kernel for user in users}, **own}
    return program, [Awaited(kernel.symbol, partial(compile_user, kernel, found[kernel.key], gpu)) for kernel in kernels]
