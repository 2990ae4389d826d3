"""Propagates the strides that users prefer backwards to the values' producers, through views and kernels.

A collapse of a transposed value needs a copy unless the value was stored transposed in the first place; a result of the call must
have the strides that eager gives it; a library computes best on one order of dimensions. Walking @main backwards carries such
wishes from views to the producer of a value, and from a kernel's result to its images: a kernel that writes channels last reads
channels-last images best.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.sizes import SizeLike, typical
from lamina.dialects.graph import CALLS
from lamina.kernels.library import CONVOLUTIONS, PRODUCTS, READS_ROWS

from ..families.conv.calls import channels_last
from ..ir.affine import in_order, order_of, row_major
from ..ir.extern_calls import needed_strides
from ..ir.reading import Generic, bytes_of, ops_in, reduced_loops, shape_of
from ..ir.sizes import SIZE, read_sizes
from ..ir.views import is_view, layout_through, source_strides, through_views, view_layout
from ..space.direct_convolution import WINDOW

Strides = tuple[SizeLike, ...]


@dataclass
class Wants:
    """The strides that users want of each value.

    bound   those of the call's results, which must be met
    wished  those that users prefer, and how many do
    """

    bound: dict[ir.Value, Strides] = field(default_factory=dict)
    wished: dict[ir.Value, Counter[Strides]] = field(default_factory=dict)

    def has(self, value: ir.Value) -> bool:
        """Returns whether users of a value, or the caller, want particular strides."""
        return value in self.bound or bool(self.wished.get(value))

    def drop(self, value: ir.Value) -> None:
        """Forgets what users want of a value."""
        self.bound.pop(value, None)
        self.wished.pop(value, None)

    def move(self, old: ir.Value, new: ir.Value) -> None:
        """Makes what users want of one value what they want of another."""
        if old in self.bound:
            self.bound[new] = self.bound.pop(old)
        if old in self.wished:
            self.wished[new] = self.wished.pop(old)

    def layout(self, value: ir.Value, default: Layout | None = None) -> Layout:
        """Returns the layout to make a value in: `default` (row-major) unless its users are better served by another dense one."""
        default = default or Layout.row_major(shape_of(value))
        wishes = self.wished.get(value, Counter())
        best = max(wishes, key=lambda s: (wishes[s], s == default.strides), default=default.strides)
        wanted = Layout.of(default.shape, self.bound.get(value, best))
        return wanted if wanted.is_dense else default


def wants(ops: Sequence[ir.Operation], results: Iterable[tuple[ir.Value, Strides | None]]) -> Wants:
    """Returns the wanted strides of all values in `ops`. results: the values returned, with the strides asked for."""
    found = Wants()
    for value, strides in results:
        if strides is not None:
            found.bound.setdefault(value, strides)
    for op in reversed(ops):
        if op.name in CALLS:
            for operand, wish in _library_wishes(op):
                found.wished.setdefault(operand, Counter())[wish] += 1
        if op.name == "graph.group":
            for operand, wish in _kernel_wishes(op, found):
                found.wished.setdefault(operand, Counter())[wish] += 1
        if len(op.results) != 1 or not is_view(op):
            continue
        out, source = op.results[0], op.operands[0]
        # a library's wish serves the collapse, too
        if op.name == "tensor.collapse_shape" and not found.wished.get(out) and not _is_free(out):
            found.wished.setdefault(out, Counter())[Layout.row_major(shape_of(out)).strides] += 1
        if out in found.bound and (strides := source_strides(op, found.bound[out])) is not None:
            found.bound.setdefault(source, strides)
        for wish, count in found.wished.get(out, Counter()).items():
            if (strides := source_strides(op, wish)) is not None:
                found.wished.setdefault(source, Counter())[strides] += count
    return found


def _images(op: ir.Operation) -> list[ir.Value]:
    """Returns the image and the weight of a convolution whose result has channels last, as it computes best if they have, too
    (see lamina-layout)."""
    if ir.StringAttr(op.attributes["callee"]).value not in CONVOLUTIONS or len(shape_of(op.results[0])) != 4:
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
    if ir.StringAttr(op.attributes["callee"]).value not in READS_ROWS:
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


def _kernel_wishes(op: ir.Operation, found: Wants) -> list[tuple[ir.Value, Strides]]:
    """Returns the strides that a kernel wants of its operands: in the order of its largest result with wanted strides, where
    that is transposed and the kernel itself does not transpose. A convolution's group (`graph.window`) wants channels last."""
    if _only_copies(op):
        return []
    if WINDOW in op.attributes:
        return [(v, channels_last(shape_of(v))) for v in op.operands if len(shape_of(v)) == 4]
    result = max((v for v in op.results if found.has(v)), key=bytes_of, default=op.results[0])
    order = order_of(found.layout(result).strides)
    if order == tuple(range(len(order))) or not keeps_order(op, len(order)) or _reduces_rows(op, order):
        return []
    like = [v for v in op.operands if len(shape_of(v)) == len(order)]
    return [(v, in_order(shape_of(v), order)) for v in like]


def _only_copies(op: ir.Operation) -> bool:
    """Returns whether a kernel only yields what it reads: its purpose is to transpose."""
    idle = ("tensor.empty", SIZE, "graph.yield")
    inner = [o.operation for o in op.regions[0].blocks[0].operations if o.operation.name not in idle]
    return len(inner) == 1 and inner[0].name == "linalg.generic" and len(list(inner[0].regions[0].blocks[0].operations)) == 1


