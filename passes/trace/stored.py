"""The special forms of what kernels store: values at computed places, and pairs of values that one iteration computes,
such as the parts of complex numbers."""

from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.sizes import SizeLike

from ..ir.expressions import Expr
from ..ir.reading import SCATTER, integer, producer, shape_of


@dataclass(eq=False)
class Pair(Expr):
    """Two values that a kernel stores together.

    step  elements from the first to the second in memory
    """

    first: Expr
    second: Expr
    step: SizeLike
    dtype: str

    def __post_init__(self) -> None:
        self.args, self.free = (self.first, self.second), self.first.free | self.second.free


def computed_shape(value: ir.Value) -> tuple[SizeLike, ...]:
    """Returns the shape of what is computed for a tensor: of a graph.scatter, that of the values that it stores; of pairs, without
    the dimension along which they lie."""
    op = producer(value)
    shape = shape_of(op.operands[1] if op is not None and op.name == SCATTER else value)
    return shape[:-1] if is_pair(op) else shape


def is_pair(op: ir.Operation | None) -> bool:
    """Returns whether an op joins two tensors element by element, along a last dimension of two."""
    if op is None or op.name != "tensor.concat" or len(op.operands) != 2:
        return False
    shapes = list(map(shape_of, op.operands))
    return integer(op, "dim") == len(shapes[0]) - 1 > 0 and all(shape[-1] == 1 for shape in shapes)
