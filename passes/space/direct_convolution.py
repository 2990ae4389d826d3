"""Schedules direct convolutions on GPUs: one program computes a strip of neighboring columns of a row for a block of channels."""

import math
from dataclasses import dataclass

from lamina.core.sizes import SizeLike, is_symbolic, typical
from lamina.schedules import direct_convolution as schedules
from lamina.schedules import nvvm

from ..ir.affine import Affine, Axis
from ..ir.expressions import Apply, InBounds, Load, Position, Reduce, Scan, walk
from ..ir.guards import Bound
from .coalesce import Merged
from .contraction import Unfit
from .flatten import flatten
from .space import Space
from .vector_width import Aligned, accesses_of, is_whole
from .window_axes import WindowAxes, axes_of_windows

WINDOW = "graph.window"  # on a convolution's group: computed directly, or, with graph.choice, as implicit GEMM


@dataclass(frozen=True)
class DirectConvolution:
    """A program computes `length` neighboring columns of a row, for as many channels as it has lanes.

    axes          of the results and of the window; of a grouped convolution, all features of the groups are channels
    length        columns of a strip
    step, spread  strides in memory between windows of neighboring columns, and between columns of a window, in one
                  unit
    tall          rows of the image between rows of a window
    strips        the axis of strips of a row
    first         the axis of where strips begin, if their length does not divide a row: the last one ends with the
                  row; None for rows of a symbolic length, too, after whose end the last strip computes nothing
    inner         blocks of channels that are neighbors in the grid, within the rows of `outer` blocks
    product       the sum over the window
    height        bounds on the row of the image; None if no row of a window is outside of it
    features      neighboring channels that sum over the same channels of the image; 0 if each has its own
    chunk         how many of the image's channels are read together
    """

    config: nvvm.NvvmConfig
    merged: Merged
    axes: WindowAxes
    length: int
    step: int
    spread: int
    tall: int
    strips: Axis
    first: Axis | None
    inner: int
    product: Reduce
    height: Bound | None
    features: int
    chunk: int

    @property
    def outer(self) -> int:
        """The number of groups of `inner` blocks of channels."""
        return self.axes.channel.extent // (self.config.lanes * self.inner)

    @property
    def ragged(self) -> bool:
        """Whether the last strip of a row may reach past its end."""
        return self.first is None and self.axes.column.extent % self.length != 0

    @property
    def grid(self) -> SizeLike:
        """The number of programs."""
        return self.axes.batch.extent * self.outer * self.axes.row.extent * self.strips.extent * self.inner


