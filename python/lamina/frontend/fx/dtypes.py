"""Maps torch's dtypes to their forms in JSON and MLIR, and to the short names that programs use."""

from typing import Annotated

import torch

from lamina.core.program_json import Codec
from lamina.runtime.dtypes import CODES, DTYPES

__all__ = ["CODES", "DTYPES", "NAMED", "REAL", "Dtype", "wrapped"]

Dtype = Annotated[torch.dtype, Codec(CODES.__getitem__, DTYPES.__getitem__)]
"""The type of a dataclass's field that JSON holds as a dtype's short name."""

NAMED = {"u8", "u64"}
"""dtypes that MLIR's tensor types do not distinguish from signed integers: an attribute names them."""

REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}
"""The dtypes of the parts of complex numbers."""


def wrapped(number: int, dtype: torch.dtype) -> int:
    """Returns what an integer dtype makes of a number: eager's kernels wrap those around that it does not hold."""
    limits = torch.iinfo(dtype)
    return (number - limits.min) % (1 << limits.bits) + limits.min
