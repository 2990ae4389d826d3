"""Checks that candidates compute the same results."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

BOUNDS = {
    torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: 1e-3, torch.complex64: 1e-3, torch.float16: 5e-3,
    torch.bfloat16: 2e-2, torch.float8_e4m3fn: 1e-1, torch.float8_e5m2: 2e-1,
}  # fmt: skip
_OTHERWISE = 2e-1  # the remaining dtypes have 8 bits or fewer
_PIECE = 1 << 24  # elements compared at a time: f64 copies of whole results might not fit


def difference(results: Sequence[Tensor], expected: Sequence[Tensor]) -> str:
    """Describes how a candidate's results differ from the expected ones; "" if they agree.

    The norm of the difference may be the fraction of the expected norm that the dtype allows; integers must be equal. An element
    that is not finite is wrong where the expected one is finite; where the expected one is not, any element is right.
    """
    if len(results) != len(expected):
        return f"{len(results)} results instead of {len(expected)}"
    for number, (found, wanted) in enumerate(zip(results, expected, strict=True)):
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            return f"result {number} is {_type(found)} instead of {_type(wanted)}"
        if wrong := _differs(found, wanted):
            return f"result {number} {wrong}"
    return ""


def copies_of(results: Sequence[Tensor]) -> list[Tensor]:
    """Returns copies of results, to compare with what other candidates compute in the same memory."""
    return [result.detach().clone() for result in results]


def overwrite(results: Sequence[Tensor]) -> None:
    """Overwrites results that have been checked: elements that a later candidate does not write would look right in their
    memory."""
    with torch.no_grad():
        for result in results:
            if result.is_floating_point() or result.is_complex():
                result.fill_(float("nan"))
            else:
                result.bitwise_not_()


def _differs(result: Tensor, wanted: Tensor) -> str:
    if not wanted.is_floating_point() and not wanted.is_complex():
        return "" if torch.equal(result, wanted) else "differs"
    bound, far, size = BOUNDS.get(wanted.dtype, _OTHERWISE), 0.0, 0.0
    for a, b in zip(_pieces(result), _pieces(wanted), strict=True):
        finite = b.isfinite()
        if not bool((a.isfinite() | ~finite).all()):
            return "is not finite where it should be"
        far += float((a - b).masked_fill_(~finite, 0.0).square_().sum())
        size += float(b.masked_fill(~finite, 0.0).square_().sum())
    if far**0.5 <= bound * size**0.5:
        return ""
    return f"is off by {(far / size) ** 0.5:.1e} of its norm, {bound:.0e} allowed" if size else "is not zero where it should be"


def _pieces(tensor: Tensor) -> Iterator[Tensor]:
    """Yields the elements in f64, in pieces."""
    flat = torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor.detach()
    return (piece.double() for piece in flat.reshape(-1).split(_PIECE))


def _type(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
