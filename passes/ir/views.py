"""View ops on tensors (reshapes, slices, transposes, broadcasts) and the strided layouts of their results."""

from collections.abc import Callable, Container, Sequence

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.sizes import SizeLike

from .affine import Affine, offset, row_major
from .reading import Index, Untraceable, producer, shape_of
from .sizes import slice_sizes

RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
WHOLE_VIEWS = (*RESHAPES, "linalg.transpose")
"""Views that contain each element of their source exactly once."""
SINGLE_VIEWS = (*WHOLE_VIEWS, "tensor.extract_slice", "tensor.cast")
"""Views that contain each element of their source at most once, by ops that are always views."""
VIEWS = (*SINGLE_VIEWS, "linalg.broadcast", "linalg.generic")
"""Ops that may be views; `is_view` decides."""


def is_view(op: ir.Operation) -> bool:
    """Returns whether the op's result consists of elements of its first operand, unchanged, in positions known at compile time."""
    if op.name == "linalg.generic":
        return _walked_dims(op) is not None
    if op.name == "tensor.extract_slice":
        return all(slice_sizes(op, part) is not None for part in ("offsets", "sizes", "strides"))
    return op.name in VIEWS


def through_views(value: ir.Value, names: Container[str] | None = None) -> tuple[list[ir.Operation], ir.Value]:
    """Follows a value through the views that produce it. Returns the views, the last first, and the value that they view. names:
    the ops to follow, by default all views."""
    chain: list[ir.Operation] = []
    while (op := producer(value)) is not None and (is_view(op) if names is None else op.name in names):
        chain.append(op)
        value = op.operands[0]
    return chain, value


def view_layout(op: ir.Operation, source: Layout) -> Layout | None:
    """Returns the layout of a view's result, given that of its source; None if strides cannot express it, so that it needs a
    copy."""
    shape = shape_of(op.results[0])
    if op.name == "tensor.cast":
        return source
    if op.name == "tensor.expand_shape":
        return source.expanded(groups(op), shape)
    if op.name == "tensor.collapse_shape":
        return source.collapsed(groups(op))
    if op.name == "tensor.extract_slice":
        offsets, sizes, steps = (slice_of(op, part) for part in ("offsets", "sizes", "strides"))
        return _rank_reduced(source.sliced(offsets, sizes, steps), shape)
    dims = walked_dims(op)
    return source.projected(dims, shape)


def layout_through(views: Sequence[ir.Operation], source: Layout) -> Layout | None:
    """Returns the layout of a chain of views, the last first, given that of its source; None if strides cannot express one."""
    layout: Layout | None = source
    for view in reversed(views):
        layout = view_layout(view, layout) if layout is not None else None
    return layout


def reshaped_memory(
    value: ir.Value, in_memory: Callable[[ir.Value], bool], strides_of: Callable[[ir.Value], tuple[SizeLike, ...]]
) -> tuple[ir.Value, tuple[SizeLike, ...]] | None:
    """Returns the value in memory that `value` is a reshape of, and the strides of `value` there; None if there is none, or if
    strides cannot express the reshape."""
    chain: list[ir.Operation] = []
    while (op := producer(value)) is not None and op.name in RESHAPES:
        chain.append(op)
        value = op.operands[0]
        if in_memory(value):
            layout = layout_through(chain, Layout.of(shape_of(value), strides_of(value)))
            return None if layout is None else (value, layout.strides)
    return None


def source_strides(op: ir.Operation, strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """Returns the strides that a view's source must have for its result to have these strides; None if there are none."""
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


def groups(op: ir.Operation) -> list[list[int]]:
    """Returns the reassociation of an expand_shape or collapse_shape."""
    return [[i.value for i in group] for group in op.attributes["reassociation"]]


def walked_dims(op: ir.Operation) -> list[int | None]:
    """Returns, for a transpose, broadcast or copying generic, the source dimension of each result dimension; None for a repeat."""
    if op.name == "linalg.transpose":
        return list(op.attributes["permutation"])
    if op.name == "linalg.broadcast":
        added = set(op.attributes["dimensions"])
        source = iter(range(len(shape_of(op.operands[0]))))
        return [None if d in added else next(source) for d in range(len(shape_of(op.results[0])))]
    dims = _walked_dims(op)
    assert dims is not None, "is_view holds"
    return dims


def _walked_dims(op: ir.Operation) -> list[int | None] | None:
    """Returns what `walked_dims` does for a linalg.generic that only yields its input; None for any other generic."""
    if len(op.operands) != 2 or len(op.results) != 1:
        return None
    block = op.regions[0].blocks[0]
    ops = list(block.operations)
    if len(ops) != 1 or ops[0].operands[0] != block.arguments[0]:
        return None
    read, written = (m.value for m in op.attributes["indexing_maps"])
    if not is_identity(written):
        return None
    walked: dict[int, int] = {}
    for source_dim, expr in enumerate(read.results):
        if isinstance(expr, ir.AffineDimExpr) and expr.position not in walked:
            walked[expr.position] = source_dim
        elif not (isinstance(expr, ir.AffineConstantExpr) and expr.value == 0):
            return None
    return [walked.get(d) for d in range(written.n_dims)]


def is_identity(m: ir.AffineMap) -> bool:
    """Returns whether a map is the identity."""
    return m == ir.AffineMap.get_identity(m.n_dims)


def _rank_reduced(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """Drops dimensions of size 1 from a layout so that its shape becomes `shape`."""
    strides: list[int] = []
    for i, (size, stride) in enumerate(zip(layout.shape, layout.strides, strict=True)):
        taken = len(strides)
        if size != 1 or (taken < len(shape) and shape[taken] == 1 and len(layout.shape) - i >= len(shape) - taken):
            strides.append(stride)
    return Layout.of(shape, strides, layout.offset)


def slice_of(op: ir.Operation, name: str) -> tuple[SizeLike, ...]:
    """Returns the offsets, sizes or strides of a slice, or the low padding of a pad. Raises Untraceable if one is not a size."""
    out = slice_sizes(op, name)
    if out is None:
        raise Untraceable(op.results[0], f"{op.name} with run-time {name}")
    return out


def source_index(op: ir.Operation, index: Index) -> Index:
    """Maps element `index` of a view to its index in the view's operand."""
    match op.name:
        case "linalg.transpose":
            places = dict(zip(op.attributes["permutation"], index, strict=True))
            return tuple(places[d] for d in range(len(index)))
        case "linalg.broadcast":
            added = set(op.attributes["dimensions"])
            return tuple(at for d, at in enumerate(index) if d not in added)
        case "tensor.expand_shape":
            shape, source, d = shape_of(op.results[0]), [], 0
            for dims in op.attributes["reassociation"]:
                n = len(dims)
                source.append(offset(index[d : d + n], row_major(shape[d : d + n])))
                d += n
            return tuple(source)
        case "tensor.extract_slice":
            return _sliced(op, index)
        case "tensor.cast":
            return index
    raise AssertionError(f"{op.name} is not a view")


def _sliced(op: ir.Operation, index: Index) -> Index:
    starts, steps = slice_of(op, "offsets"), slice_of(op, "strides")
    sizes, small = slice_of(op, "sizes"), shape_of(op.results[0])
    source_index, d = [], 0
    for n in sizes:  # a rank-reducing slice drops dimensions of size 1
        keep = d < len(small) and small[d] == n
        source_index.append(index[d] if keep else Affine())
        d += keep
    return tuple(position * step + start for position, start, step in zip(source_index, starts, steps, strict=True))
