"""Lays out the results of decompositions in memory as eager's ops do.

A decomposition computes the right elements, but its own ops may order them in memory otherwise than the op that it replaces. Later
code sees that order: in the strides of a graph's outputs, in `view`, and in whether `reshape` copies.
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._dispatch.python import no_python_dispatcher
from torch._prims_common import is_contiguous_or_false, suggest_memory_format
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils._sympy import functions

from ..fx.aliases import is_dense, storage
from .undecided import guess, surely

aten = torch.ops.aten

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd

# Overloads or packets whose fake-tensor kernels report other layouts than eager has. _ROW_MAJOR: all results are row-major.
# _CHANNELS_LAST_OR_ROW_MAJOR: the first result is channels-last where the input is, and row-major otherwise.
# _CHANNELS_LAST_ON_CPU: the same on a CPU, row-major on a GPU. _AS_PRODUCTS: the result is laid out as a product of the same
# tensors; the fake-tensor kernels expand the tensors first.
_ROW_MAJOR = (
    aten.rrelu, aten.rrelu_with_noise, aten.rrelu_with_noise_functional, aten.log_sigmoid_forward, aten.pow.Scalar,
    aten.upsample_nearest1d, aten._upsample_nearest_exact1d,
)  # fmt: skip
_CHANNELS_LAST_OR_ROW_MAJOR = (
    aten.roll, aten.native_batch_norm, aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training, aten._batch_norm_with_update, aten._batch_norm_with_update_functional,
)  # fmt: skip
_CHANNELS_LAST_ON_CPU = (aten.max_unpool2d, aten.channel_shuffle, aten.native_channel_shuffle)
_LIKE_IMAGES = tuple(
    getattr(aten, name)
    for kind in ("upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d", "_upsample_bilinear2d_aa")
    for name in (kind, f"{kind}_backward")
)
"""Ops whose only result is channels-last where the first argument is, and row-major otherwise; their fake-tensor kernels take no
symbolic sizes."""
_REFERENCES = {aten.constant_pad_nd.default: torch._refs.constant_pad_nd}
"""Ops whose kernel reads what symbolic tensors do not tell, with torch's reference implementations."""
_AS_PRODUCTS = (aten.copysign.Tensor, aten.div.Tensor_mode, aten.floor_divide.default)


_DENSE = "lamina_dense"
"""Attribute of tensors laid out with gaps: the tensor without."""


