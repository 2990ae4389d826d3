"""Which strides a value's users would like it to have, seen through the views between.

A collapse of a transposed value needs a copy unless the value was stored transposed in the first place; a result of the call
must have the strides that eager gives it. Walking @main backwards carries such wishes from the views to what makes the value.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from lamina.core.layout import Layout

from .layout import CONVOLUTION, channels_last
from .plan_views import groups, is_view, shape_of, walked_dims

Strides = tuple[int, ...]


@dataclass
class Wants:
    """Wishes per value: those of the call's results bind, the others count."""

    bound: dict[ir.Value, Strides] = field(default_factory=dict)
    wished: dict[ir.Value, Counter[Strides]] = field(default_factory=dict)

    def layout(self, value: ir.Value, default: Layout | None = None) -> Layout:
        """The layout to make a value in: `default` (row-major) unless its users are better served by another dense one."""
        default = default or Layout.row_major(shape_of(value))
        wishes = self.wished.get(value, Counter())
        best = max(wishes, key=lambda s: (wishes[s], s == default.strides), default=default.strides)
        wanted = Layout.of(default.shape, self.bound.get(value, best))
        return wanted if wanted.is_dense else default


def wants(ops: Sequence[ir.Operation], results: Iterable[tuple[ir.Value, Strides | None]]) -> Wants:
    """`results`: the values returned, with the strides asked for."""
    found = Wants()
    for value, strides in results:
        if strides is not None:
            found.bound.setdefault(value, strides)
    for op in reversed(ops):
        if op.name == "graph.extern" and (image := _image(op)) is not None:
            found.wished.setdefault(image, Counter())[channels_last(shape_of(image))] += 1
        if len(op.results) != 1 or not is_view(op):
            continue
        out, source = op.results[0], op.operands[0]
        if op.name == "tensor.collapse_shape":
            found.wished.setdefault(out, Counter())[Layout.row_major(shape_of(out)).strides] += 1
        if out in found.bound and (strides := _before(op, found.bound[out])) is not None:
            found.bound.setdefault(source, strides)
        for wish, count in found.wished.get(out, Counter()).items():
            if (strides := _before(op, wish)) is not None:
                found.wished.setdefault(source, Counter())[strides] += count
    return found


def _image(op: ir.Operation) -> ir.Value | None:
    """The image of a convolution that gives its result with the channels last, and takes it so best (see lamina-layout)."""
    if ir.StringAttr(op.attributes["callee"]).value != CONVOLUTION or len(shape_of(op.results[0])) != 4:
        return None
    last = tuple(ir.DenseI64ArrayAttr(op.attributes["strides"][0])) == channels_last(shape_of(op.results[0]))
    return op.operands[0] if last else None


def _before(op: ir.Operation, strides: Strides) -> Strides | None:
    """The strides of a view's source that give its result these strides; None when there are none."""
    shape, source_shape = shape_of(op.results[0]), shape_of(op.operands[0])
    layout = Layout.of(shape, strides)
    if op.name == "tensor.cast":
        return strides
    if op.name == "tensor.collapse_shape":
        return layout.expanded(groups(op), source_shape).strides
    if op.name == "tensor.expand_shape":
        collapsed = layout.collapsed(groups(op))
        return None if collapsed is None else collapsed.strides
    if op.name == "tensor.extract_slice":
        return None
    dims = walked_dims(op)
    if sorted(d for d in dims if d is not None) != list(range(len(source_shape))):
        return None
    return tuple(layout.strides[dims.index(d)] for d in range(len(source_shape)))
