"""Sums over windows of images as strips: which axes are rows, columns and channels, and what one program computes."""

import math
from dataclasses import dataclass

from lamina.core.gpu import Gpu
from lamina.schedules import nvvm

from .affine import Affine, Axis
from .coalesce import Merged
from .expressions import Apply, Bound, Const, Expr, InBounds, Load, Position, Reduce, Scan
from .grouping import walk
from .realise import COST
from .schedule import bits
from .space import Space
from .widths import Aligned

WINDOW = "graph.window"  # on a group whose sum over a window is computed in strips


class Unfit(Exception):
    """What strips cannot compute, and why."""


@dataclass(frozen=True)
class Strips:
    """A program computes `length` neighbouring columns of `height` neighbouring rows, for as many channels as it has lanes.

    batch, row, column, channel  axes of the results
    down, across                 axes of the window
    bands, strips                axes of the programs' first rows and columns
    steps                        rows and columns of the image between windows
    unrolled                     the rows of the window are written out, else they are a loop, in strips of one row
    inner                        blocks of channels that are neighbours in the grid, within the rows of `outer` blocks
    product                      the sum over the window
    inside                       bounds on the row of the image; None where no row of a window is outside of it
    """

    config: nvvm.Config
    merged: Merged
    batch: Axis
    channel: Axis
    row: Axis
    column: Axis
    down: Axis
    across: Axis
    height: int
    length: int
    bands: Axis
    strips: Axis
    steps: tuple[int, int]
    unrolled: bool
    inner: int
    product: Reduce
    inside: Bound | None

    @property
    def outer(self) -> int:
        """Groups of `inner` blocks of channels."""
        return self.channel.extent // (self.config.lanes * self.inner)

    @property
    def pixels(self) -> int:
        """Pixels that all programs read, for each channel."""
        reads = [
            (n - 1) * step + taps if written else n * taps
            for n, step, taps, written in (
                (self.height, self.steps[0], self.down.extent, self.unrolled),
                (self.length, self.steps[1], self.across.extent, True),
            )
        ]
        return self.grid * self.config.lanes * math.prod(reads)

    @property
    def operations(self) -> int:
        """Of one pixel, before it is multiplied by a weight."""
        made = [e for e in dict.fromkeys(walk(self.product.arg)) if isinstance(e, Apply) and self.column in e.free]
        return sum(COST.get(e.op, 1) for e in made if e is not self.product.arg)

    @property
    def grid(self) -> int:
        return self.batch.extent * self.outer * self.bands.extent * self.strips.extent * self.inner


def strips_of(space: Space, aligned: Aligned, results: list[int], gpu: Gpu) -> Strips:
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
    taps = down.extent * across.extent
    found = nvvm.strip(row.extent, column.extent, taps)
    if found is None:
        raise Unfit(f"rows of {column.extent} columns are no whole strips")
    height, length = found
    bands, strips = Axis(row.extent // height, "band"), Axis(column.extent // length, "strip")
    vec = _width(space, channel, aligned, results)
    config, inner = nvvm.strips(channel.extent, vec, batch.extent * bands.extent * strips.extent, gpu.sm_count)
    if channel.extent % (config.lanes * inner):
        raise Unfit(f"{channel.extent} channels are no whole blocks")
    merged = Merged(space.rows, space.columns, {}, {})
    return Strips(
        config, merged, batch, channel, row, column, down, across, height, length, bands, strips,
        _steps(product, (row, column), (down, across)), taps <= nvvm.WRITTEN_OUT, inner, product, _inside(product, down),
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


def _width(space: Space, channel: Axis, aligned: Aligned, results: list[int]) -> int:
    """Channels of a thread."""
    accesses = [(e.at, bits(_stored(e)), aligned[e.tensor]) for r in space.results for e in walk(r.expr) if isinstance(e, Load)]
    accesses += [(r.at, bits(r.dtype), a) for r, a in zip(space.results, results, strict=True)]
    width = nvvm.STRIP_VEC
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


def _steps(product: Reduce, image: tuple[Axis, Axis], window: tuple[Axis, Axis]) -> tuple[int, int]:
    """How far the windows of neighbouring rows and columns are apart."""
    for e in walk(product.arg):
        if isinstance(e, Load) and all(e.at.coefficient(a) for a in (*image, *window)):
            down, across = (abs(e.at.coefficient(a)) // abs(e.at.coefficient(w)) for a, w in zip(image, window, strict=True))
            return down, across
    raise Unfit("a sum over a window of what has none")


def _inside(product: Reduce, down: Axis) -> Bound | None:
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
    """Whether the product is nothing where the image is not: one of its factors is 0 outside of the bounds."""
    arg = product.arg
    return isinstance(arg, Apply) and arg.op == "arith.mulf" and any(map(_is_guarded, arg.operands))


def _is_guarded(e: Expr) -> bool:
    if isinstance(e, Apply) and e.op == "arith.select":
        wanted, _, otherwise = e.operands
        return isinstance(wanted, InBounds) and isinstance(otherwise, Const) and repr(otherwise.value) in ("0", "0.0")
    return isinstance(e, Load) and bool(e.guard)


__all__ = ["WINDOW", "Strips", "Unfit", "strips_of"]
