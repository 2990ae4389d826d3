"""Rewrites 1-D depthwise convolutions of f32, and their gradients, as 2-D ones on row-major images of one row."""

from typing import ClassVar

from torch_mlir import ir

from lamina.core.sizes import is_symbolic

from ...ir.generics import copied
from ...ir.reading import shape_of
from ..surroundings import group_before, strides_of
from .calls import Convolution
from .one_row import call_with_row


class _Signals(Convolution):
    """A 1-D depthwise convolution of f32, or its gradients, with row-major results of known sizes, except for the batch."""

    rank: ClassVar[int] = 3

    @property
    def suits(self) -> bool:
        """Whether Lamina's kernels can compute it as one of images."""
        known = self.has_depthwise_window and not is_symbolic(shape_of(self.image)[1:])
        return known and not self.transposed and self.element_types == {"f32"} and self.is_channels_first


def as_image(op: ir.Operation) -> ir.Operation:
    """Replaces a call that Lamina's kernels can compute as one of images; returns any other call as it is. Signals whose columns
    are not neighbors in memory are copied: these kernels, and oneDNN's, read rows."""
    if _Signals.read(op) is None:
        return op
    for i, v in enumerate(op.operands):
        if len(shape_of(v)) == 3 and strides_of(v)[-1] != 1:
            op.operands[i] = _row_major(op, v)
    return call_with_row(op)


def _row_major(op: ir.Operation, v: ir.Value) -> ir.Value:
    return group_before(op, [op], {v: v}, [v.type], lambda values: [copied(values[v])], "copy").results[0]
