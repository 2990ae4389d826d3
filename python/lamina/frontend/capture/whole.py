"""Keeps interpolation ops whole, which torch decomposes in Python before it has traced their gradients.

torch has Python implementations of interpolation above autograd. With them, the gradient of reading neighbors is one scatter-add
per neighbor. Without them, autograd sees the op and calls the op's own backward pass, which Lamina's table decomposes into sums;
where the table does not, ATen computes it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import core_aten_decompositions

aten = torch.ops.aten

_PACKETS = (
    aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d, aten._upsample_nearest_exact1d,
    aten._upsample_nearest_exact2d, aten._upsample_nearest_exact3d, aten.upsample_linear1d, aten.upsample_bilinear2d,
    aten.upsample_trilinear3d, aten.upsample_bicubic2d,
)  # fmt: skip
RESIZING = tuple(getattr(packet, overload) for packet in _PACKETS for overload in ("default", "vec"))
_KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)

# torch remembers from its first look which ops have Python implementations: that has to come before any are taken away.
core_aten_decompositions().keys()

_lock = threading.Lock()
_inside = 0
_taken: dict[torch._ops.OpOverload, dict[Any, Any]] = {}


@contextmanager
def interpolation_whole() -> Iterator[None]:
    """Removes torch's Python implementations from the interpolation ops while gradients are traced; C++'s take their place.

    Traces in other threads meanwhile give the same values.
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
