"""f16 and bf16 on a GPU: what memory holds; arithmetic is in f32, and conversions go through it as eager's do."""

from torch_mlir import ir

from ..emit import Emit, Num
from .lanes import finish

ARITHMETIC = {
    f"arith.{name}"
    for name in ("addf", "subf", "mulf", "divf", "negf", "cmpf", "maximumf", "minimumf", "maxnumf", "minnumf", "remf")
} | {f"math.{name}" for name in ("absf", "copysign", "floor", "ceil", "trunc", "round", "roundeven", "fma", "isnan", "isfinite")}
CONVERSIONS = {"arith.truncf", "arith.extf", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui"}


def lower(op: ir.Operation) -> None:
    """An op with half operands or results -> the same in f32, where it is not a conversion between the two."""
    result = op.results[0].type
    half_in, half_out = any(is_half(v.type) for v in op.operands), is_half(result)
    if not half_in and not half_out:
        return
    e = Emit.before(op, op.operands[0])
    if op.name in ("arith.truncf", "arith.extf"):
        _between_floats(op, e)
        return
    operands = [_widened(e.wrap(v)) for v in op.operands]
    if op.name in CONVERSIONS:
        single = operands[0].cast(op.name, ir.F32Type.get() if half_out else _element(result))
    else:
        attributes = {name: op.attributes[name] for name in op.attributes}
        single = e.make(op.name, e.type(ir.F32Type.get()) if half_out else result, *operands, **attributes)
    finish(op, single.cast("arith.truncf", _element(result)) if half_out else single)


def _between_floats(op: ir.Operation, e: Emit) -> None:
    """f64 <-> half through f32; f16 <-> bf16 too; f32 <-> half is an instruction for two lanes at once."""
    x, to = e.wrap(op.operands[0]), _element(op.results[0].type)
    if isinstance(x.element, ir.F64Type):
        finish(op, x.cast("arith.truncf", ir.F32Type.get()).cast("arith.truncf", to))
    elif isinstance(to, ir.F64Type):
        finish(op, x.cast("arith.extf", ir.F32Type.get()).cast("arith.extf", to))


def is_half(of: ir.Type) -> bool:
    return isinstance(_element(of), ir.F16Type | ir.BF16Type)


def _element(of: ir.Type) -> ir.Type:
    return of.element_type if isinstance(of, ir.VectorType) else of


def _widened(x: Num) -> Num:
    return x.cast("arith.extf", ir.F32Type.get()) if is_half(x.value.type) else x
