"""Maps torch's dtypes to the short names that programs use, and back."""

import torch

from lamina.core.dtypes import ELEMENT_TYPES

CODES: dict[torch.dtype, str] = {getattr(torch, type_.torch): type_.name for type_ in ELEMENT_TYPES}

DTYPES = {code: dtype for dtype, code in CODES.items()}
