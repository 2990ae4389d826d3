"""The axes of sums over windows of images, which direct convolutions on GPUs and depthwise ones on CPUs share."""

from dataclasses import dataclass

from torch_mlir import ir

from ..ir.affine import Axis
from ..ir.reading import Generic
from .contraction import Unfit
from .space import Space


@dataclass(frozen=True)
class WindowAxes:
    """The axes of images that a convolution computes, or whose gradient it has, and of its window.

    batch, channel, row, column  of the results
    down, across                 rows and columns of the window
    depth                        the image's channels of a group
    """

    batch: Axis
    channel: Axis
    row: Axis
    column: Axis
    down: Axis
    across: Axis
    depth: Axis

    @property
    def taps(self) -> int:
        """The elements of the window."""
        return self.down.extent * self.across.extent


def axes_of_windows(space: Space, block: ir.Block) -> list[Axis]:
    """Returns the axes batch, channel (or group and feature), row, column, and the reduced ones: down, across, depth. A dimension
    of 1, or a missing one, gets an axis of its own. Raises Unfit if the epilogue splits a dimension of the sum."""
    generics = (Generic.read(o.operation) for o in block.operations if o.operation.name == "linalg.generic")
    extents = next(g.extents for g in generics if any(g.reduced))
    left = [a for a in (*space.rows, *space.columns) if a.extent != 1]
    axes = []
    for n in extents:
        if n != 1 and (not left or left[0].extent != n):
            raise Unfit("what follows the sum divides one of its dimensions")
        axes.append(Axis(1, "one") if n == 1 else left.pop(0))
    return axes if len(axes) == 8 else [*axes, Axis(1, "depth")]
