"""Functions of f32 for GPUs, on the hardware's approximations (hardware.py) or with the CPU's polynomials."""

from torch_mlir import ir

from ...ir.emit import Num
from .. import polynomials
from ..polynomials.error_function import LARGE, SMALL
from ..polynomials.hyperbolic import BEND, TANH
from . import hardware

LOG2_E = 1.4426950216293335, 1.925963033500011e-08  # in two parts
MINUS_LOG2_E, TWICE_LOG2_E = -1.4426950408889634, 2.8853900817779268
LOWEST, STEPS = -126.0, 253.0  # n runs over [-126, 127], where 2**n is normal
ROUND = 1.5 * 2.0**23 + 127.0  # adding it leaves the nearest integer, plus 127, in the low bits of the sum


def exp(x: Num) -> Num:
    """e**x, at most 3 ulp, 2 of them the hardware's: 2**r * 2**n with x log2(e) = n + r. 8 instructions.

    n is found from (n + 126)/253, which is clamped to [0, 1] in the instruction that computes it, with NaN taken to 0. Outside of
    that range r takes what is left, and its power of two, or the product, becomes 0, denormal or infinite.
    """
    e = x.emitter
    whole = e.fma(_saturated(e.fma(x, LOG2_E[0] / STEPS, -LOWEST / STEPS)), STEPS, ROUND + LOWEST)
    n = whole - ROUND
    r = e.fma(x, LOG2_E[1], e.fma(x, LOG2_E[0], -n))
    return hardware.ex2(r) * (whole.bits() << 23).as_float()


def exp2(x: Num) -> Num:
    """2**x, at most 2.5 ulp: the hardware's, 24 higher where the result is denormal."""
    small = x < -126.0
    y = hardware.ex2((x + 24.0).where(small, x))
    return (y * 2.0**-24).where(small, y)


def _saturated(x: Num) -> Num:
    """Clamps x to [0, 1], NaN to 0: ptxas folds both into the instruction before."""
    type_ = x.value.type
    return x.emitter.make("arith.minnumf", type_, x.emitter.make("arith.maxnumf", type_, x, x.like(0.0)), x.like(1.0))


def erf(x: Num) -> Num:
    """The error function, at most 2 ulp, without a branch: x + x*q(x*x) below 0.92, 1 - exp(-a*q(a)) with a = |x| above.
    20 instructions.

    The second polynomial, made for a <= 4.05, grows beyond it too, so that its exponential vanishes as it should.
    """
    e = x.emitter
    a = x.abs()
    large = 1.0 - hardware.ex2(e.horner(a, [c * MINUS_LOG2_E for c in LARGE]) * a)
    small = e.fma(e.horner(x * x, SMALL), x, x)
    return small.where(a < 0.92, large.copysign(x))


def tanh(x: Num) -> Num:
    """Hyperbolic tangent, at most 3 ulp: an odd polynomial below BEND, 1 - 2/(exp(2|x|) + 1) above. 16 instructions.

    The exponential may overflow: 2/inf is what it should be.
    """
    e = x.emitter
    a = x.abs()
    square = x * x
    small = e.fma(e.horner(square, TANH) * square, x, x)
    large = e.fma(hardware.reciprocal(hardware.ex2(a * TWICE_LOG2_E) + 1.0), -2.0, 1.0)
    return small.where(a < BEND, large).copysign(x)


def powf(x: Num, y: Num) -> Num:
    """x**y, at most 1 ulp: in f64 as on the CPU, with a quotient that calls nothing."""
    return polynomials.powf(x, y, _quotient)


def _quotient(x: Num, y: Num) -> Num:
    """x / y in f64 for a y near 2, to 2**-45: the hardware's f32 reciprocal and one Newton step."""
    e = x.emitter
    start = hardware.reciprocal(y.cast("arith.truncf", ir.F32Type.get())).cast("arith.extf", ir.F64Type.get())
    return x * e.fma(start, e.fma(-y, start, 1.0), start)