def direct_convolution_of(space: Space, aligned: Aligned, results: list[int]) -> DirectConvolution:
    """Returns the schedule of a space that is a convolution. Raises Unfit if this scheme cannot compute it.

    aligned, results  bytes that the memory of arguments, and of results, is aligned to
    """
    if len(space.reductions) != 1:
        raise Unfit("not one sum over a window of images")
    (product,) = space.reductions
    if product.op != "arith.addf" or any(r.full for r in space.results):
        raise Unfit("not one sum over a window of images")
    batch, *images, down, across, depth = axes_of_windows(space, next(iter(aligned)).owner)
    merged, features = Merged(space.rows, space.columns, {}, {}), 0
    channel, row, column = images[-3:]
    if len(images) == 4:
        features = images[1].extent
        merged, channel = flatten(merged, (images[0], images[1]))
    _check(space, merged, channel)
    if 1 in (channel.extent, column.extent):
        raise Unfit("a dimension of 1")
    length = schedules.strip_columns(typical(column.extent))
    if length is None:
        raise Unfit(f"rows of {column.extent} columns cannot be cut into strips")
    most = schedules.GROUP_WIDTH if features else schedules.channels_per_thread(length)
    vec = _width(space, merged, channel, aligned, results, most)
    products = down.extent * across.extent * depth.extent
    config, inner = schedules.schedule(channel.extent, vec, products, *([schedules.group_resident(length)] if features else []))
    if channel.extent % (config.lanes * inner):
        raise Unfit(f"{channel.extent} channels are not whole blocks")
    along = Axis(-(-column.extent // length), "strip")
    whole = is_symbolic(column.extent) or column.extent % length == 0
    first = None if whole else Axis(column.extent - length + 1, "first")
    step, spread = _steps(product, column, across)
    if not schedules.fits_registers(length, across.extent, step, spread):
        raise Unfit(f"too many pixels of a row for {length} windows")
    height = _height(product, down)
    chunk = schedules.channels_per_chunk(depth.extent, across.extent * vec)
    axes = WindowAxes(batch, channel, row, column, down, across, depth)
    tall = height.index.coefficient(down) if height else 1
    return DirectConvolution(
        config, merged, axes, length, step, spread, tall, along, first, inner, product, height, features, chunk
    )


def _check(space: Space, merged: Merged, channel: Axis) -> None:
    """Raises Unfit if an access is not a plain function of the axes."""

    def along(index: Affine) -> int:
        """Returns the coefficient of the channel. Raises Unfit if other values decide the place."""
        index = merged.index(index)
        if any(not isinstance(t, Axis) and t not in merged.quotients for t, _ in index.terms):
            raise Unfit("a load whose place other values say")
        return index.coefficient(channel)

    for e in space.expressions:
        if isinstance(e, Position | Scan):
            raise Unfit("a result that tells where it is, or a scan")
        if isinstance(e, Load) and along(e.offset) not in (0, 1):
            raise Unfit("a load whose neighbors in memory are not channels")
        if isinstance(e, Load | InBounds) and any(b.message or along(b.index) or _by_group(b.index, merged) for b in e.guard):
            raise Unfit("a bound on channels, or one that is the user's error")
    if any(along(r.offset) != 1 for r in space.results):
        raise Unfit("a result whose neighbors in memory are not channels")


def _by_group(index: Affine, merged: Merged) -> bool:
    """Returns whether an index differs from group to group."""
    return any(t in merged.quotients for t, _ in merged.index(index).terms)


def _width(space: Space, merged: Merged, channel: Axis, aligned: Aligned, results: list[int], width: int) -> int:
    """Returns the channels of a thread, at most `width`, all of one group."""
    along = [a for a in accesses_of(space, merged, aligned, results, guarded=lambda _: True) if a.offset.coefficient(channel)]
    groups = merged.quotients.values()
    while width > 1 and not (
        all(n % width == 0 for n in groups) and all(is_whole(a, width, channel, merged.quotients) for a in along)
    ):
        width //= 2
    if width < 2:
        raise Unfit("channels that are not read by pairs")
    return width


def _steps(product: Reduce, column: Axis, across: Axis) -> tuple[int, int]:
    """Returns the distances in memory between the windows of neighboring columns, and between columns of a window, divided by their
    greatest common divisor."""
    for e in walk(product.arg):
        if isinstance(e, Load) and (step := e.offset.coefficient(column)) > 0:
            spread = e.offset.coefficient(across)
            unit = math.gcd(step, spread)
            return step // unit, spread // unit
    raise Unfit("a sum over a window of what has none")


def _height(product: Reduce, down: Axis) -> Bound | None:
    """Returns the bound on the image's row that all loads of the sum share; None without one."""
    found: dict[Bound, None] = {}
    for e in walk(product.arg):
        if isinstance(e, Load | InBounds):
            found.update(dict.fromkeys(b for b in e.guard if b.index.coefficient(down)))
    if not found:
        return None
    if len(found) > 1:
        raise Unfit("rows of the window with bounds of several kinds")
    if not _is_zero_outside(product):
        raise Unfit("windows that count what is outside of the image")
    return next(iter(found))


def _is_zero_outside(product: Reduce) -> bool:
    """Returns whether the product is 0 outside of the image: one of its factors is a load under the bounds."""
    arg = product.arg
    return isinstance(arg, Apply) and arg.op == "arith.mulf" and any(isinstance(f, Load) and f.guard for f in arg.operands)
