"""Keeps ops whole that torch takes apart in Python before it has traced their gradients.

torch has implementations of interpolation in Python that stand above autograd: with them, the gradient of reading neighbours is one
scatter with additions for each neighbour. Without them, autograd sees the op and calls the op's own backward pass, which our table
computes as sums, and ATen does where the table does not.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

aten = torch.ops.aten

_PACKETS = (
    aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d, aten._upsample_nearest_exact1d,
    aten._upsample_nearest_exact2d, aten._upsample_nearest_exact3d, aten.upsample_linear1d, aten.upsample_bilinear2d,
    aten.upsample_trilinear3d, aten.upsample_bicubic2d,
)  # fmt: skip
RESIZING = tuple(getattr(packet, overload) for packet in _PACKETS for overload in ("default", "vec"))
_KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)

_lock = threading.Lock()
_inside = 0
_taken: dict[torch._ops.OpOverload, dict[Any, Any]] = {}


@contextmanager
def interpolation_whole() -> Iterator[None]:
    """While tracing gradients, takes torch's implementations in Python from the ops of interpolation; C++'s take their place.

    Other threads' traces meanwhile give the same values.
    """
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            for op in RESIZING:
                _taken[op] = {key: op.py_kernels.pop(key) for key in _KEYS if key in op.py_kernels}
                op._dispatch_cache.clear()
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for op, kernels in _taken.items():
                    op.py_kernels.update(kernels)
                    op._dispatch_cache.clear()
                _taken.clear()
