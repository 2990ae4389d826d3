"""Chooses matrix products and convolutions that bypass ATen, and those that run on packed weights.

A packed weight is a copy, so only tensors that do not change in place are packed: constants of the program, and the inputs that the
user froze (`Options.freeze_weights`). See native/packed.h.
"""

from collections.abc import Callable, Collection
from math import prod
from typing import Any

import torch

from lamina import _native
from lamina.core.program import Call, Program, Ref

# Below this m*n*k, or with few rows or columns, at::mm_out is as fast as the libraries' other routines.
PRODUCTS = 2_000_000
ROWS = 16
# Lamina's tiles read the weight of a linear layer once, so they are faster from fewer rows on.
ROWS_BY_TILES = 4


def gemm(step: Call, program: Program, frozen: Collection[int]) -> dict[str, Any] | None:
    """Describes the step as an f32 matrix product for MKL on a packed weight, for Lamina's tiles (native/product.h) or for oneDNN.
    Returns None where ATen's is as good.

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
    """Returns whether a packed weight makes products faster: with MKL on Intel processors. On others oneDNN is as fast without."""
    return _native.has_routine("packed_gemm") and not _native.has_routine("onednn_matmul")


def _is_frozen(r: Ref, program: Program, frozen: Collection[int]) -> bool:
    buffer = program.buffers[r.buffer]
    return buffer.kind == "constant" or (buffer.kind == "input" and buffer.index in frozen)


def _columns(out: Ref | None) -> tuple[Any, ...]:
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
    """Returns the function that makes oneDNN's packed form of the weight, as a capsule of a tensor handle that the caller owns.

    Applies to a 2-D convolution in f32 whose weight is a whole `frozen` input; else None. oneDNN returns a channels-last result;
    where the plan counts on another layout, packing pays only when there is less to copy than to pack.
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
    """Returns whether a ref is a whole argument with its own layout."""
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
