"""Resolves argument tensors that the native runner cannot read directly: its slow path, for key sets that its fast check rejects.

An ordinary tensor's memory holds its values. With a conj or neg bit the values differ from those in memory; a subclass or a tensor
of a functorch transform may have no memory, or means more than its memory says.
"""

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch.autograd import forward_ad

_DATA = "pass a torch.Tensor with data"
_TRANSFORMS = {
    DispatchKey.FuncTorchBatched: "torch.func.vmap",
    DispatchKey.FuncTorchGradWrapper: "torch.func.grad, vjp or jvp",
    DispatchKey.Functionalize: "torch.func.functionalize",
}


def resolved(tensor: Tensor) -> Tensor | str:
    """Returns `tensor` when its memory holds its values, else a copy with its strides that does, or the error text."""
    problem = _problem(tensor)
    if problem is not None:
        return problem
    if tensor.layout is not torch.strided:
        return tensor  # the runner has an error for it
    if tensor._is_zerotensor():
        return torch.zeros_like(tensor)
    return materialized(tensor) if tensor.is_conj() or tensor.is_neg() else tensor


def materialized(tensor: Tensor, conj: bool = False, neg: bool = False) -> Tensor:
    """Returns a copy that holds the values of `tensor` with these bits set, and has its shape, strides and overlaps."""
    tensor = tensor.detach()
    flips = tensor.is_conj() != conj, tensor.is_neg() != neg
    memory = without_bits(tensor)
    extent = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    flat = memory.as_strided((extent,), (1,))
    if flips[0]:
        flat = flat.conj_physical()
    if flips[1]:
        flat = flat.neg()
    return with_bits(flat.as_strided(tensor.shape, tensor.stride(), 0), conj, neg)


def without_bits(tensor: Tensor) -> Tensor:
    """Returns a view of the raw memory of a tensor, without its conj and neg bits."""
    return with_bits(tensor, tensor.is_conj(), tensor.is_neg())


def with_bits(tensor: Tensor, conj: bool, neg: bool) -> Tensor:
    """Returns a view of a tensor with these bits flipped."""
    if conj:
        tensor = torch._conj(tensor)
    return torch._neg_view(tensor) if neg else tensor


def tangent_of(tensor: Tensor) -> str | None:
    """Returns the error text for a tensor with a forward-mode tangent, which compiled code would drop; else None."""
    if _problem(tensor) is not None or tensor.layout is not torch.strided:
        return None  # another error
    if forward_ad.unpack_dual(tensor).tangent is None:
        return None
    return "has a forward-mode tangent, which compiled code does not carry: call the model itself, or use reverse mode"


def _problem(tensor: Tensor) -> str | None:
    name = type(tensor).__name__
    keys = torch._C._dispatch_keys(tensor)
    if keys.has(DispatchKey.Python):
        return f"must be a tensor with memory; it is a {name}, whose values its class defines: {_DATA}"
    for key, transform in _TRANSFORMS.items():
        if keys.has(key):
            return f"is a tensor of {transform}, which cannot look into compiled code: apply it to the model and compile the result"
    if type(tensor).__torch_function__ is not torch._C._disabled_torch_function_impl and _overrides(tensor):
        return (
            f"is a {name}, whose __torch_function__ compiled code does not call: pass it .as_subclass(torch.Tensor), or use "
            'torch.compile(model, backend="lamina")'
        )
    if tensor.layout is torch.strided and tensor.numel() and not tensor._is_zerotensor() and not tensor.untyped_storage().nbytes():
        return "has no memory: its storage was resized to 0"
    return None


def _overrides(tensor: Tensor) -> bool:
    """Returns whether torch functions currently dispatch to the class of `tensor`."""
    return type(tensor) is not Tensor and torch.overrides.has_torch_function((tensor,))
