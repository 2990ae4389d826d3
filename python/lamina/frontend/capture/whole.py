"""Chooses which ops autograd sees while gradients are traced: ops kept whole, which torch decomposes in Python before that, and ops
with other gradients than those of C++ (decompositions/gradients.py).

torch has Python implementations of some ops above autograd. With those of interpolation, the gradient of reading neighbors is one
scatter-add per neighbor. Without them, autograd sees the op and calls the op's own backward pass, which Lamina's table decomposes
into sums; where the table does not, ATen computes it.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions
from torch._decomp.decompositions import upsample_compute_output_size

from ..decompositions.gradients import ABOVE_AUTOGRAD

aten = torch.ops.aten

_PACKETS = (
    aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d, aten._upsample_nearest_exact1d,
    aten._upsample_nearest_exact2d, aten._upsample_nearest_exact3d, aten.upsample_linear1d, aten.upsample_bilinear2d,
    aten.upsample_trilinear3d, aten.upsample_bicubic2d, aten._upsample_bilinear2d_aa, aten._upsample_bicubic2d_aa,
)  # fmt: skip
WRONG = (aten.multilabel_margin_loss_forward.default,)
"""Ops that torch's implementations compute wrongly: this one counts the labels behind the first -1, too."""
RESIZING = tuple(getattr(packet, overload) for packet in _PACKETS for overload in ("default", "vec"))
_KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)

# torch remembers from its first look which ops have Python implementations: that has to come before any are taken away.
core_aten_decompositions().keys()

_lock = threading.Lock()
_inside: Counter[torch._ops.OpOverload] = Counter()
_taken: dict[torch._ops.OpOverload, dict[Any, Any]] = {}


def _by_sizes(op: torch._ops.OpOverload) -> Callable[..., Any]:
    """Returns an implementation of an overload that takes sizes or scale factors, by the one that takes sizes."""

    def run(x: Tensor, output_size: Sequence[int] | None, *args: Any) -> Any:
        """Computes the output size from the scale factors."""
        *rest, factors = args
        return op.overloadpacket.default(x, upsample_compute_output_size(x.size(), output_size, factors), *rest, *(factors or []))

    return run


@contextmanager
def kept_composite(*ops: torch._ops.OpOverload) -> Iterator[None]:
    """Removes torch's Python implementations from ops while they are traced; C++'s take their place, and for overloads that take
    scale factors, whose C++ knows no symbolic sizes, calls of those that take sizes. Gives those of ABOVE_AUTOGRAD
    their implementations.

    Traces in other threads meanwhile give the same values.
    """
    with _lock:
        for op in ops:
            _inside[op] += 1
            if _inside[op] == 1:
                _take_implementations(op)
    try:
        yield
    finally:
        with _lock:
            for op in ops:
                _inside[op] -= 1
                if _inside[op] == 0:
                    _give_implementations_back(op)


def _take_implementations(op: torch._ops.OpOverload) -> None:
    _taken[op] = {key: op.py_kernels.pop(key) for key in _KEYS if key in op.py_kernels}
    if op._overloadname == "vec":
        op.py_kernels.update(dict.fromkeys(_taken[op], _by_sizes(op)))
    if op in ABOVE_AUTOGRAD:
        op.py_kernels[torch._C.DispatchKey.Autograd] = ABOVE_AUTOGRAD[op]
    op._dispatch_cache.clear()


def _give_implementations_back(op: torch._ops.OpOverload) -> None:
    for key in _KEYS:
        op.py_kernels.pop(key, None)
    op.py_kernels.update(_taken.pop(op))
    op._dispatch_cache.clear()
