"""Routines of other libraries, by overload: which are allowed as `reason = library`, which can write into given memory, and which
may return memory of their arguments."""

from collections.abc import Sequence

from lamina.core.layout import Layout

ATTENTION = ("lamina.attention.default", "lamina.attention_backward.default")
"""Lamina's op and its gradients (frontend/attention/op.py)."""

_VENDORS_ATTENTION = tuple(
    f"aten._scaled_dot_product_{kind}{backward}.default"
    for kind in ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
    for backward in ("", "_backward")
)

READS_ROWS = frozenset(_VENDORS_ATTENTION)
"""Overloads that read operands without looking at the stride of the last dimension, which has to be 1."""
READS_ALIGNED = frozenset(name for name in READS_ROWS if "_for_cpu" not in name)
"""Those of them whose operands have to begin at multiples of 16 bytes."""

SCALED_PRODUCT = "aten._scaled_mm.default"
PRODUCTS = (SCALED_PRODUCT, *(f"aten.{name}.default" for name in ("mm", "addmm", "bmm", "baddbmm")))
"""Matrix products that Lamina may compute, too."""

CONVOLUTION, CONVOLUTION_RELU = CONVOLUTIONS = ("aten.convolution.default", "aten.cudnn_convolution_relu.default")
CONVOLUTION_BACKWARD = "aten.convolution_backward.default"

LIBRARY = frozenset(
    {
        *PRODUCTS,
        "aten._addmm_activation.default",
        "aten._grouped_mm.default",
        *CONVOLUTIONS,
        CONVOLUTION_BACKWARD,
        *ATTENTION,
        *_VENDORS_ATTENTION,
    }
)
"""Overloads for which a vendor's library may be the best choice, and Lamina's attention, which lamina-select-kernels and
lamina-vendor-calls replace. All else that Lamina does not compile is a fallback, except the draw of seeds, which are torch's
(frontend/fx/random_bits.py)."""

STRICT = frozenset({SCALED_PRODUCT, "aten._grouped_mm.default"})
"""Library overloads that, as all fallbacks do, need operands in the memory order that eager gives them: cuBLASLt multiplies 8-bit
matrices by transposed ones only."""

_MATRIX_OUT = frozenset({"aten.mm.default", "aten.addmm.default", "aten._addmm_activation.default"})
_BATCH_OUT = frozenset({"aten.bmm.default", "aten.baddbmm.default"})


def writes_in_place(callee: str, outs: Sequence[Layout]) -> bool:
    """Returns whether the runtime can have `callee` write into given memory of these layouts, with no copy inside.

    The matrix products have `out` variants in torch's C shim (aoti_torch_cpu_mm_out, addmm_out, bmm_out, baddbmm_out): 2-D results
    go anywhere a BLAS leading dimension describes, batches of them only row-major. Convolution's `out` variant computes elsewhere
    and copies, attention has none: those return memory of their own.
    """
    if len(outs) != 1:
        return False
    (out,) = outs
    if callee in _MATRIX_OUT:
        return len(out.shape) == 2 and out.is_dense
    return callee in _BATCH_OUT and out.is_row_major


_VIEWS = frozenset(
    """
    alias as_strided chunk conj _conj detach diagonal expand expand_as _fw_primal imag lift_fresh mH mT movedim narrow _neg_view
    permute positive real _reshape_alias reshape resolve_conj resolve_neg select set_ slice split split_with_sizes squeeze t
    tensor_split transpose unbind unflatten unfold unsafe_chunk unsafe_split unsafe_split_with_sizes _unsafe_view unsqueeze view
    view_as view_as_complex view_as_real contiguous to type_as flatten ravel
    """.split()
)
_PRIM_VIEWS = frozenset(
    """
    as_strided broadcast_in_dim collapse_view conj real imag slice slice_in_dim split_dim squeeze transpose view_element_type
    view_of
    """.split()
)


def may_alias(callee: str) -> bool:
    """Returns whether a result of `callee` may share memory with one of its tensor arguments. Custom operators may not: torch
    forbids it. So these are ATen's own views, and its ops that write in place."""
    namespace, _, rest = callee.partition(".")
    base = rest.partition(".")[0]
    is_view = (namespace == "aten" and base in _VIEWS) or (namespace == "prims" and base in _PRIM_VIEWS)
    return is_view or writes_first(callee)


def writes_first(callee: str) -> bool:
    """Returns whether `callee` is an op of ATen's that writes to its first argument and returns it, such as index_put_."""
    return callee.startswith("aten.") and callee.split(".")[1].endswith("_")
