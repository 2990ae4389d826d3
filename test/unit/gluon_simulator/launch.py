"""A launch of a kernel: its Python body, and those of the functions that it calls, with the simulator's names for Gluon's."""

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from triton.language import core
from triton.runtime.jit import JITFunction

from .carried import check_loops
from .hopper import Barriers, Products, Tma
from .language import Language
from .scheduler import Program
from .values import pointer, tensor


def simulate(
    function: JITFunction,
    grid: int | tuple[int, ...],
    arguments: Mapping[str, Any] | Sequence[Any],
    *,
    programs: Iterable[int] | None = None,
    num_warps: int = 4,
    seed: int = 0,
) -> None:
    """Runs the programs of a grid, one after the other, in any order; writes into the tensors among the arguments.

    arguments  by name or in order: tensors on the CPU, whose first elements pointers are to, numbers, and what is constexpr
    programs   those to run, counted with the first axis as the fastest; all of them if None
    num_warps  of the kernel, which are those of the first partition
    seed       of the order in which partitions take turns and copies come: another is another run of the same kernel

    Raises Fault for what the package's docstring lists, and what the kernel's own body raises.
    """
    sizes = (grid,) if isinstance(grid, int) else tuple(grid)
    sizes += (1,) * (3 - len(sizes))
    every = [place[::-1] for place in product(*(range(n) for n in reversed(sizes)))]
    chosen = every if programs is None else [every[i] for i in programs]
    named = arguments if isinstance(arguments, Mapping) else dict(zip(function.arg_names, arguments, strict=True))
    given = {p.name: _argument(named[p.name], p.is_constexpr) for p in function.params if p.name in named}
    for place in random.Random(seed).sample(chosen, len(chosen)):
        program = Program(place, sizes, num_warps, seed)
        program.run(partial(_Names(program).function(function), **given))


def _argument(x: Any, constant: bool) -> Any:
    if isinstance(x, torch.Tensor):
        return pointer(x)
    return core._unwrap_if_constexpr(x) if constant else tensor(x)


class _Names:
    """Maps the names in a kernel's module to their meaning while a program runs."""

    def __init__(self, program: Program) -> None:
        self.gl, self.barriers, self.tma = Language(program), Barriers(program), Tma(program)
        self.products = Products(program)
        self.made: dict[JITFunction, Any] = {}

    def function(self, jit: JITFunction) -> Any:
        if jit not in self.made:
            fn = jit.fn
            check_loops(fn)
            known: dict[str, Any] = {"range": self.gl.range}
            defaults = tuple(core._unwrap_if_constexpr(d) for d in fn.__defaults__ or ())
            made = self.made[jit] = FunctionType(fn.__code__, known, fn.__name__, defaults, fn.__closure__)
            made.__kwdefaults__ = fn.__kwdefaults__
            known |= {name: self.of(x) for name, x in fn.__globals__.items() if name in _used(fn.__code__)}
        return self.made[jit]

    def of(self, x: Any) -> Any:
        """Returns the stand-in of a global: for Triton's modules a simulated one, for functions of kernels a rebuilt one, else
        the global itself."""
        module = x.__name__ if isinstance(x, ModuleType) else getattr(x, "__module__", None) or ""
        if module.startswith(("triton.language", "triton.experimental.gluon.language")) and not isinstance(x, core.constexpr):
            ours = self._module(module)
            return ours if isinstance(x, ModuleType) else getattr(ours, x.__name__)
        return self.function(x) if isinstance(x, JITFunction) else core._unwrap_if_constexpr(x)

    def _module(self, name: str) -> Any:
        last = name.rsplit(".", 1)[-1]
        return {"tma": self.tma, "mbarrier": self.barriers, "hopper": self.products}.get(last, self.gl)


def _used(code: CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*(_used(c) for c in inner))
