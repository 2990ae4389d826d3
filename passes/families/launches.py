"""Describes launches of Lamina's kernels that are written in source: their arguments, constants and grid, from a call's tensors."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lamina.core.gpu import Gpu
from lamina.core.program import Call, Ref
from lamina.core.program_needs import require_number
from lamina.core.sizes import Size, SizeLike

_LEAST = 16  # least rows and columns of a tensor core operand


@dataclass(frozen=True)
class Source:
    """A kernel that is written in source, which calls of it in a program become launches of.

    function  the module and the name of the @triton.jit or @gluon.jit function: "lamina.kernels.products.grouped:grouped"
    launch    describes the launch for a call, in the keys of frontend/fx/ops/kernel_op.py
    on_gpu    returns the call to make on a GPU, perhaps of another kernel; None: the call as it is
    """

    function: str
    launch: Callable[[Call], dict[str, Any]]
    on_gpu: Callable[[Call, Gpu], Call] | None = None


def launch(
    call: Call,
    tensors: Mapping[str, str],
    constants: Mapping[str, Any],
    programs: SizeLike,
    warps: int = 4,
    stages: int = 1,
    flops: SizeLike = 0,
    reached: Sequence[SizeLike] = (),
) -> dict[str, Any]:
    """Describes the launch for a call by the keys that frontend/fx/ops/kernel_op.py uses, with `arguments` in place of `call`,
    and `sizes`: the symbolic sizes among the constants, which the arguments call n0, n1, ...

    tensors    parameters that are tensors, with the names of the launch's: x0 is its first operand, y0 its first result
    constants  other parameters: numbers, names, sizes and tuples of these; those that the kernel does not have are left out
    reached    products of sizes that the kernel computes in 32 bits: they are among the sizes, as binding checks these
    """
    size_names: dict[SizeLike, str] = {}

    def shown(x: Any) -> str:
        """Returns a value as Python text, in which symbolic sizes are parameters."""
        if isinstance(x, tuple):
            return f"({''.join(f'{shown(part)}, ' for part in x).rstrip()})"
        return size_names.setdefault(x, f"n{len(size_names)}") if isinstance(x, Size) else repr(x)

    arguments = {**tensors, **{name: shown(x) for name, x in constants.items()}}
    for size in reached:
        shown(size)
    fields = {"of": dict(call.kwargs)["of"], "arguments": arguments, "grid": (programs, 1, 1), "sizes": tuple(size_names)}
    return {**fields, "warps": warps, "stages": stages, "flops": flops}


def tensors(call: Call) -> tuple[Ref, ...]:
    """Returns a call's input tensors."""
    return tuple(ref for ref in call.args if isinstance(ref, Ref))


def sizes(ref: Ref) -> tuple[int, ...]:
    """Returns a tensor's sizes as numbers. Raises CompileError for a symbolic one."""
    return tuple(require_number(n, "a kernel") for n in ref.shape)


def strides(ref: Ref) -> tuple[SizeLike, ...]:
    """Returns strides in elements, 0 for dimensions of length 1: a mask is then read for all heads, and the stride of a single
    element may be anything."""
    return tuple(0 if n == 1 else s for n, s in zip(ref.shape, ref.strides, strict=True))


def tensor_core_size(n: int) -> int:
    """Returns the least power of two that is no less than n and 16, the least that tensor cores take."""
    return max(_LEAST, 1 << math.ceil(math.log2(n)))
