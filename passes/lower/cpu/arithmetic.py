"""Rewrites arithmetic that upstream or LLVM would make slow, or that could end the process, on scalars and vectors."""

from torch_mlir import ir

from ...ir.emit import Emit, Num, in_f32, replace
from ...ir.reading import combining_op, element_of, number_of

DIVISIONS = ("divsi", "remsi", "floordivsi", "ceildivsi", "divui", "remui", "ceildivui")


def guard_division(op: ir.Operation) -> None:
    """Makes integer division safe: division by zero, and of the least value by -1, raise a signal on x86. The divisor becomes 1
    there: x/0 = x, and min/-1 = min, which is what two's complement wraps to. Where x/0 is the user's error, a `graph.check` has
    seen it."""
    if number_of(op.operands[1]) not in (None, 0, -1):
        return
    e = Emit.before(op)
    a, b = (e.wrap(v) for v in op.operands)
    bad = b.compare("eq", 0)
    if "ui" not in op.name:
        width = 64 if isinstance(b.element, ir.IndexType) else b.element.width
        bad = bad | (b.compare("eq", -1) & a.compare("eq", -(1 << (width - 1))))
    op.operands[1] = e.wrap(b.like(1).value).where(bad, b).value


def lower_extremum(op: ir.Operation) -> None:
    """Lowers arith.maximumf and minimumf to compare and select, as x86's max and min; keeps NaN, and either sign of zero.

    maxps(a, b) is a > b ? a : b, so that the second operand survives a NaN: with a constant there it is one instruction, else
    three against LLVM's seven for IEEE 754-2019 maximum, which orders -0 before +0 (eager does not).
    """
    known = [number_of(v) for v in op.operands]
    a, b = op.operands
    if known[1] is not None and known[0] is None:
        a, b = b, a
    e = Emit.before(op)
    x, y = e.wrap(a), e.wrap(b)
    if (known[0] is None and known[1] is None) or any(k != k for k in known):
        replace(op, extremum(x, y, op.name.removeprefix("arith.")))
    else:
        replace(op, x.where(x > y if "max" in op.name else x < y, y))


def lower_reduction(op: ir.Operation) -> None:
    """Lowers vector.reduction and rank-1 multi_reduction of maximumf or minimumf, keeping NaN: checks whether any lane is NaN,
    and reduces as if none were. That is one instruction a step, where LLVM's own reduction takes seven."""
    kind = combining_op(op).removeprefix("arith.")
    source = op.operands[0]
    type_ = ir.VectorType(source.type)
    if kind not in ("maximumf", "minimumf") or type_.rank != 1 or isinstance(op.results[0].type, ir.VectorType):
        return
    lanes, scalar = Emit.before(op, source), Emit(ir.InsertionPoint(op), op.location)
    x = lanes.wrap(source)
    ignores_nan, assumes_none = (ir.Attribute.parse(f"#{a}") for a in (f"vector.kind<{kind[:3]}numf>", "arith.fastmath<nnan>"))
    best = scalar.make("vector.reduction", type_.element_type, x, kind=ignores_nan, fastmath=assumes_none)
    result = best.like(float("nan")).where(scalar.wrap(lanes.any(x.is_nan()).value), best)
    if len(op.operands) > 1:
        result = extremum(result, scalar.wrap(op.operands[1]), kind)
    replace(op, result)


def extremum(x: Num, y: Num, kind: str) -> Num:
    """Returns the greater or less of two values; NaN if either is."""
    best = x.where(x > y if kind == "maximumf" else x < y, y)
    return x.where(x.is_nan(), best)


def extend_bf16(op: ir.Operation) -> None:
    """Lowers bf16 to f32 (and on to f64) to integer ops."""
    replace(op, widened(Emit.before(op).wrap(op.operands[0])).to(element_of(op.results[0].type)))


def truncate_half(op: ir.Operation) -> None:
    """Lowers f32 to bf16 in integers, to nearest even, keeping NaN and denormals: AVX512-BF16's own conversion flushes denormals
    to zero. f64 goes to f16 and bf16 through f32, as in eager; f32 to f16 is an instruction."""
    x = Emit.before(op).wrap(op.operands[0])
    half = element_of(op.results[0].type)
    if isinstance(half, ir.BF16Type) or isinstance(x.element, ir.F64Type):
        replace(op, narrowed(x.to(ir.F32Type.get()), half))


def compute_in_f32(op: ir.Operation) -> None:
    """Computes an op on f16 or bf16 in f32, and converts integers to and from them through f32, as eager does."""
    replace(op, narrowed(in_f32(op, widened), element_of(op.results[0].type)))


def narrowed(x: Num, to: ir.Type) -> Num:
    """Rounds an f32 to f16 or bf16; returns what is of the type `to` itself."""
    return rounded(x) if isinstance(to, ir.BF16Type) else x.to(to)


def rounded(x: Num) -> Num:
    """Returns the bf16 nearest to an f32."""
    bits = x.bits()
    to_even = bits + (bits.shr(16) & 1) + 0x7FFF
    return (
        x.emitter.i32(0x7FC00000)
        .where(x.is_nan(), to_even)
        .shr(16)
        .cast("arith.trunci", ir.IntegerType.get_signless(16))
        .cast("arith.bitcast", ir.BF16Type.get())
    )


def widened(x: Num) -> Num:
    """Converts f16 or bf16 to f32: the bits of a bf16, shifted up. Returns any other value itself."""
    if not isinstance(x.element, ir.BF16Type):
        return x.widened()
    return (x.bits().cast("arith.extui", ir.IntegerType.get_signless(32)) << 16).as_float()
