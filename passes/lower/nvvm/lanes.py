"""Lowers ops that are one instruction per lane (hardware approximations, products, reductions), and angles, whose reduction is a
branch of one thread."""

from collections.abc import Callable

from torch_mlir import ir

from ...ir.emit import Emit, Num, replace
from ...ir.reading import combining_op
from ...ir.rewriting import replace_op
from ..gpu_math import LATE, hardware
from ..simt.values import binary_op, elements, join_as_tree, vector_of


def per_lane(op: ir.Operation, make: Callable[..., Num]) -> Num:
    """Applies `make` to the scalars in every lane of the op's operands, and puts its results together again."""
    type_ = op.results[0].type
    e = Emit(ir.InsertionPoint(op), op.location)
    if not isinstance(type_, ir.VectorType):
        return make(*map(e.wrap, op.operands))
    with op.location, ir.InsertionPoint(op):
        scalars = list(zip(*map(elements, op.operands), strict=True))
        return e.wrap(vector_of([make(*map(e.wrap, lane)).value for lane in scalars]))


def _intrinsic(name: str) -> Callable[..., Num]:
    return lambda *operands: operands[0].emitter.intrinsic(name, *operands)


def lower_marked(op: ir.Operation) -> None:
    """Lowers math.exp2, math.rsqrt, math.sqrt and arith.divf of f32 with `fastmath<afn>` to PTX's approximations
    (gpu_math.hardware).

    They are NVPTX's own intrinsics, since LLVM's exp2 has no form that flushes denormals, and its fdiv none for div.full.
    """
    if op.name == "arith.divf" and hardware.by_reciprocal(op):
        reciprocal = _intrinsic("llvm.nvvm.rcp.approx.ftz.f")
        replace(op, per_lane(op, lambda x, y: x * reciprocal(y)))
    else:
        replace(op, per_lane(op, _intrinsic(MARKED[op.name])))


MARKED = {
    "math.exp2": "llvm.nvvm.ex2.approx.ftz.f", "math.rsqrt": "llvm.nvvm.rsqrt.approx.f", "math.sqrt": "llvm.nvvm.sqrt.approx.f",
    "arith.divf": "llvm.nvvm.div.full",
}  # fmt: skip


def lower_angle(op: ir.Operation) -> None:
    """Lowers math.sin, math.cos and math.tan to polynomials; threads that have a large angle take a branch."""
    e = Emit.before(op)
    x = e.wrap(op.operands[0])
    double = isinstance(x.element, ir.F64Type)
    result = LATE[op.name](x)
    if not double and result.value.owner.name in hardware.MARKABLE:  # a tangent is a quotient
        hardware.mark(result.value.owner)
    replace(op, result)


def lower_slice(op: ir.Operation) -> None:
    """Lowers vector.extract_strided_slice of rank 1 to vector.shuffle, which upstream's conversion knows."""
    e = Emit(ir.InsertionPoint(op), op.location)
    (first,), (count,), (step,) = (
        [ir.IntegerAttr(a).value for a in ir.ArrayAttr(op.attributes[name])] for name in ("offsets", "sizes", "strides")
    )
    mask = ir.DenseI64ArrayAttr.get(list(range(first, first + count * step, step)))
    source = op.operands[0]
    replace(op, e.wrap(e.op("vector.shuffle", [op.results[0].type], [source, source], mask=mask).result))


def lower_instruction(op: ir.Operation) -> None:
    """Lowers functions that are one or a few instructions to LLVM's intrinsics; upstream calls libdevice for each lane."""
    e = Emit.before(op)
    result = e.intrinsic(INSTRUCTIONS[op.name], *map(e.wrap, op.operands))
    replace(op, 1.0 / result if op.name == "math.rsqrt" else result)


INSTRUCTIONS = {
    "arith.maxnumf": "llvm.maxnum", "arith.minnumf": "llvm.minnum", "math.absf": "llvm.fabs", "math.copysign": "llvm.copysign",
    "math.floor": "llvm.floor", "math.ceil": "llvm.ceil", "math.trunc": "llvm.trunc", "math.round": "llvm.round",
    "math.roundeven": "llvm.roundeven", "math.sqrt": "llvm.sqrt", "math.rsqrt": "llvm.sqrt",
}  # fmt: skip


def lower_product(op: ir.Operation) -> None:
    """Lowers arith.mului_extended of i32 to PTX's wide product. LLVM makes it one of i64, and would widen all that is made of the
    halves too; and ptxas does not always merge two products, one for each half, into one instruction."""
    e, wide = Emit(ir.InsertionPoint(op), op.location), isinstance(op.results[0].type, ir.VectorType)
    with op.location, ir.InsertionPoint(op):
        pairs = zip(*(elements(v) if wide else [v] for v in op.operands), strict=True)
        halves = [_halves(e, x, y) for x, y in pairs]
        replace_op(op, *(vector_of(list(lanes)) if wide else lanes[0] for lanes in zip(*halves, strict=True)))


def _halves(e: Emit, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    text = "{ .reg .b64 p; mul.wide.u32 p, $2, $3; mov.b64 {$0, $1}, p; }"
    both = ir.Type.parse("!llvm.struct<(i32, i32)>")
    attributes = {"asm_string": ir.StringAttr.get(text), "constraints": ir.StringAttr.get("=r,=r,r,r")}
    pair = e.op("llvm.inline_asm", [both], [x, y], **attributes)

    def half(i: int) -> ir.Value:
        """Extracts half `i` of the result."""
        return e.op("llvm.extractvalue", [x.type], [pair.result], position=ir.DenseI64ArrayAttr.get([i])).result

    return half(0), half(1)


def lower_reduction(op: ir.Operation) -> None:
    """Lowers vector.reduction to a tree of scalar ops, neighbors first. LLVM's own expansion adds in order unless told `reassoc`,
    and shuffles vectors, which the hardware has only as scalars."""
    name = combining_op(op)
    with op.location, ir.InsertionPoint(op):
        join = binary_op(name)
        result = join_as_tree(elements(op.operands[0]), join)
        replace_op(op, join(op.operands[1], result) if len(op.operands) > 1 else result)
