"""Tensors in registers and pointers, as torch computes them on the CPU: types and rounding are Triton's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from triton.language import core

_TORCH = {
    core.int1: torch.bool,
    core.int8: torch.int8,
    core.uint8: torch.uint8,
    core.int16: torch.int16,
    core.int32: torch.int32,
    core.int64: torch.int64,
    core.float16: torch.float16,
    core.bfloat16: torch.bfloat16,
    core.float32: torch.float32,
    core.float64: torch.float64,
    core.float8e4nv: torch.float8_e4m3fn,
    core.float8e5: torch.float8_e5m2,
}
_TRITON = {there: here for here, there in _TORCH.items()}
_FLAG = torch.bool


def torch_type(dtype: Any) -> torch.dtype:
    return _TORCH[core._unwrap_if_constexpr(dtype)]


def triton_type(dtype: torch.dtype) -> Any:
    return _TRITON[dtype]


def plain(x: Any) -> Any:
    """Returns the number of a tensor without axes or of a constexpr; anything else unchanged."""
    x = core._unwrap_if_constexpr(x)
    return x.data.item() if isinstance(x, Tensor) and not x.data.ndim else x


class Tensor:
    """A value in registers. Layouts are not known: `layout` is None."""

    layout = None

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    @property
    def shape(self) -> list[int]:
        return list(self.data.shape)

    @property
    def dtype(self) -> Any:
        return triton_type(self.data.dtype)

    @property
    def type(self) -> Tensor:
        return self

    @property
    def T(self) -> Tensor:
        return Tensor(self.data.T)

    def to(self, dtype: Any, fp_downcast_rounding: Any = None, bitcast: bool = False) -> Tensor:
        wanted = torch_type(dtype)
        return Tensor(self.data.view(wanted) if bitcast else self.data.to(wanted))

    cast = to

    def reshape(self, *shape: Any) -> Tensor:
        return Tensor(self.data.reshape(given_shape(shape)))

    def permute(self, *order: Any) -> Tensor:
        return Tensor(self.data.permute(given_shape(order)))

    trans = permute

    def split(self) -> tuple[Tensor, Tensor]:
        if self.shape[-1] != 2:
            raise TypeError(f"split wants a last axis of 2, not {self.shape}")
        return Tensor(self.data[..., 0]), Tensor(self.data[..., 1])

    def __getitem__(self, at: Any) -> Tensor:
        return Tensor(self.data[at])

    def __neg__(self) -> Tensor:
        return Tensor(-self.data)

    def __invert__(self) -> Tensor:
        return Tensor(~self.data)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __index__(self) -> int:
        return int(self.data)

    def __repr__(self) -> str:
        return f"Tensor({self.data})"

    __hash__ = None  # type: ignore[assignment]


def shape_of(given: Any) -> list[int]:
    return [int(plain(n)) for n in core._unwrap_if_constexpr(given)]


def given_shape(numbers: Sequence[Any]) -> list[int]:
    """Returns the shape from arguments that are numbers, or one list of them."""
    first = core._unwrap_if_constexpr(numbers[0])
    return shape_of(first if isinstance(first, Sequence | core.tuple) else numbers)


def tensor(x: Any) -> Tensor:
    """Returns a tensor; a number gets the type that Triton gives it."""
    x = core._unwrap_if_constexpr(x)
    if isinstance(x, Tensor):
        return x
    if isinstance(x, bool):
        return Tensor(torch.tensor(x))
    if isinstance(x, int):
        return Tensor(torch.tensor(x, dtype=torch.int32 if -(1 << 31) <= x < 1 << 31 else torch.int64))
    if isinstance(x, float):
        return Tensor(torch.tensor(x, dtype=torch.float32))
    raise TypeError(f"{type(x).__name__} is used as a tensor, which it is not")


def matched(a: Any, b: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns both with one type: numbers take the tensor's if it can hold them."""
    x, y = tensor(a).data, tensor(b).data
    if isinstance(a, Tensor) and not isinstance(b, Tensor):
        kind = _weak(x, y)
    elif isinstance(b, Tensor) and not isinstance(a, Tensor):
        kind = _weak(y, x)
    else:
        kind = torch.promote_types(x.dtype, y.dtype)
    return x.to(kind), y.to(kind)


def _weak(strong: torch.Tensor, number: torch.Tensor) -> torch.dtype:
    if strong.dtype.is_floating_point or number.dtype == _FLAG:
        return strong.dtype
    if number.dtype.is_floating_point or strong.dtype == _FLAG:
        return number.dtype
    return torch.promote_types(strong.dtype, number.dtype)


def _binary(operation: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Tensor, other: Any) -> Any:
        if isinstance(other, Pointer):
            return NotImplemented
        return Tensor(operation(*matched(self, other)))

    def backward(self: Tensor, other: Any) -> Any:
        return Tensor(operation(*matched(other, self)))

    return forward, backward


def _true(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a / b if a.dtype.is_floating_point else a.float() / b.float()


def _floor(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Divides as C does, towards zero."""
    if a.dtype.is_floating_point:
        raise TypeError("// of floating point numbers is not Triton's")
    return torch.div(a, b, rounding_mode="trunc")


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": _true,
    "floordiv": _floor,
    "mod": torch.fmod,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}
_COMPARISONS = {name: getattr(operator, name) for name in "lt le gt ge eq ne".split()}
for _name, _operation in (_OPERATIONS | _COMPARISONS).items():
    _forward, _backward = _binary(_operation)
    setattr(Tensor, f"__{_name}__", _forward)
    if _name in _OPERATIONS:
        setattr(Tensor, f"__r{_name}__", _backward)


@dataclass(frozen=True, eq=False)
class Pointer:
    """Elements of a tensor's memory, by their offsets (int64) from its first."""

    memory: torch.Tensor
    offsets: torch.Tensor

    @property
    def dtype(self) -> Any:
        return SimpleNamespace(element_ty=triton_type(self.memory.dtype), is_ptr=lambda: True)

    @property
    def shape(self) -> list[int]:
        return list(self.offsets.shape)

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.offsets + tensor(offset).data.long())

    __radd__ = __add__

    def __sub__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.offsets - tensor(offset).data.long())

    def __getitem__(self, at: Any) -> Pointer:
        return Pointer(self.memory, self.offsets[at])

    def reached(self, mask: Any, *more: torch.Tensor) -> list[torch.Tensor]:
        """Offsets, mask and more, of one shape. Raises IndexError where one that is not masked is out of bounds."""
        given = torch.ones((), dtype=torch.bool) if mask is None else tensor(mask).data.bool()
        offsets, chosen, *rest = torch.broadcast_tensors(self.offsets, given, *more)
        bad = chosen & ((offsets < 0) | (offsets >= self.memory.numel()))
        if bad.any():
            first = bad.nonzero()[0].tolist()
            raise IndexError(f"element {offsets[tuple(first)].item()} of a tensor of {self.memory.numel()}, at index {first}")
        return [offsets, chosen, *rest]


def pointer(x: torch.Tensor) -> Pointer:
    """Returns a pointer to the first element of a tensor; its bounds are those that the strides reach."""
    reach = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    return Pointer(x.as_strided((reach,), (1,)), torch.zeros((), dtype=torch.int64))
