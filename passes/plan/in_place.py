"""Finds outputs of a kernel that may be written over one of its inputs.

This is safe where the kernel reads the element of the input at an index only in the iteration that stores the output's element
there. Loops store all outputs that vary over rows and columns in their last nest, each element once, after they have read what is
overwritten (tile/loops.py).
"""

from collections.abc import Sequence

from torch_mlir import ir

from lamina.core.sizes import SizeLike

from ..families.choice import CHOICE
from ..ir.expressions import Position, Scan, Scatter
from ..ir.reading import Untraceable
from ..space.direct_convolution import WINDOW
from ..space.planes.convolution import PLANES
from ..space.planes.gradients import WEIGHT_GRADIENT
from ..space.space import Space, find_space
from ..trace.stored import Pair

_NOT_LOOPS = (CHOICE, WINDOW, PLANES, WEIGHT_GRADIENT)
"""Attributes of kernels that another program than Loops may compute."""


def pairs_in_place(kernel: ir.Operation, strides: Sequence[Sequence[SizeLike]]) -> set[tuple[int, int]]:
    """Returns (argument, result) positions of a kernel function on tensors for which the result may take the argument's memory.
    strides: of its arguments, then its results."""
    arguments = list(kernel.regions[0].blocks[0].arguments)
    if any(name in kernel.attributes for name in _NOT_LOOPS):
        return set()
    try:
        given = dict(zip(arguments, map(tuple, strides), strict=False))
        space = find_space(kernel.regions[0].blocks[0], given, [tuple(s) for s in strides[len(arguments) :]], divide=True)
    except Untraceable:
        return set()
    return _pairs(space, arguments)


def _pairs(space: Space, arguments: Sequence[ir.Value]) -> set[tuple[int, int]]:
    results = [(i, r) for i, r in enumerate(space.results) if (r.full or not space.columns) and not isinstance(r.expr, Pair)]
    if any(isinstance(e, Scan | Scatter) for e in space.expressions) or any(r.axes != space.columns for r in space.reductions):
        return set()
    if len(space.results) > 1 and any(isinstance(e, Position) for e in space.expressions):
        return set()  # parts of a concatenation, chosen by index, are computed in branches of their own
    read: dict[ir.Value, set[tuple[object, object]]] = {}
    for e in space.loads:
        read.setdefault(e.tensor, set()).add((e.offset, e.guard))
    return {
        (position, i) for position, argument in enumerate(arguments) for i, r in results if read.get(argument) == {(r.offset, ())}
    }
