"""Makes random tensors that kernels are measured on."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from lamina.runtime.dtypes import DTYPES

_RANGES = {torch.bool: (0, 2), torch.int8: (-127, 128)}

Memory = tuple[torch.dtype, Sequence[int], Sequence[int]]
"""Dtype, shape and strides of a tensor."""


def dtype_of(element: str) -> torch.dtype | None:
    """Returns the dtype of an MLIR element type; None for types that torch has no tensors of."""
    return DTYPES.get("bool" if element == "i1" else element.lower())


def random_tensors(wanted: Iterable[Memory], device: torch.device) -> list[Tensor]:
    """Returns normal random numbers, bool masks that are half true, bytes like those of quantized numbers, and zeros for other
    integers, which may be indices. The state of torch's generators is left unchanged."""
    out = []
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        for dtype, shape, strides in wanted:
            last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
            flat = torch.zeros(0 if 0 in shape else last + 1, dtype=dtype, device=device)  # with gaps between rows, if any
            if dtype.is_floating_point and dtype.itemsize == 1:
                flat.copy_(torch.randn(len(flat), device=device))  # f8 has no normal_
            elif dtype.is_floating_point:
                flat.normal_()
            elif dtype in _RANGES:
                flat.random_(*_RANGES[dtype])
            out.append(flat.as_strided(tuple(shape), tuple(strides)))
    return out
