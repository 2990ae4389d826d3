"""Rules that remove casts which undo each other."""

from torch_mlir import ir

from ...ir.reading import element_of
from ..scope import RewriteScope


def truncate(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """truncf(extf x) -> x, or a single cast; truncf of a constant."""
    arg, to = s.args(op)[0], op.results[0].type
    number = s.number(arg)
    if number is not None and not isinstance(to, ir.BF16Type | ir.F16Type):
        return s.constant(number, to, op)
    inner = s.node(arg, "arith.extf")
    if inner is None:
        return None
    source = inner.args[0].value.type
    if element_of(source) == to:
        return s.use(inner.args[0], op)
    if element_of(source).width < to.width:
        return s.build("arith.extf", to, [s.use(inner.args[0], op)], op)
    return None


def extend(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """extf(extf x) -> extf x; extf of a constant."""
    arg, to = s.args(op)[0], op.results[0].type
    number = s.number(arg)
    if number is not None:
        return s.constant(number, to, op)
    inner = s.node(arg, "arith.extf")
    return s.build("arith.extf", to, [s.use(inner.args[0], op)], op) if inner else None


def truncate_integer(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """trunci(ext x) -> x."""
    inner = s.node(s.args(op)[0], "arith.extui", "arith.extsi")
    if inner and element_of(inner.args[0].value.type) == op.results[0].type:
        return s.use(inner.args[0], op)
    return None


def bool_to_float(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """sitofp(extui b) -> uitofp b for a bool b."""
    inner = s.node(s.args(op)[0], "arith.extui")
    if inner and is_bool(inner.args[0].value.type):
        return s.build("arith.uitofp", op.results[0].type, [s.use(inner.args[0], op)], op)
    return None


def index(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """index_cast(index_cast i) -> i for an i64 or index cast to the other and back."""
    inner = s.node(s.args(op)[0], "arith.index_cast")
    if inner is None or element_of(inner.args[0].value.type) != op.results[0].type:
        return None
    between = inner.op.results[0].type
    wide = isinstance(between, ir.IndexType) or between.width == 64
    return s.use(inner.args[0], op) if wide else None


def is_bool(type_: ir.Type) -> bool:
    """Returns whether a scalar or tensor type is of bools."""
    element = element_of(type_)
    return isinstance(element, ir.IntegerType) and element.width == 1
