"""f16 and bf16 on a GPU as storage types: rewrites arithmetic to f32, and conversions to go through f32 as eager's do."""

from torch_mlir import ir

from ...ir.emit import Emit, Num, in_f32, replace
from ...ir.reading import element_of

ARITHMETIC = {
    f"arith.{name}"
    for name in ("addf", "subf", "mulf", "divf", "negf", "cmpf", "maximumf", "minimumf", "maxnumf", "minnumf", "remf")
} | {f"math.{name}" for name in ("absf", "copysign", "floor", "ceil", "trunc", "round", "roundeven", "fma", "isnan", "isfinite")}
BETWEEN_FLOATS = {"arith.truncf", "arith.extf"}
WITH_INTEGERS = {"arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui"}
NAMES = ARITHMETIC | BETWEEN_FLOATS | WITH_INTEGERS


def is_on_halves(op: ir.Operation) -> bool:
    """Returns whether an op has f16 or bf16 operands or results, other than conversions between these and f32, which are an
    instruction for two lanes at once."""
    types = [element_of(v.type) for v in (*op.operands, *op.results)]
    half = any(isinstance(t, ir.F16Type | ir.BF16Type) for t in types)
    return half and not (op.name in BETWEEN_FLOATS and ir.F32Type.get() in types)


def lower(op: ir.Operation) -> None:
    """Computes an op on f16 or bf16 in f32; converts f64 to and from them, and f16 to and from bf16, through f32."""
    to = element_of(op.results[0].type)
    single = Emit.before(op).wrap(op.operands[0]).to(ir.F32Type.get()) if op.name in BETWEEN_FLOATS else in_f32(op, Num.widened)
    replace(op, single.to(to))


def holds_pairs(op: ir.Operation) -> bool:
    """Returns whether an op converts bf16 to f32 for an even number of lanes, so that pairs share a register."""
    type_ = op.operands[0].type
    pairs = isinstance(type_, ir.VectorType) and type_.rank == 1 and type_.shape[0] % 2 == 0
    return pairs and isinstance(element_of(type_), ir.BF16Type) and isinstance(element_of(op.results[0].type), ir.F32Type)


def lower_pairs(op: ir.Operation) -> None:
    """Lowers arith.extf of pairs of bf16: shifts the first one's bits up, and clears the first one's in the second. That is an
    instruction each; ptxas's conversion takes two for the second."""
    count, i32, f32 = ir.VectorType(op.operands[0].type).shape[0], ir.IntegerType.get_signless(32), ir.F32Type.get()
    e = Emit(ir.InsertionPoint(op), op.location, [count // 2])
    words = e.make("vector.bitcast", e.type(i32), e.wrap(op.operands[0]))
    halves = (words << 16, words & ~0xFFFF)
    first, second = (half.cast("vector.bitcast", f32).value for half in halves)
    order = [lane // 2 + lane % 2 * (count // 2) for lane in range(count)]
    mask = ir.DenseI64ArrayAttr.get(order)
    replace(op, e.wrap(e.op("vector.shuffle", [op.results[0].type], [first, second], mask=mask).result))
