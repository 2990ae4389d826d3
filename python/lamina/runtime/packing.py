"""Decides which matrix products and convolutions bypass ATen on a CPU, and which of these run on packed weights (native/packed.h).

A packed weight is a copy, so only tensors that do not change in place are packed: constants of the program, and the inputs that the
user froze (`Options.freeze_weights`).
"""

from collections.abc import Callable, Collection
from math import prod
from typing import Any

import torch

from lamina import _native
from lamina.core.program import Call, Program, Ref

PRODUCTS = 2_000_000
"""The m*n*k below which at::mm_out is as fast as other routines of the libraries."""
ROWS = 16
"""The number of rows or columns below which at::mm_out is as fast."""
ROWS_BY_TILES = 4
"""The number of rows below which at::mm_out is as fast as Lamina's tiles on a transposed weight, which they read only once."""


def gemm(step: Call, program: Program, frozen: Collection[int]) -> dict[str, Any] | None:
    """Describes a step as an f32 matrix product, by MKL on a packed weight, by Lamina's tiles (native/product.h) or by oneDNN.
    Returns None if it is not one, or if ATen is as fast.

    frozen  the inputs of the program whose elements do not change in place
    """
    if step.callee not in ("aten.mm.default", "aten.addmm.default"):
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
    if {a.dtype, b.dtype, out.dtype} != {"f32"}:
        return None
    (m, k), n = a.shape, b.shape[1]
    lda, ldc = _row_major(a), _row_major(out)
    ldb, transposed = _row_major(b), False
    if ldb is None:
        ldb, transposed = _row_major(Ref(b.buffer, b.offset, b.dtype, b.shape[::-1], b.strides[::-1])), True
    if lda is None or ldb is None or ldc is None:
        return None
    packed = _packs_products() and _is_frozen(b, program, frozen)
    large = min(m, n) >= ROWS and m * n * k >= PRODUCTS
    tiles = _native.has_routine("product_tiles") and n >= ROWS and k > 0 and m >= (ROWS_BY_TILES if transposed else ROWS)
    if not tiles and not (large and (packed or _native.has_routine("onednn_matmul"))):
        return None
    sizes = (m, n, k, lda, ldb, ldc)
    return {"sizes": sizes, "transposed": transposed, "bias": bias is not None, "packed": packed and large, "tiles": tiles}


def _packs_products() -> bool:
    """Returns whether a packed weight makes products faster: with MKL on Intel's processors. On others, oneDNN without is as
    fast."""
    return _native.has_routine("packed_gemm") and not _native.has_routine("onednn_matmul")


def _is_frozen(r: Ref, program: Program, frozen: Collection[int]) -> bool:
    """Returns whether a tensor is a constant or a frozen input."""
    buffer = program.buffers[r.buffer]
    return buffer.kind == "constant" or (buffer.kind == "input" and buffer.index in frozen)


def _columns(out: Ref | None) -> tuple[Any, ...]:
    """Returns the shape of a bias that is added to each row of a result."""
    return tuple(out.shape[1:]) if out else ()


def _row_major(r: Ref) -> int | None:
    """Returns the leading dimension of a matrix with contiguous rows; None for any other."""
    (rows, columns), (outer, inner) = r.shape, r.strides
    if columns > 1 and inner != 1:
        return None
    if rows == 1:
        return max(columns, 1)
    return outer if outer >= max(columns, 1) else None


def weight_reorder(step: Call, program: Program, frozen: Collection[int]) -> Callable[[torch.Tensor], Any] | None:
    """Returns the function that packs the weight of a convolution for oneDNN. It returns a capsule of a tensor handle that the
    caller owns.

    Returns None unless the step is a 2-D convolution in f32 whose weight is a whole input in `frozen`. oneDNN's result is channels
    last; if the plan needs another layout, None as well, unless copying the result costs less than packing the weight.
    """
    if step.callee != "aten.convolution.default" or not _native.has_routine("packed_convolution") or not _can_reorder():
        return None
    source, weight, _, stride, padding, dilation, transposed, _, groups = step.args
    out = step.owned[0]
    if not (isinstance(source, Ref) and isinstance(weight, Ref) and isinstance(out, Ref)) or transposed:
        return None
    if len(out.shape) != 4 or {source.dtype, weight.dtype} != {"f32"} or 0 in (*source.shape, *weight.shape):
        return None
    if not _is_frozen(weight, program, frozen) or not _is_argument(weight, program):
        return None
    if not _is_channels_last(out) and prod(out.shape) >= prod(weight.shape):
        return None

    def reorder(tensor: torch.Tensor) -> Any:
        """Packs the weight in oneDNN's blocked format."""
        packed = torch.ops.mkldnn._reorder_convolution_weight(
            tensor.detach(), padding, stride, dilation, groups, list(source.shape)
        )
        return torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(packed)

    return reorder


def _is_argument(r: Ref, program: Program) -> bool:
    """Returns whether a tensor is a whole argument, in the argument's own layout."""
    buffer = program.buffers[r.buffer]
    if buffer.kind != "input" or r.offset != 0:
        return False
    given = program.inputs[buffer.index]
    same_strides = all(n == 1 or a == b for n, a, b in zip(r.shape, r.strides, given.strides, strict=False))
    return tuple(given.shape) == tuple(r.shape) and same_strides


def _can_reorder() -> bool:
    """Returns whether this torch has what `weight_reorder` needs."""
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
