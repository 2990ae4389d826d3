"""Propagates the strides that users prefer backwards to the values' producers, through views and kernels.

A collapse of a transposed value needs a copy unless the value was stored transposed in the first place; a result of the call must
have the strides that eager gives it; a library computes best on one order of dimensions. Walking @main backwards carries such
wishes from views to the producer of a value, and from a kernel's result to its images: a kernel that writes channels last reads
channels-last images best.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.sizes import SizeLike, at_most
from lamina.dialects.graph import CALLS
from lamina.kernels.library import CONVOLUTIONS, PRODUCTS, READS_ROWS

from ..families.conv.calls import channels_last
from ..ir.affine import in_order, order_of, row_major
from ..ir.extern_calls import needed_strides
from ..ir.reading import bytes_of, callee_of, elements_of, ops_in, reduced_loops, shape_of
from ..ir.sizes import SIZE, read_sizes
from ..ir.views import RESHAPES, is_view, layout_through, source_strides, through_views
from ..space.direct_convolution import WINDOW
from .sibling_layouts import keeps_order

Strides = tuple[SizeLike, ...]
SECTOR = 8  # elements of f32 that a GPU moves for each element, if these are not neighbors in memory


@dataclass
class Wants:
    """The strides that users want of each value.

    bound      those of the call's results, which must be met
    preferred  those that users prefer, and how many do
    rows       values that are row-major as long as nobody prefers anything else: products read views of them, or a kernel whose
               result is wanted so
    """

    bound: dict[ir.Value, Strides] = field(default_factory=dict)
    preferred: dict[ir.Value, Counter[Strides]] = field(default_factory=dict)
    rows: set[ir.Value] = field(default_factory=set)

    def has(self, value: ir.Value) -> bool:
        """Returns whether users of a value, or the caller, want particular strides."""
        return value in self.bound or bool(self.preferred.get(value))

    def prefer(self, value: ir.Value, strides: Strides, users: int = 1) -> None:
        """Notes that so many users of a value prefer these strides."""
        self.preferred.setdefault(value, Counter())[strides] += users

    def drop(self, value: ir.Value) -> None:
        """Forgets what users want of a value."""
        self.bound.pop(value, None)
        self.preferred.pop(value, None)

    def move(self, old: ir.Value, new: ir.Value) -> None:
        """Makes what users want of one value what they want of another."""
        if old in self.bound:
            self.bound[new] = self.bound.pop(old)
        if old in self.preferred:
            self.preferred[new] = self.preferred.pop(old)

    def layout(self, value: ir.Value, default: Layout | None = None) -> Layout:
        """Returns the layout to make a value in: `default` (row-major) unless its users are better served by another dense one."""
        default = default or Layout.row_major(shape_of(value))
        wishes = self.preferred.get(value, Counter())
        best = max(wishes, key=lambda s: (wishes[s], s == default.strides), default=default.strides)
        wanted = Layout.of(default.shape, self.bound.get(value, best))
        return wanted if wanted.is_dense else default


def wanted_strides(ops: Sequence[ir.Operation], results: Iterable[tuple[ir.Value, Strides | None]]) -> Wants:
    """Returns the wanted strides of all values in `ops`. results: the values returned, with the strides asked for."""
    wanted = Wants()
    for value, strides in results:
        if strides is not None:
            wanted.bound.setdefault(value, strides)
    for op in reversed(ops):
        is_kernel = op.name == "graph.group"
        for operand, wish in _kernel_wishes(op, wanted) if is_kernel else _library_wishes(op) if op.name in CALLS else ():
            wanted.prefer(operand, wish)
        if is_kernel:
            wanted.rows.update(_read_as_rows(op, wanted))
        if len(op.results) != 1 or not is_view(op):
            continue
        out, source = op.results[0], op.operands[0]
        # a library's wish serves the collapse, too
        if op.name == "tensor.collapse_shape" and not wanted.preferred.get(out):
            if _is_free(out):
                wanted.rows.add(out)
            else:
                wanted.prefer(out, Layout.row_major(shape_of(out)).strides)
        if out in wanted.rows and op.name in RESHAPES:
            wanted.rows.add(source)
        if out in wanted.bound and (strides := source_strides(op, wanted.bound[out])) is not None:
            wanted.bound.setdefault(source, strides)
        for wish, count in wanted.preferred.get(out, Counter()).items():
            if (strides := source_strides(op, wish)) is not None:
                wanted.prefer(source, strides, count)
    return wanted


def _images(op: ir.Operation) -> list[ir.Value]:
    """Returns the image and the weight of a convolution whose result has channels last, as it computes best if they have, too
    (see lamina-layout)."""
    if callee_of(op) not in CONVOLUTIONS or len(shape_of(op.results[0])) != 4:
        return []
    last = read_sizes(op.attributes["strides"][0]) == channels_last(shape_of(op.results[0]))
    return list(op.operands)[:2] if last else []


def _library_wishes(op: ir.Operation) -> list[tuple[ir.Value, Strides]]:
    needs = [(v, s) for v, s in zip(op.operands, needed_strides(op), strict=False) if s is not None]
    if len(needs) == len(op.operands):
        return [(v, strides) for v, strides in needs if Layout.of(shape_of(v), strides).is_injective]
    if images := _images(op):
        return [(image, channels_last(shape_of(image))) for image in images]
    if "prefers" in op.attributes:
        wishes = ir.ArrayAttr(op.attributes["prefers"])
        return [(v, read_sizes(s)) for v, s in zip(op.operands, wishes, strict=False)]
    if callee_of(op) not in READS_ROWS:
        return []
    given = dict(needs)
    return [(v, given[v]) if v in given else (base, row_major(shape_of(base))) for v in op.operands for base in [_with_rows(v)]]


def _with_rows(value: ir.Value) -> ir.Value:
    """Returns the first of the values behind a chain of views whose row-major memory gives the last of them contiguous rows."""
    chain, _ = through_views(value)
    for first in range(len(chain), 0, -1):
        layout = layout_through(chain[:first], Layout.row_major(shape_of(chain[first - 1].operands[0])))
        if layout is not None and layout.strides and layout.strides[-1] == 1:
            return chain[first - 1].operands[0]
    return value


def _kernel_wishes(op: ir.Operation, wants: Wants) -> list[tuple[ir.Value, Strides]]:
    """Returns the strides that a kernel wants of its operands: in the order of its largest result with wanted strides, where
    that is transposed and the kernel itself does not transpose. A convolution's group (`graph.window`) wants channels last."""
    if _only_copies(op):
        return []
    if WINDOW in op.attributes:
        return [(v, channels_last(shape_of(v)) if len(shape_of(v)) == 4 else row_major(shape_of(v))) for v in op.operands]
    result = max((v for v in op.results if wants.has(v)), key=bytes_of, default=op.results[0])
    order = order_of(wants.layout(result).strides)
    if order == tuple(range(len(order))) or not keeps_order(op, len(order)) or _reduces_rows(op, order):
        return []
    like = [v for v in op.operands if len(shape_of(v)) == len(order)]
    return [(v, in_order(shape_of(v), order)) for v in like]


