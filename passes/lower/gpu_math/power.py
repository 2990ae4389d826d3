"""powf of f32 for GPUs."""

from torch_mlir import ir

from ...ir.emit import Num
from .. import polynomials
from . import hardware


def powf(x: Num, y: Num) -> Num:
    """x**y, at most 1 ulp: in f64 as on the CPU, with a quotient that calls nothing."""
    return polynomials.powf(x, y, _quotient)


def _quotient(x: Num, y: Num) -> Num:
    """x / y in f64 for a y near 2, to 2**-45: the hardware's f32 reciprocal and one Newton step."""
    e = x.at
    start = hardware.over(1.0, y.cast("arith.truncf", ir.F32Type.get())).cast("arith.extf", ir.F64Type.get())
    return x * e.fma(start, e.fma(-y, start, 1.0), start)
