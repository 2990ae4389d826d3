"""Schedules depthwise convolutions on CPUs: one program computes rows of one channel from a padded copy of its image."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.sizes import SizeLike, is_symbolic
from lamina.schedules import cpu

from ..ir.affine import Affine, Axis
from ..ir.expressions import Load, Reduce, Scan
from ..ir.reading import shape_of
from .coalesce import Merged
from .contraction import Unfit, factors_of
from .direct_convolution import axes_of_windows
from .space import Space

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
class Planes:
    """One program computes `chunk` rows of one channel of one image.

    batch, channel, row, column  axes of the results
    down, across                 axes of the window
    product                      the sum over the window
    image, weight                its factors
    origin                       index of the image's first element of a channel
    pitch                        elements from a row of the image to the next
    size                         rows and columns of the image
    lanes, rows                  the register tile: columns, and rows of them
    chunks                       the axis of chunks of rows
    width                        elements of a row of the padded copy of the image, of each phase: columns j, j + stride, ...
    height                       rows of the copy
    """

    merged: Merged
    window: PlaneWindow
    batch: Axis
    channel: Axis
    row: Axis
    column: Axis
    down: Axis
    across: Axis
    product: Reduce
    image: Load
    weight: Load
    origin: Affine
    pitch: int
    size: tuple[int, int]
    lanes: int
    rows: int
    chunk: int
    chunks: Axis
    width: int
    height: int

    @property
    def grid(self) -> SizeLike:
        """The number of programs."""
        return self.batch.extent * self.channel.extent * self.chunks.extent

    @property
    def products(self) -> int:
        """The products of one sum."""
        return self.down.extent * self.across.extent


def planes_of(space: Space, window: PlaneWindow, block: ir.Block) -> Planes:
    """Returns the schedule of a space that is a depthwise convolution. Raises Unfit where this scheme cannot compute it."""
    if len(space.reductions) != 1 or any(r.full for r in space.results):
        raise Unfit("not one sum over a window of images")
    (product,) = space.reductions
    batch, *images, down, across, depth = axes_of_windows(space, block)
    if len(images) != 3 or depth.extent != 1:
        raise Unfit("sums of several channels")
    channel, row, column = images
    if is_symbolic((channel.extent, row.extent, column.extent)):
        raise Unfit("images of a symbolic size")
    image, weight = _factors(product, row, column)
    if any(isinstance(e, Scan) for e in space.expressions) or any(r.at.coefficient(column) != 1 for r in space.results):
        raise Unfit("a scan, or a result whose neighbors in memory are no columns")
    if any(b.message for e in space.loads for b in e.guard):
        raise Unfit("indices of the user")
    size = shape_of(image.tensor)[-2:]
    pitch = _pitch(image.at, window, (row, down), (column, across))
    rest = tuple((t, c) for t, c in image.at.terms if t in (batch, channel))
    if len(rest) + sum(t in (row, column, down, across) for t, _ in image.at.terms) != len(image.at.terms):
        raise Unfit("a load whose place other values say")
    origin = Affine(image.at.constant + window.padding[0] * pitch + window.padding[1], rest)
    lanes, rows = cpu.tile(column.extent, row.extent)
    blocks = -(-column.extent // lanes)
    step, spread = window.stride[1], window.dilation[1]
    width = -(-(blocks * lanes + (across.extent - 1) * spread // step) // cpu.VECTOR) * cpu.VECTOR

    def height(chunk: int) -> int:
        return (chunk - 1) * window.stride[0] + (down.extent - 1) * window.dilation[0] + 1

    chunk = cpu.chunk(row.extent, rows, lambda n: height(n) * width * step * 4)
    if chunk is None:
        raise Unfit("rows that are too long")
    chunks = Axis(row.extent // chunk, "chunk")
    return Planes(
        Merged(space.rows, space.columns, {}, {}), window, batch, channel, row, column, down, across, product, image, weight,
        origin, pitch, (size[0], size[1]), lanes, min(rows, chunk), chunk, chunks, width, height(chunk),
    )  # fmt: skip


def _factors(product: Reduce, row: Axis, column: Axis) -> tuple[Load, Load]:
    """Returns the image and the weight, both of f32."""
    one, two = factors_of(product)
    if not (isinstance(one, Load) and isinstance(two, Load)):
        raise Unfit("factors that are computed")
    moving = [e for e in (one, two) if e.free & {row, column}]
    if len(moving) != 1 or any(str(ir.RankedTensorType(e.tensor.type).element_type) != "f32" for e in (one, two)):
        raise Unfit("not an image of f32 and a weight")
    return (one, two) if moving[0] is one else (two, one)


def _pitch(at: Affine, window: PlaneWindow, vertical: tuple[Axis, Axis], horizontal: tuple[Axis, Axis]) -> int:
    """Returns the elements between rows of the image."""
    for axis, step in zip(horizontal, (window.stride[1], window.dilation[1]), strict=True):
        if axis.extent > 1 and at.coefficient(axis) != step:
            raise Unfit("an image whose columns are not neighbors in memory")
    found = {
        at.coefficient(axis) // step
        for axis, step in zip(vertical, (window.stride[0], window.dilation[0]), strict=True)
        if axis.extent > 1
    }
    if len(found) > 1:
        raise Unfit("rows of an image that are not evenly apart")
    return found.pop() if found else 0
