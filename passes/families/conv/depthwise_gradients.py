"""Turns gradients of row-major depthwise convolutions of f32 into Lamina's CPU kernels, one each for image, weight and bias.

oneDNN takes up to fifty times as long for the weight's, where windows are large or there is one channel.
"""

from collections.abc import Callable, Sequence

from torch_mlir import ir

from ...ir.affine import row_major
from ...ir.extern_calls import call_like, declared_strides
from ...ir.generics import elementwise, padded, sums_of_products
from ...ir.reading import Untraceable, shape_of
from ...ir.reshapes import collapse, expand
from ...ir.sizes import tensor_type
from ...space.contraction import Unfit
from ...space.planes.convolution import PLANES, PlaneWindow, planes_of
from ...space.planes.gradients import WEIGHT_GRADIENT, plane_gradients_of
from ..surroundings import ValueMap, group_before, space_of
from .calls import Convolution, sum_of_channels

_LIBRARY_TAPS = 9  # elements of windows up to which oneDNN takes little more than the time to read image and gradients


class DepthwiseGradients(Convolution):
    """The gradients of a convolution of f32 with one filter per channel and a small window."""

    @property
    def suits(self) -> bool:
        """Whether the kernels can compute the weight's gradient."""
        return self.is_gradient and not self.transposed and self.element_types == {"f32"} and self.has_depthwise_window

    @property
    def wanted(self) -> list[bool]:
        """Whether each of the gradients of image, weight and bias is computed."""
        return [ir.BoolAttr(a).value for a in ir.ArrayAttr(list(ir.ArrayAttr(self.op.attributes["args"]))[-1])]

    def replace(self) -> None:
        """Replaces the call by kernels, and by a narrower call of the library for what none of them computes."""
        op = self.op
        gradients: list[ir.Value | None] = [
            emit() if is_wanted else None
            for is_wanted, emit in zip(self.wanted, (self._image_gradient, self._weight_gradient, self._bias_gradient), strict=True)
        ]
        uncomputed = [is_wanted and value is None for is_wanted, value in zip(self.wanted, gradients, strict=True)]
        if uncomputed == self.wanted or uncomputed[1]:  # the weight's is what takes long
            for value in filter(None, gradients):
                value.owner.erase()
            return
        remaining = iter(self._library_call(uncomputed) if any(uncomputed) else ())
        results = [value or next(remaining) for is_wanted, value in zip(self.wanted, gradients, strict=True) if is_wanted]
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()

    def _result(self, position: int) -> ir.Value:
        return self.op.results[sum(self.wanted[:position])]

    def _library_call(self, wanted: Sequence[bool]) -> list[ir.Value]:
        """Emits a call of the library for some of the gradients."""
        args, strides = list(ir.ArrayAttr(self.op.attributes["args"])), list(ir.ArrayAttr(self.op.attributes["strides"]))
        results = [(self._result(i).type, strides[i]) if is_wanted else None for i, is_wanted in enumerate(wanted)]
        with self.op.location, ir.InsertionPoint(self.op):
            return list(call_like(self.op, self.op.operands, [*args[:-1], list(wanted)], results).results)

    def _group(
        self,
        position: int,
        operands: Sequence[ir.Value],
        fill: Callable[[ValueMap], ir.Value],
        name: str,
        window: PlaneWindow | None = None,
        fits: Callable[[ir.Operation], object] | None = None,
    ) -> ir.Value | None:
        """Emits a group for one gradient; None if its schedule cannot compute it. name: of the attribute of its window."""
        type_ = self._result(position).type
        new = group_before(
            self.op, [self.op], {v: v for v in operands}, [type_], lambda values: [fill(values)], "convolution_backward"
        )
        if window is not None and fits is not None:
            new.attributes[name] = window.attribute()
            try:
                fits(new)
            except (Unfit, Untraceable):
                new.erase()
                return None
        return new.results[0]

    def _image_gradient(self) -> ir.Value | None:
        """Emits the convolution of the result's gradient, padded, with the reversed window."""
        grad, result = self.images[0], self._result(0)
        reach = [d * (k - 1) for d, k in zip(self.dilation, shape_of(self.weight)[2:], strict=True)]
        around = [r - p for r, p in zip(reach, self.padding, strict=True)]
        if self.stride != (1, 1) or min(around) < 0 or declared_strides(result) != row_major(shape_of(result)):
            return None

        def fill(values: ValueMap) -> ir.Value:
            """Computes the gradient of the image."""
            sizes = zip(shape_of(result)[2:], reach, around, shape_of(grad)[2:], strict=True)
            after = [n + r - before - given for n, r, before, given in sizes]
            image = padded(values[grad], [0, 0, *around], [0, 0, *after])
            n, c, i, j, ki, kj = (ir.AffineDimExpr.get(d) for d in range(6))
            maps = [[n, c, i + ki * self.dilation[0], j + kj * self.dilation[1]], [c, ki, kj], [n, c, i, j]]
            weight = collapse(reversed_windows(values[self.weight]), [[0, 1], [2], [3]])
            return sums_of_products(ir.RankedTensorType(result.type), image, weight, maps, 2)

        window = PlaneWindow((1, 1), (around[0], around[1]), self.dilation)
        return self._group(
            0, [grad, self.weight], fill, PLANES, window, lambda g: planes_of(space_of(g), window, g.regions[0].blocks[0])
        )

    def _weight_gradient(self) -> ir.Value | None:
        """Emits the sums of all products of the result's gradient and the image's pixels in each place of the window."""
        grad, result = self.images[0], self._result(1)
        channels, one, down, across = shape_of(result)

        def fill(values: ValueMap) -> ir.Value:
            """Computes the gradient of the weight: sums over images and pixels."""
            image = self.padded(values[self.image])
            c, ki, kj, n, i, j = (ir.AffineDimExpr.get(d) for d in range(6))
            maps = [[n, c, *self.window(i, j, ki, kj)], [n, c, i, j], [c, ki, kj]]
            sums = tensor_type([channels, down, across], ir.F32Type.get())
            return expand(sums_of_products(sums, image, values[grad], maps, 3), [channels, one, down, across], [[0, 1], [2], [3]])

        window = PlaneWindow(self.stride, self.padding, self.dilation)

        def fits(group: ir.Operation) -> None:
            """Raises Unfit if oneDNN's kernel is as fast."""
            schedule = plane_gradients_of(space_of(group), window, group.regions[0].blocks[0])
            if schedule.of_channels and schedule.axes.taps <= _LIBRARY_TAPS:
                raise Unfit("a window for which oneDNN is as fast with channels last")

        return self._group(1, [self.image, grad], fill, WEIGHT_GRADIENT, window, fits)

    def _bias_gradient(self) -> ir.Value | None:
        """Emits the sums of each channel's gradients."""
        grad, type_ = self.images[0], self._result(2).type

        def fill(values: ValueMap) -> ir.Value:
            """Sums each channel."""
            return sum_of_channels(values[grad], type_)

        return self._group(2, [grad], fill, "")


def reversed_windows(weight: ir.Value) -> ir.Value:
    """Emits a convolution's weight with its windows in reverse, with which the gradients of images are convolutions, too."""
    type_ = ir.RankedTensorType(weight.type)
    c, o, i, j = (ir.AffineDimExpr.get(d) for d in range(4))
    last = [ir.AffineConstantExpr.get(n - 1) for n in shape_of(weight)[2:]]
    return elementwise(type_, [weight], [[c, o, last[0] - i, last[1] - j]], lambda x: x)
