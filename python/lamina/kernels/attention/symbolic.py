"""Sizes in kernels as they are compiled: numbers are compile-time constants, symbolic sizes are values."""

from typing import Any

from triton.runtime.jit import constexpr_function


@constexpr_function  # type: ignore[untyped-decorator]
def may_end_inside(size: Any, block: int) -> bool:
    """Returns whether the last of the blocks that cover a size may be partial; true for a size that each call decides."""
    return not isinstance(size, int) or size % block != 0


@constexpr_function  # type: ignore[untyped-decorator]
def is_zero(stride: Any) -> bool:
    """Returns whether a stride is known to be zero."""
    return isinstance(stride, int) and stride == 0


@constexpr_function  # type: ignore[untyped-decorator]
def is_far(stride: Any, count: int) -> bool:
    """Returns whether so many steps of a stride need 64 bits. For a stride that each call decides, binding sees to it that they do
    not."""
    return isinstance(stride, int) and stride * count >= 1 << 31