def _reduces_rows(op: ir.Operation, order: Sequence[int]) -> bool:
    """Returns whether a kernel reduces neighbors in row-major memory that are no neighbors in this order of dimensions: it reads
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


def like_siblings(op: ir.Operation, layouts: Sequence[Layout | None], operands: Sequence[Layout]) -> list[Layout]:
    """Returns the layouts of a kernel's results. Those that nobody wants otherwise (None) get the order of dimensions in which
    most bytes that it reads and writes lie, if the kernel itself does not transpose; results of reductions that of the dimensions
    left of what they reduce."""
    return [layout or _like_most(op, result, layouts, operands) for result, layout in zip(op.results, layouts, strict=True)]


def _like_most(op: ir.Operation, result: ir.Value, layouts: Sequence[Layout | None], operands: Sequence[Layout]) -> Layout:
    shape = shape_of(result)
    plain = Layout.row_major(shape)
    orders: Counter[tuple[int, ...]] = Counter()
    for value, layout in zip((*op.results, *op.operands), (*layouts, *operands), strict=True):
        if layout is not None and shape_of(value) == shape and layout.is_dense:
            orders[order_of(layout.strides)] += bytes_of(value)
    reduces = typical(math.prod(shape)) < max((typical(math.prod(x.shape)) for x in operands), default=0)
    if reduces and not orders and (strides := _inherited(op, operands).get(_yielded(op, result))) is not None:
        return Layout.of(shape, in_order(shape, order_of(strides)))
    if not orders or not (keeps_order(op, len(shape)) or _only_regroups(op, shape)):
        return plain
    return Layout.of(shape, in_order(shape, max(orders, key=orders.__getitem__)))


def _yielded(op: ir.Operation, result: ir.Value) -> ir.Value:
    """Returns the value in a kernel's body that it yields as `result`."""
    end = list(op.regions[0].blocks[0].operations)[-1].operation
    return end.operands[list(op.results).index(result)]


def _inherited(op: ir.Operation, operands: Sequence[Layout]) -> dict[ir.Value, Strides]:
    """Returns for the values of a kernel's body the strides in memory of those elements of its operands that they are computed
    from: along each dimension, those of the largest tensor that varies along it. What a view cannot express has none."""
    body = op.regions[0].blocks[0]
    found = {v: layout.strides for v, layout in zip(body.arguments, operands, strict=True)}
    for inner in ops_in(body):
        if len(inner.results) != 1 or not isinstance(inner.results[0].type, ir.RankedTensorType):
            continue
        out = inner.results[0]
        if is_view(inner) and inner.operands[0] in found:
            layout = view_layout(inner, Layout.of(shape_of(inner.operands[0]), found[inner.operands[0]]))
            found.update({out: tuple(layout.strides)} if layout is not None else {})
        elif inner.name == "linalg.generic" and (g := Generic.read_affine(inner)) is not None:
            steps: dict[int, int] = {}
            sources = zip(inner.operands, g.maps[: g.inputs], strict=False)
            for v, m in sorted(((v, m) for v, m in sources if v in found), key=lambda x: -bytes_of(x[0])):
                for stride, (_, terms) in zip(found[v], m, strict=True):
                    if len(terms) == 1 and terms[0][0] not in steps:
                        steps[terms[0][0]] = stride * terms[0][1]
            loops = [terms[0][0] if len(terms) == 1 else -1 for _, terms in g.maps[g.inputs]]
            if all(steps.get(loop) or n == 1 for loop, n in zip(loops, shape_of(out), strict=True)):
                found[out] = tuple(steps.get(loop, 0) for loop in loops)
    return found


def keeps_order(op: ir.Operation, rank: int) -> bool:
    """Returns whether a kernel reads tensors of this rank in the order of dimensions of its results."""
    return all(_keeps_order(o.operation, rank) for o in op.regions[0].blocks[0].operations)


def _keeps_order(op: ir.Operation, rank: int) -> bool:
    """Returns whether an op of a kernel's body reads tensors of this rank in the order of dimensions of its result."""
    if not any(isinstance(v.type, ir.RankedTensorType) and v.type.rank == rank for v in op.operands):
        return True
    if op.name != "linalg.generic":
        return op.name not in ("linalg.transpose", "tensor.expand_shape", "tensor.collapse_shape")
    maps = [m.value for m in ir.ArrayAttr(op.attributes["indexing_maps"])]
    dims = [[d.position for d in m.results if isinstance(d, ir.AffineDimExpr)] for m in maps]
    return all(d == sorted(d) for d in dims)


def _only_regroups(op: ir.Operation, shape: tuple[int, ...]) -> bool:
    """Returns whether a kernel that reshapes tensors of this shape gives them the same shape again and moves no element in
    between, as a norm of groups of channels does."""
    inner = ops_in(op.regions[0].blocks[0])
    views = [o for o in inner if o.name in ("tensor.expand_shape", "tensor.collapse_shape")]
    ends = [v for o in views for v in (o.operands[0], o.results[0]) if len(shape_of(v)) == len(shape)]
    return all(shape_of(v) == shape for v in ends) and all(_moves_nothing(o) for o in inner if o not in views)


def _moves_nothing(op: ir.Operation) -> bool:
    """Returns whether an op reads every tensor in the order of dimensions of its result, at the positions of its loops."""
    if op.name.startswith("tensor.") and op.name != "tensor.empty":
        return False
    body = [o.operation for region in op.regions for block in region.blocks for o in block.operations]
    if any(o.name in ("linalg.index", "tensor.extract") for o in body):
        return False
    return all(_keeps_order(op, v.type.rank) for v in op.operands if isinstance(v.type, ir.RankedTensorType))


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
        else user.name == "graph.extern" and ir.StringAttr(user.attributes["callee"]).value in PRODUCTS
        for user in users
    )
