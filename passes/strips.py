"""Sums over windows of images as strips: which axes are rows, columns and channels, and what one program computes."""

from dataclasses import dataclass

from lamina.schedules import nvvm

from .affine import Affine, Axis
from .coalesce import Merged
from .expressions import Apply, Bound, InBounds, Load, Position, Reduce, Scan
from .grouping import walk
from .schedule import bits
from .space import Space
from .widths import Aligned

WINDOW = "graph.window"  # on a group that sums over windows of images: in strips, or, with graph.choice, as a product


class Unfit(Exception):
    """What strips cannot compute, and why."""


@dataclass(frozen=True)
class Strips:
    """A program computes `length` neighbouring columns of a row, for as many channels as it has lanes.

    batch, row, column, channel  axes of the results
    down, across                 axes of the window
    length                       columns of a strip
    step                         columns of the image between neighbouring windows
    strips                       the axis of strips of a row
    inner                        blocks of channels that are neighbours in the grid, within the rows of `outer` blocks
    product                      the sum over the window
    height                       bounds on the row of the image; None where no row of a window is outside of it
    """

    config: nvvm.Config
    merged: Merged
    batch: Axis
    channel: Axis
    row: Axis
    column: Axis
    down: Axis
    across: Axis
    length: int
    step: int
    strips: Axis
    inner: int
    product: Reduce
    height: Bound | None

    @property
    def outer(self) -> int:
        """Groups of `inner` blocks of channels."""
        return self.channel.extent // (self.config.lanes * self.inner)

    @property
    def grid(self) -> int:
        return self.batch.extent * self.outer * self.row.extent * self.strips.extent * self.inner


def strips_of(space: Space, aligned: Aligned, results: list[int]) -> Strips:
    """The strips of a space; Unfit where it has none. aligned, results: bytes that the memory of arguments and of results starts at
    a multiple of."""
    if len(space.reductions) != 1 or len(space.rows) not in (3, 4) or len(space.columns) != 2:
        raise Unfit("not one sum over a window of images")
    (product,) = space.reductions
    batch, channel, row, column = space.rows if len(space.rows) == 4 else (Axis(1, "batch"), *space.rows)
    down, across = space.columns
    if product.op != "arith.addf" or any(r.full for r in space.results):
        raise Unfit("not one sum over a window of images")
    _check(space, (channel, row, column))
    length = nvvm.strip(column.extent)
    if length is None:
        raise Unfit(f"rows of {column.extent} columns are no whole strips")
    vec = _width(space, channel, aligned, results, nvvm.strip_width(length))
    config, inner = nvvm.strips(channel.extent, vec, down.extent * across.extent)
    if channel.extent % (config.lanes * inner):
        raise Unfit(f"{channel.extent} channels are no whole blocks")
    merged = Merged(space.rows, space.columns, {}, {})
    strips = Axis(column.extent // length, "strip")
    return Strips(
        config, merged, batch, channel, row, column, down, across, length, _step(product, column, across), strips, inner, product,
        _height(product, down),
    )  # fmt: skip


def _check(space: Space, images: tuple[Axis, ...]) -> None:
    """Unfit where something is no plain function of the axes, or an axis is none at all."""
    if any(a.extent == 1 for a in (*images, *space.columns)):
        raise Unfit("a dimension of 1")
    channel = images[0]
    for e in dict.fromkeys(e for r in space.results for e in walk(r.expr)):
        if isinstance(e, Position | Scan):
            raise Unfit("a result that tells where it is, or a scan")
        if isinstance(e, Load) and (e.at.opaque or e.at.coefficient(channel) not in (0, 1)):
            raise Unfit("a load whose neighbours in memory are no channels")
        if isinstance(e, Load | InBounds) and any(b.message or b.at.opaque or b.at.coefficient(channel) for b in e.guard):
            raise Unfit("a bound on channels, or one that is the user's error")
    if any(r.at.coefficient(channel) != 1 for r in space.results):
        raise Unfit("a result whose neighbours in memory are no channels")


def _width(space: Space, channel: Axis, aligned: Aligned, results: list[int], width: int) -> int:
    """Channels of a thread, at most `width`."""
    accesses = [(e.at, bits(_stored(e)), aligned[e.tensor]) for r in space.results for e in walk(r.expr) if isinstance(e, Load)]
    accesses += [(r.at, bits(r.dtype), a) for r, a in zip(space.results, results, strict=True)]
    while width > 1 and not all(_whole(at, size, start, channel, width) for at, size, start in accesses):
        width //= 2
    if width < 2:
        raise Unfit("channels that are not read by pairs")
    return width


def _stored(e: Load) -> str:
    return str(e.tensor.type.element_type).replace("i1", "i8")


def _whole(at: Affine, size: int, start: int, channel: Axis, width: int) -> bool:
    if channel.extent % width:
        return False
    if not at.coefficient(channel):
        return True
    access = min(width * size, 128)
    steps = [at.constant, *(c for t, c in at.terms if t is not channel)]
    return start * 8 % access == 0 and all(n % width == 0 for n in steps)


def _step(product: Reduce, column: Axis, across: Axis) -> int:
    """How far the windows of neighbouring columns are apart."""
    for e in walk(product.arg):
        if isinstance(e, Load) and (one := e.at.coefficient(across)) and e.at.coefficient(column) > 0:
            step, rest = divmod(e.at.coefficient(column), one)
            if not rest:
                return step
    raise Unfit("a sum over a window of what has none")


def _height(product: Reduce, down: Axis) -> Bound | None:
    """The bound that the rows of windows have, of all that is read for the sum."""
    found: dict[Bound, None] = {}
    for e in walk(product.arg):
        if isinstance(e, Load | InBounds):
            found.update(dict.fromkeys(b for b in e.guard if b.at.coefficient(down)))
    if not found:
        return None
    if len(found) > 1 or next(iter(found)).at.coefficient(down) != 1:
        raise Unfit("rows of the window with bounds of several kinds")
    if not _is_zero_outside(product):
        raise Unfit("windows that count what is outside of the image")
    return next(iter(found))


def _is_zero_outside(product: Reduce) -> bool:
    """Whether the product is nothing where the image is not: one of its factors is a load under the bounds."""
    arg = product.arg
    return isinstance(arg, Apply) and arg.op == "arith.mulf" and any(isinstance(f, Load) and f.guard for f in arg.operands)


__all__ = ["WINDOW", "Strips", "Unfit", "strips_of"]
