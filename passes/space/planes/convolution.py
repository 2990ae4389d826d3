"""Schedules depthwise convolutions on CPUs: one program computes rows of one channel from a padded copy of its image."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.sizes import SizeLike, is_symbolic
from lamina.schedules import cpu

from ...ir.affine import Affine, Axis
from ...ir.expressions import Load, Reduce, Scan
from ...ir.reading import element_type, shape_of
from ..coalesce import Merged
from ..contraction import Unfit, factors_of
from ..space import Space
from ..window_axes import WindowAxes, axes_of_windows

PLANES = "graph.planes"  # on a depthwise convolution's group for a CPU: stride, padding and dilation


@dataclass(frozen=True)
class PlaneWindow:
    """The window of a convolution: stride, padding and dilation of (height, width)."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @staticmethod
    def read(attribute: ir.Attribute) -> PlaneWindow:
        """Reads the attribute `graph.planes` of a group."""
        a, b, c, d, e, f = ir.DenseI64ArrayAttr(attribute)
        return PlaneWindow((a, b), (c, d), (e, f))

    def attribute(self) -> ir.Attribute:
        """Returns the window as the attribute `graph.planes`."""
        return ir.DenseI64ArrayAttr.get([*self.stride, *self.padding, *self.dilation])


@dataclass(frozen=True)
class PaddedPlane:
    """A copy of rows of one channel of an image, or of a block of channels, with zeros around them.

    origin  index of the image's first element of a channel
    pitch   elements from a row of the image to the next, and from a column
    size    rows and columns of the image
    width   columns of the copy; for one channel, those of each phase: j, j + stride, ...
    height  rows of the copy
    block   channels
    """

    window: PlaneWindow
    image: Load
    origin: Affine
    pitch: tuple[int, int]
    size: tuple[int, int]
    width: int
    height: int
    block: int

    @property
    def length(self) -> int:
        """The elements of a row of the copy."""
        return self.width * (self.block if self.block > 1 else self.window.stride[1])

    def place(self, across: int) -> int:
        """Returns where in a row of the copy the pixel is that column `across` of the first window reads."""
        column = across * self.window.dilation[1]
        if self.block > 1:
            return column * self.block
        shift, phase = divmod(column, self.window.stride[1])
        return phase * self.width + shift


@dataclass(frozen=True)
class Planes:
    """One program computes `chunk` rows of one channel of one image.

    product      the sum over the window
    plane        its first factor: the image
    weight       the second one
    lanes, rows  the register tile: columns, and rows of them
    chunks       the axis of chunks of rows
    """

    merged: Merged
    axes: WindowAxes
    product: Reduce
    plane: PaddedPlane
    weight: Load
    lanes: int
    rows: int
    chunk: int
    chunks: Axis

    @property
    def grid(self) -> SizeLike:
        """The number of programs."""
        return self.axes.batch.extent * self.axes.channel.extent * self.chunks.extent


