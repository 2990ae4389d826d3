"""lamina-depthwise: turns row-major (NCHW) depthwise convolutions of f32 into Lamina's CPU kernels.

oneDNN computes these in a layout blocked by channels, to and from which it copies images and results, or with its reference code.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.sizes import is_symbolic

from ...infra.base import Pass
from ...ir.affine import row_major
from ...ir.extern_calls import declared_strides
from ...ir.generics import copied, sums_of_products
from ...ir.reading import Untraceable, shape_of
from ...ir.reshapes import collapse
from ...space.contraction import Unfit
from ...space.planes.convolution import PLANES, PlaneWindow, planes_of
from ..surroundings import ValueMap, calls, copy_body, group_before, only_reader, replace_by, space_of, strides_of
from .calls import Convolution
from .depthwise_gradients import DepthwiseGradients
from .one_row import call_with_row


@dataclass(frozen=True)
class Depthwise(Pass):
    """Turn depthwise convolutions of f32 with row-major results into Lamina's CPU kernels.

    Before: @main holds groups and externs. After: such a convolution is a group marked `graph.planes`, which has its stride,
    padding and dilation, fused with its only reader where that is a pointwise group. lamina-tile computes it plane by plane
    (passes/space/planes). So is the gradient of its image; that of its weight is a group marked `graph.weight_gradient`
    (passes/space/planes/gradients.py). 1-D convolutions are those of images of one row.
    """

    name: ClassVar[str] = "lamina-depthwise"

    def run(self, module: ir.Module) -> None:
        """Rewrites the calls."""
        for op in map(_as_image, calls(module, symbolic=True)):
            if (call := _PlaneConvolution.read(op)) is not None:
                _replace(call)
            elif (gradients := DepthwiseGradients.read(op)) is not None:
                gradients.replace()


class _PlaneConvolution(Convolution):
    """A convolution of f32 with one filter per channel, a window of at most 64 elements and a row-major result."""

    @property
    def suits(self) -> bool:
        """Whether the kernel can compute it and its result lies row-major."""
        return self.suits_planes and declared_strides(self.op.results[0]) == row_major(shape_of(self.op.results[0]))

    def emit(self, image: ir.Value, weight: ir.Value, *bias: ir.Value) -> ir.Value:
        """Emits the convolution of a zero-padded image, with the bias if there is one."""
        image, weight = self.padded(image), collapse(weight, [[0, 1], [2], [3]])
        n, c, i, j, ki, kj = (ir.AffineDimExpr.get(d) for d in range(6))
        maps = [[n, c, *self.window(i, j, ki, kj)], [c, ki, kj], [n, c, i, j]]
        sums = sums_of_products(self.result, image, weight, maps, 2)
        return self.finish(sums, bias) if bias else sums


def _replace(call: _PlaneConvolution) -> None:
    op, after = call.op, only_reader(call.op)
    with op.context:
        for group in [after, None] if after is not None else [None]:
            new = _group_of(call, group)
            if not _fits(new):
                new.erase()
                continue
            replace_by(new.results, group, [op])
            return


def _group_of(call: _PlaneConvolution, group: ir.Operation | None) -> ir.Operation:
    """Builds the group that would replace a call and its reader, in front of them."""
    op = call.op
    after = [] if group is None else [v for v in group.operands if v != op.results[0]]
    operands = list(dict.fromkeys([*op.operands, *after]))

    def body(values: ValueMap) -> list[ir.Value]:
        """Computes the convolution and the epilogue."""
        sums = call.emit(*(values[v] for v in call.operands))
        return [sums] if group is None else copy_body(group, {**values, op.results[0]: sums})

    types = [v.type for v in (group or op).results]
    new = group_before(group or op, [op, group] if group else [op], {v: v for v in operands}, types, body, "convolution")
    new.attributes[PLANES] = PlaneWindow(call.stride, call.padding, call.dilation).attribute()
    return new


def _fits(group: ir.Operation) -> bool:
    """Returns whether the planes schedule can compute a group with row-major results."""
    try:
        planes_of(space_of(group), PlaneWindow.read(group.attributes[PLANES]), group.regions[0].blocks[0])
    except (Unfit, Untraceable):
        return False
    return True


class _Signals(Convolution):
    """A 1-D depthwise convolution of f32, or its gradients, with row-major results of known sizes, except for the batch."""

    rank: ClassVar[int] = 3

    @property
    def suits(self) -> bool:
        """Whether Lamina's kernels can compute it as one of images."""
        known = self.has_depthwise_window and not is_symbolic(shape_of(self.image)[1:])
        return known and not self.transposed and self.element_types == {"f32"} and self.is_channels_first


def _as_image(op: ir.Operation) -> ir.Operation:
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
