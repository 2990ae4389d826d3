"""Which library calls of a program may run on packed weights.

The native runner packs a weight that stays the same from call to call (see native/packed.h), so it must be an argument of the
program, where its identity can be watched.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from lamina import _native
from lamina.core.program import Call, Program, Ref

# Below this many products m*n*k, or with few rows, at::mm_out is as fast as a packed product.
PACK_PRODUCTS = 2_000_000
PACK_ROWS = 16


def packed_gemm(step: Call, program: Program) -> dict[str, Any] | None:
    """The step as a product with a weight that may be packed: f32, its second matrix an argument of the program."""
    if step.callee not in ("aten.mm.default", "aten.addmm.default") or not _native.has_routine("gemm"):
        return None
    bias, (a, b), out = None, step.args[-2:], step.outs[0] if step.outs else None
    if step.callee == "aten.addmm.default":
        bias = step.args[0]
        if len(step.args) != 3 or any(value != 1 for _, value in step.kwargs):
            return None
        if not isinstance(bias, Ref) or len(bias.shape) != 1 or bias.strides != (1,) or bias.shape != _columns(out):
            return None
    if not (isinstance(a, Ref) and isinstance(b, Ref) and isinstance(out, Ref)):
        return None
    if {a.dtype, b.dtype, out.dtype} != {"f32"} or program.buffers[b.buffer].kind != "input":
        return None
    (m, k), n = _ints(a.shape), _ints(b.shape)[1]
    lda, ldc = _row_major(a), _row_major(out)
    ldb, transposed = _row_major(b), False
    if ldb is None:
        ldb, transposed = _row_major(Ref(b.buffer, b.offset, b.dtype, b.shape[::-1], b.strides[::-1])), True
    if lda is None or ldb is None or ldc is None or m < PACK_ROWS or m * n * k < PACK_PRODUCTS:
        return None
    return {"sizes": (m, n, k, lda, ldb, ldc), "transposed": transposed, "bias": bias is not None}


def _columns(out: Ref | None) -> tuple[Any, ...]:
    return tuple(out.shape[1:]) if out else ()


def _row_major(r: Ref) -> int | None:
    """The leading dimension of a matrix with its rows in one piece each; None for any other."""
    (rows, columns), (outer, inner) = _ints(r.shape), _ints(r.strides)
    if columns > 1 and inner != 1:
        return None
    if rows == 1:
        return max(columns, 1)
    return outer if outer >= max(columns, 1) else None


def _ints(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(int(s) for s in sizes)


def weight_reorder(step: Call, program: Program) -> Callable[[torch.Tensor], Any] | None:
    """What makes oneDNN's packed form of the weight, as a capsule of a tensor handle that the caller owns.

    For a 2-D convolution in f32 whose weight is a whole argument. oneDNN returns a channels-last result; where the plan counts on
    another layout, packing pays only when there is less to copy than to pack.
    """
    if step.callee != "aten.convolution.default" or not _native.has_routine("packed_convolution") or not _can_reorder():
        return None
    source, weight, _, stride, padding, dilation, transposed, _, groups = step.args
    out = step.owned[0]
    if not (isinstance(source, Ref) and isinstance(weight, Ref) and isinstance(out, Ref)) or transposed:
        return None
    if len(out.shape) != 4 or {source.dtype, weight.dtype} != {"f32"} or 0 in (*source.shape, *weight.shape):
        return None
    if not _is_argument(weight, program):
        return None
    if not _is_channels_last(out) and prod(_ints(out.shape)) >= prod(_ints(weight.shape)):
        return None

    def reorder(tensor: torch.Tensor) -> Any:
        packed = torch.ops.mkldnn._reorder_convolution_weight(
            tensor.detach(), padding, stride, dilation, groups, list(source.shape)
        )
        return torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(packed)

    return reorder


def _is_argument(r: Ref, program: Program) -> bool:
    """Whether a tensor is a whole argument, as it is."""
    buffer = program.buffers[r.buffer]
    if buffer.kind != "input" or r.offset != 0:
        return False
    given = program.inputs[buffer.index]
    same_strides = all(n == 1 or a == b for n, a, b in zip(r.shape, r.strides, given.strides, strict=False))
    return tuple(given.shape) == tuple(r.shape) and same_strides


def _can_reorder() -> bool:
    aoti = getattr(torch._C, "_aoti", None)
    return (
        torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_reorder_convolution_weight")
        and hasattr(aoti, "unsafe_alloc_void_ptr_from_tensor")
    )


def _is_channels_last(r: Ref) -> bool:
    inner = 1
    for dim in (1, 3, 2, 0):
        if r.shape[dim] != 1 and r.strides[dim] != inner:
            return False
        inner *= int(r.shape[dim])  # type: ignore[arg-type]
    return True