def planes_of(space: Space, window: PlaneWindow, block: ir.Block) -> Planes:
    """Returns the schedule of a space that is a depthwise convolution. Raises Unfit if this scheme cannot compute it."""
    if len(space.reductions) != 1 or any(r.full for r in space.results):
        raise Unfit("not one sum over a window of images")
    (product,) = space.reductions
    batch, *images, down, across, depth = axes_of_windows(space, block)
    if len(images) != 3 or depth.extent != 1:
        raise Unfit("sums of several channels")
    channel, row, column = images
    axes = WindowAxes(batch, channel, row, column, down, across, depth)
    check_known(axes)
    image, weight = _factors(product, axes)
    if any(isinstance(e, Scan) for e in space.expressions) or any(r.offset.coefficient(axes.column) != 1 for r in space.results):
        raise Unfit("a scan, or a result whose neighbors in memory are not columns")
    lanes, rows = cpu.window_tile(axes.column.extent, axes.row.extent)
    plane, chunk = padded_plane(space, axes, window, image, lanes, rows)
    chunks = Axis(axes.row.extent // chunk, "chunk")
    merged = Merged(space.rows, space.columns, {}, {})
    return Planes(merged, axes, product, plane, weight, lanes, min(rows, chunk), chunk, chunks)


def check_known(axes: WindowAxes) -> None:
    """Raises Unfit if images have symbolic sizes but that of the batch."""
    if is_symbolic((axes.channel.extent, axes.row.extent, axes.column.extent)):
        raise Unfit("images of a symbolic size")


def padded_plane(
    space: Space, axes: WindowAxes, window: PlaneWindow, image: Load, lanes: int, rows: int, block: int = 1
) -> tuple[PaddedPlane, int]:
    """Returns the copy that one program needs, and of how many rows of results it is.

    image  as the windows read it, without its padding
    lanes  columns that are computed together
    rows   of results that are computed together
    block  channels of the copy

    Raises Unfit if rows are too long for a copy, or the image's elements are not where a plane has them.
    """
    row, column, down, across = axes.row, axes.column, axes.down, axes.across
    if any(b.message for e in space.loads for b in e.guard):
        raise Unfit("indices of the user")
    pitch = _pitch(image.offset, window, 0, row, down), _pitch(image.offset, window, 1, column, across)
    neighbors = axes.channel if block > 1 else column
    if neighbors.extent > 1 and (image.offset.coefficient(neighbors) if block > 1 else pitch[1]) != 1:
        raise Unfit("an image whose columns, or channels, are not neighbors in memory")
    rest = tuple((t, c) for t, c in image.offset.terms if t in (axes.batch, axes.channel))
    if len(rest) + sum(t in (row, column, down, across) for t, _ in image.offset.terms) != len(image.offset.terms):
        raise Unfit("a load whose place other values say")
    origin = Affine(image.offset.constant + sum(n * p for n, p in zip(window.padding, pitch, strict=True)), rest)
    step, spread = window.stride[1], window.dilation[1]
    if block > 1:
        width, pixel = (column.extent - 1) * step + (across.extent - 1) * spread + 1, block
    else:
        blocks = -(-column.extent // lanes)
        width, pixel = -(-(blocks * lanes + (across.extent - 1) * spread // step) // cpu.VECTOR) * cpu.VECTOR, step

    def height(chunk: int) -> int:
        """Returns the rows of the image that `chunk` rows of results read."""
        return (chunk - 1) * window.stride[0] + (down.extent - 1) * window.dilation[0] + 1

    chunk = cpu.rows_per_program(row.extent, rows, lambda n: height(n) * width * pixel * 4)
    if chunk is None:
        raise Unfit("rows that are too long")
    tall, wide = shape_of(image.tensor)[-2:]
    return PaddedPlane(window, image, origin, pitch, (tall, wide), width, height(chunk), block), chunk


def _factors(product: Reduce, axes: WindowAxes) -> tuple[Load, Load]:
    """Returns the image and the weight."""
    one, two = loaded_factors(product)
    moving = [e for e in (one, two) if e.free & {axes.row, axes.column}]
    if len(moving) != 1:
        raise Unfit("not an image and a weight")
    return (one, two) if moving[0] is one else (two, one)


def loaded_factors(product: Reduce) -> tuple[Load, Load]:
    """Returns the factors of a sum of products. Raises Unfit if they are not in memory, in f32."""
    one, two = factors_of(product)
    if not (isinstance(one, Load) and isinstance(two, Load)):
        raise Unfit("factors that are computed")
    if any(element_type(e.tensor) != "f32" for e in (one, two)):
        raise Unfit("factors that are not of f32")
    return one, two


def _pitch(index: Affine, window: PlaneWindow, dim: int, axis: Axis, of_window: Axis) -> int:
    """Returns the elements between rows (0) or columns (1) of the image. axis: of windows; of_window: inside of them."""
    steps = (axis, window.stride[dim]), (of_window, window.dilation[dim])
    found = {index.coefficient(a) // step for a, step in steps if a.extent > 1}
    if len(found) > 1:
        raise Unfit("pixels of an image that are not evenly apart")
    return found.pop() if found else dim