def as_eager(op: torch._ops.OpOverload, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a decomposition so that its results are laid out as eager's results of `op`.

    The op's fake-tensor kernel reports that layout. It is not asked where all tensor arguments and results are row-major: eager's
    results are row-major then, too. An op whose schema says that its results are new tensors returns no argument's memory.
    """
    called = _in_eager(op)
    is_new = not is_composed_by_torch(op) and all(r.alias_info is None for r in op._schema.returns)

    @wraps(decomposition)
    def laid_out_as_eager(*args: Any, **kwargs: Any) -> Any:
        """Gives the decomposition's results the strides that eager's have."""
        made = decomposition(*args, **kwargs)
        if made is NotImplemented:
            return made
        given = pytree.tree_leaves((args, kwargs))
        results, how = pytree.tree_flatten(made)
        held = {storage(g) for g in given if isinstance(g, Tensor)}
        shares = is_new and any(_shares(t, held) for t in results)
        if not shares and all(map(_is_row_major, (*given, *results))):
            return made
        eager = _image(results, args) if op.overloadpacket in _LIKE_IMAGES else _results(op, called, args, kwargs)
        if shares:
            results = [t.clone() if _shares(t, held) and _is_fresh(e, held) else t for t, e in zip(results, eager, strict=True)]
        pairs = zip(results, eager, strict=True)
        return pytree.tree_unflatten([laid_out(a, b) if _is_fresh(a, held) and _is_fresh(b, held) else a for a, b in pairs], how)

    return laid_out_as_eager


def _in_eager(op: torch._ops.OpOverload) -> Callable[..., Any]:
    """Returns a function that computes the results of `op` as eager does.

    For a composite op it is C++'s own decomposition: while torch.export traces, it puts Lamina's in that place.
    """
    if op in _AS_PRODUCTS:
        return lambda a, b, **_: torch.mul(a, b)
    if op in _REFERENCES:
        return _REFERENCES[op]
    return partial(op._op_dk, _COMPOSITE) if is_composed_by_torch(op) else op


def is_composed_by_torch(op: torch._ops.OpOverload) -> bool:
    """Returns whether torch's dispatcher has no kernels for the op and decomposes it instead."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), _COMPOSITE)


def _results(op: torch._ops.OpOverload, called: Callable[..., Any], args: Any, kwargs: Any) -> list[Any]:
    """Returns the results of eager's op for these arguments, as fake tensors."""
    args, kwargs = pytree.tree_map_only(Tensor, Tensor.detach, (args, kwargs))
    with disable_proxy_modes_tracing(), no_python_dispatcher():
        found = pytree.tree_leaves(called(*args, **kwargs))
        if op in _ROW_MAJOR or op.overloadpacket in _ROW_MAJOR:
            return [t.contiguous() if isinstance(t, Tensor) else t for t in found]
        on_cpu = op.overloadpacket in _CHANNELS_LAST_ON_CPU and args[0].device.type == "cpu"
        if on_cpu or op.overloadpacket in _CHANNELS_LAST_OR_ROW_MAJOR:
            found[0] = found[0].contiguous(memory_format=suggest_memory_format(args[0]))
    return found


def _image(results: list[Any], args: Any) -> list[Any]:
    with disable_proxy_modes_tracing():
        return [results[0].contiguous(memory_format=suggest_memory_format(args[0]))]


def laid_out(value: Any, like: Any) -> Any:
    """Returns a tensor with the elements of `value` in the memory layout of `like`, gaps included.

    Returns `value` itself where it has that layout already, or where elements of `like` share memory.
    """
    if not isinstance(value, Tensor) or not isinstance(like, Tensor):
        return value
    with disable_proxy_modes_tracing():  # the graph does not compute the sizes of `like`
        if value.shape != like.shape or has_strides(value, like):
            return value
        order = sorted(range(like.dim()), key=lambda d: guess(like.stride(d)), reverse=True)
        dense = is_dense(like)
    if not dense:
        return _with_gaps(value, like, [d for d in order if not surely(like.shape[d] <= 1)])
    turned = value.permute(order).clone(memory_format=torch.contiguous_format)
    return turned.permute([order.index(d) for d in range(like.dim())])


def _with_gaps(value: Tensor, like: Tensor, order: Sequence[int]) -> Tensor:
    """Lays out `value` with strides that leave gaps. order: dimensions of more than one element, the slowest in memory first."""
    rest = [d for d in range(like.dim()) if d not in order]
    rows = value.permute([*order, *rest]).reshape([*(like.shape[d] for d in order), 1])
    used = 1
    for d in reversed(order):
        stride = like.stride(d)
        if used > stride:
            return value
        rows = aten.constant_pad_nd.default(rows, [0, stride - used]).flatten(-2)
        used += (like.shape[d] - 1) * stride
        rows = aten.slice.Tensor(rows, -1, 0, used)  # a longer row would have torch guard on what remains after the last element
    spread = rows.as_strided(like.shape, like.stride(), 0)
    setattr(spread, _DENSE, value)
    return spread


def dense(value: Tensor) -> Tensor:
    """Returns a tensor with the elements of `value`, for reading only these: for a tensor that was laid out with gaps, the one that
    it was made of."""
    return getattr(value, _DENSE, value)  # type: ignore[no-any-return]


def has_strides(value: Tensor, like: Tensor) -> bool:
    """Returns whether the strides that matter are equal: those of dimensions with more than one element. True for empty tensors."""
    pairs = zip(value.shape, value.stride(), like.stride(), strict=True)
    return surely(value.numel() == 0) or all(surely(n == 1) or _same_stride(a, b) for n, a, b in pairs)


def _same_stride(a: Any, b: Any) -> bool:
    """Returns whether strides are equal where their tensor has elements: torch counts sizes that may be 0 as max(1, size)."""
    return surely(a == b) or _where_elements(a) == _where_elements(b)


def _where_elements(stride: Any) -> Any:
    if not isinstance(stride, torch.SymInt):
        return sympy.Integer(stride)
    return stride.node.expr.replace(
        lambda e: isinstance(e, functions.Max | sympy.Max) and len(e.args) == 2 and 1 in e.args,
        lambda e: next(size for size in e.args if size != 1),
    )


def _is_row_major(leaf: Any) -> bool:
    return not isinstance(leaf, Tensor) or is_contiguous_or_false(leaf)


def _shares(value: Any, held: set[int]) -> bool:
    return isinstance(value, Tensor) and storage(value) in held


def _is_fresh(value: Any, held: set[int]) -> bool:
    return isinstance(value, Tensor) and storage(value) not in held
