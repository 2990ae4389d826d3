"""The simulator's versions of triton.experimental.gluon.language and triton.language."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from triton.experimental.gluon import language as real
from triton.language import core

from .scheduler import Program
from .shared import Memory
from .values import Pointer, Tensor, given_shape, matched, plain, shape_of, tensor, torch_type


def _floating(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Tensor]:
    def called(x: Any, **_: Any) -> Tensor:
        if not tensor(x).data.dtype.is_floating_point:
            raise TypeError(f"{function.__name__} of {tensor(x).dtype}: want floating point numbers")
        return Tensor(function(tensor(x).data))

    return called


def _of_two(function: Callable[..., torch.Tensor]) -> Callable[..., Tensor]:
    return lambda x, y, **_: Tensor(function(*matched(x, y)))


def _reduction(function: Callable[..., torch.Tensor], nothing: float) -> Callable[..., Tensor]:
    """Reduces in at least 32 bits. NaN loses against every number, but not in a sum."""

    def called(x: Tensor, axis: Any = None, keep_dims: bool = False, **_: Any) -> Tensor:
        wide = x.data
        if wide.dtype.itemsize < 4:
            wide = wide.float() if wide.dtype.is_floating_point else wide.int()
        if nothing and wide.dtype.is_floating_point:
            wide = wide.masked_fill(wide.isnan(), nothing)
        axes = list(range(wide.ndim)) if axis is None else [plain(axis)]
        return Tensor(function(wide, dim=axes, keepdim=bool(plain(keep_dims))).to(wide.dtype))

    return called


def _largest(x: Any, y: Any, propagate_nan: Any = None, **_: Any) -> Tensor:
    return Tensor((torch.maximum if propagate_nan == core.PropagateNan.ALL else torch.fmax)(*matched(x, y)))


def _smallest(x: Any, y: Any, propagate_nan: Any = None, **_: Any) -> Tensor:
    return Tensor((torch.minimum if propagate_nan == core.PropagateNan.ALL else torch.fmin)(*matched(x, y)))


def _reduce(x: Any, axis: Any, combine: Callable[..., Any], keep_dims: Any = False) -> Any:
    """Reduces a tensor, or several at once, one element after the other."""
    several = isinstance(x, tuple | core.tuple)
    parts = [[Tensor(part) for part in t.data.unbind(plain(axis))] for t in (x if several else [x])]
    found = [p[0] for p in parts]
    for others in list(zip(*parts, strict=True))[1:]:
        made = combine(*found, *others)
        found = list(made) if several else [made]
    if plain(keep_dims):
        found = [Tensor(t.data.unsqueeze(plain(axis))) for t in found]
    return tuple(found) if several else found[0]


def _checked(condition: Any, message: Any = "", **_: Any) -> None:
    assert bool(tensor(condition).data.all()), plain(message)


def _same(x: Any, *_: Any, **__: Any) -> Any:
    return x


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _floating(getattr(torch, name)) for name in "exp exp2 log log2 sqrt rsqrt floor ceil sin cos erf".split()},
    **{name: _of_two(getattr(torch, name)) for name in "add sub mul".split()},
    "sqrt_rn": _floating(torch.sqrt),
    "maximum": _largest,
    "minimum": _smallest,
    "reduce": _reduce,
    "fdiv": _of_two(torch.div),
    "div_rn": _of_two(torch.div),
    "sum": _reduction(torch.sum, 0),
    "max": _reduction(torch.amax, -float("inf")),
    "min": _reduction(torch.amin, float("inf")),
    "abs": lambda x: Tensor(tensor(x).data.abs()),
    "fma": lambda x, y, z: tensor(x) * y + z,
    "cdiv": lambda x, y: (x + y - 1) // y,
    "cast": lambda x, dtype, **options: tensor(x).to(dtype, **options),
    "reshape": lambda x, *shape: x.reshape(*shape),
    "permute": lambda x, *order: x.permute(*order),
    "split": lambda x: x.split(),
    "join": lambda x, y: Tensor(torch.stack(torch.broadcast_tensors(*matched(x, y)), -1)),
    "expand_dims": lambda x, axis: Tensor(tensor(x).data.unsqueeze(plain(axis))),
    "broadcast": lambda x, y: tuple(Tensor(t) for t in torch.broadcast_tensors(tensor(x).data, tensor(y).data)),
    "broadcast_to": lambda x, *shape: Tensor(tensor(x).data.expand(given_shape(shape))),
    "where": lambda condition, x, y: Tensor(torch.where(tensor(condition).data.bool(), *matched(x, y))),
    "arange": lambda start, end, layout=None: Tensor(torch.arange(plain(start), plain(end), dtype=torch.int32)),
    "full": lambda shape, value, dtype, layout=None: Tensor(torch.full(shape_of(shape), plain(value), dtype=torch_type(dtype))),
    "zeros": lambda shape, dtype, layout=None: Tensor(torch.zeros(shape_of(shape), dtype=torch_type(dtype))),
    "full_like": lambda x, value, **_: Tensor(torch.full_like(x.data, plain(value))),
    "zeros_like": lambda x, **_: Tensor(torch.zeros_like(x.data)),
    "convert_layout": lambda x, layout, assert_trivial=False: tensor(x),
    "set_auto_layout": lambda x, layout: tensor(x),
    "to_tensor": tensor,
    "constexpr": _same,
    "multiple_of": _same,
    "max_contiguous": _same,
    "max_constancy": _same,
    "range": lambda *bounds, **_: (tensor(i) for i in builtins.range(*(plain(b) for b in bounds))),
    "static_range": lambda *bounds: builtins.range(*(plain(b) for b in bounds)),
    "static_assert": _checked,
    "device_assert": _checked,
    "assume": _checked,
    "static_print": lambda *_: None,
    "num_ctas": lambda: 1,
}


class Language:
    """Simulates the module `gl` for one program. Layouts and types are Triton's own."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def __getattr__(self, name: str) -> Any:
        if name in _FUNCTIONS:
            return _FUNCTIONS[name]
        found = getattr(real, name, getattr(core, name, None))
        if isinstance(found, type | core.dtype):
            return found
        raise NotImplementedError(f"the simulator does not know gl.{name}")

    def program_id(self, axis: Any) -> Tensor:
        return tensor(self._program.place[plain(axis)])

    def num_programs(self, axis: Any) -> Tensor:
        return tensor(self._program.grid[plain(axis)])

    def num_warps(self) -> int:
        return self._program.running.warps

    def barrier(self, **_: Any) -> None:
        """Synchronizes the warps of a partition, which are one thread here."""
        self._program.pause()

    thread_barrier = barrier  # its name in triton 3.6

    def load(self, pointer: Pointer, mask: Any = None, other: Any = None, **_: Any) -> Tensor:
        """Loads elements. Masked ones are `other`, or NaN if there is none, since no result may depend on them."""
        self._program.pause()
        offsets, chosen = self._reached(pointer, mask)
        kind = pointer.memory.dtype
        missing = tensor((float("nan") if kind.is_floating_point else -1) if other is None else other).data.to(kind)
        found = pointer.memory[offsets.where(chosen, torch.zeros_like(offsets))]
        return Tensor(torch.where(chosen, found, missing))

    def store(self, pointer: Pointer, value: Any, mask: Any = None, **_: Any) -> None:
        self._program.pause()
        offsets, chosen, values = self._reached(pointer, mask, tensor(value).data)
        pointer.memory[offsets[chosen]] = values[chosen].to(pointer.memory.dtype)

    def atomic_add(self, pointer: Pointer, value: Any, mask: Any = None, **_: Any) -> Tensor:
        before = self.load(pointer, mask)
        offsets, chosen, values = self._reached(pointer, mask, tensor(value).data)
        pointer.memory.index_put_((offsets[chosen],), values[chosen].to(pointer.memory.dtype), accumulate=True)
        return before

    def _reached(self, pointer: Pointer, mask: Any, *more: torch.Tensor) -> list[torch.Tensor]:
        try:
            return pointer.reached(mask, *more)
        except IndexError as e:
            raise self._program.fault(f"out of bounds: {e}") from e

    def allocate_shared_memory(self, dtype: Any, shape: Any, layout: Any, value: Any = None) -> Memory:
        made = Memory.allocate(self._program, torch_type(dtype), shape_of(shape))
        if value is not None:
            made.store(value)
        return made

    def warp_specialize(self, functions: Any, worker_num_warps: Any, worker_num_regs: Any = None) -> Any:
        """Returns the first function's result, computed by the warps that are running; the others get warps of their own."""
        if any(n is not None and len(n) != len(functions) - 1 for n in (worker_num_warps, worker_num_regs)):
            raise self._program.fault("warp_specialize wants warps and registers for every function but the first")
        bodies = [partial(function, *arguments) for function, arguments in functions]
        return self._program.specialize(bodies, [plain(n) for n in worker_num_warps])
