"""Schedules gradients of depthwise convolutions' weights on CPUs: one program computes those of a channel, or of a block of
channels, from padded copies of its images, one copy after the other."""

from dataclasses import dataclass

from torch_mlir import ir

from lamina.schedules import cpu

from ...ir.affine import Affine, Axis
from ...ir.expressions import Load, Reduce, Scan
from ..coalesce import Merged
from ..contraction import Unfit
from ..space import Space
from ..window_axes import WindowAxes, axes_of_windows
from .convolution import PaddedPlane, PlaneWindow, check_known, loaded_factors, padded_plane

WEIGHT_GRADIENT = "graph.weight_gradient"
"""On a group for a CPU that computes the gradient of a depthwise convolution's weight: stride, padding and dilation."""


@dataclass(frozen=True)
class PlaneGradients:
    """One program computes the gradients of the weights of a channel, or of a block of channels.

    product  the sum over all images
    plane    its first factor: the image
    grad     the second one: the gradient of the convolution's result
    start    index of a channel's first gradient
    pitch    elements from a row of gradients to the next, and from a column
    vector   the axis of blocks: columns, or channels where these are neighbors in memory
    lanes    elements of a block
    chunk    rows of gradients for which there is one copy of the image
    """

    merged: Merged
    axes: WindowAxes
    product: Reduce
    plane: PaddedPlane
    grad: Load
    start: Affine
    pitch: tuple[int, int]
    vector: Axis
    lanes: int
    chunk: int

    @property
    def of_channels(self) -> bool:
        """Whether a program computes a block of channels."""
        return self.vector is self.axes.channel

    @property
    def grid(self) -> int:
        """The number of programs."""
        return -(-self.axes.channel.extent // (self.lanes if self.of_channels else 1))


def plane_gradients_of(space: Space, window: PlaneWindow, block: ir.Block) -> PlaneGradients:
    """Returns the schedule of a space (channel, window; batch, row, column) of a weight's gradient. Raises Unfit if this scheme
    cannot compute it."""
    if len(space.reductions) != 1 or any(r.full for r in space.results) or any(isinstance(e, Scan) for e in space.expressions):
        raise Unfit("not one sum over images")
    (product,) = space.reductions
    channel, down, across, batch, row, column, depth = axes_of_windows(space, block)
    axes = WindowAxes(batch, channel, row, column, down, across, depth)
    check_known(axes)
    grad, image = _factors(product, axes)
    pitch = grad.offset.coefficient(row), grad.offset.coefficient(column)
    vector = channel if channel.extent > 1 and grad.offset.coefficient(channel) == 1 else column
    if vector is column and column.extent > 1 and pitch[1] != 1:
        raise Unfit("gradients whose columns, or channels, are not neighbors in memory")
    lanes = cpu.VECTOR if vector is channel else _lanes(column, across)
    plane, chunk = padded_plane(space, axes, window, image, lanes, 1, lanes if vector is channel else 1)
    start = Affine(grad.offset.constant, tuple((t, c) for t, c in grad.offset.terms if t not in (row, column)))
    merged = Merged(space.rows, space.columns, {}, {})
    return PlaneGradients(merged, axes, product, plane, grad, start, pitch, vector, lanes, chunk)


def _factors(product: Reduce, axes: WindowAxes) -> tuple[Load, Load]:
    """Returns the gradient, which is the same for all of the window, and the image: the first factor of those of single pixels."""
    one, two = loaded_factors(product)
    of_window = [bool(e.free & {axes.down, axes.across}) for e in (one, two)]
    if all(of_window):
        raise Unfit("not an image and the gradient of a convolution's result")
    return (one, two) if of_window[1] else (two, one)


def _lanes(column: Axis, across: Axis) -> int:
    """Returns the columns of a block: two vectors where a row of the window has too few sums to hide the latency of additions."""
    wide = 2 * cpu.VECTOR
    return wide if across.extent < cpu.CHAINS and column.extent % wide in (0, *range(cpu.VECTOR + 1, wide)) else cpu.VECTOR