def _read_as_rows(op: ir.Operation, wants: Wants) -> list[ir.Value]:
    """Returns the operands that a kernel should find row-major: it would write with gaps, or read with gaps, otherwise.

    Its result is wanted so, and it keeps the order of dimensions. Not operands of more than SECTOR times as many elements, which
    cost more to transpose. Or its result is larger than all that it reads, and so row-major where nobody wants anything else.
    """
    largest = max(op.results, key=elements_of)
    if not wants.has(largest) and elements_of(largest) > max(map(elements_of, op.operands), default=0):
        return [v for v in op.operands if _spans(v) > 1]
    rows = [v for v in op.results if v in wants.rows or (wants.has(v) and wants.layout(v) == Layout.row_major(shape_of(v)))]
    if not rows or not all(keeps_order(op, rank) for rank in {len(shape_of(v)) for v in rows}):
        return []
    spans, limit = {_spans(v) for v in rows}, SECTOR * max(map(elements_of, rows))
    return [v for v in op.operands if _spans(v) in spans and elements_of(v) <= limit]


def _spans(value: ir.Value) -> int:
    """Returns how many dimensions of a value have more than one element."""
    return sum(not at_most(n, 1) for n in shape_of(value))


def _only_copies(op: ir.Operation) -> bool:
    """Returns whether a kernel yields only values that it reads, so that its purpose is to transpose."""
    idle = ("tensor.empty", SIZE, "graph.yield")
    inner = [o.operation for o in op.regions[0].blocks[0].operations if o.operation.name not in idle]
    return len(inner) == 1 and inner[0].name == "linalg.generic" and len(list(inner[0].regions[0].blocks[0].operations)) == 1


def _reduces_rows(op: ir.Operation, order: Sequence[int]) -> bool:
    """Returns whether a kernel reduces neighbors in row-major memory that are not neighbors in this order of dimensions: it reads
    rows best."""
    last = len(order) - 1
    if order[-1] == last:
        return False
    for inner in ops_in(op.regions[0].blocks[0]):
        if inner.name != "linalg.generic":
            continue
        reduced = reduced_loops(inner)
        maps = [list(m.value.results) for m in ir.ArrayAttr(inner.attributes["indexing_maps"])]
        ends = [dims[-1] for dims in maps if len(dims) == len(order)]
        if any(isinstance(d, ir.AffineDimExpr) and reduced[d.position] for d in ends):
            return True
    return False


def _is_free(value: ir.Value) -> bool:
    """Returns whether a view of a kernel's result needs no copy where the kernel makes it row-major, and only products read it,
    as they read it in those strides."""
    if not _feeds_products(value):
        return False
    views, value = through_views(value)
    if isinstance(value, ir.BlockArgument) or value.owner.name != "graph.group":
        return False
    return layout_through(views, Layout.row_major(shape_of(value))) is not None


def _feeds_products(value: ir.Value) -> bool:
    """Returns whether only products read a value, or views of it."""
    users = [use.owner.operation for use in value.uses]
    return bool(users) and all(
        _feeds_products(user.results[0])
        if user.name != "linalg.generic" and len(user.results) == 1 and is_view(user)
        else user.name == "graph.extern" and callee_of(user) in PRODUCTS
        for user in users
    )
