"""exp and exp2 of f32 for GPUs, on the hardware's ex2."""

from ...ir.emit import Num
from . import hardware

LOG2_E = 1.4426950216293335, 1.925963033500011e-08  # in two parts
LOWEST, STEPS = -126.0, 253.0  # n runs over [-126, 127], where 2**n is normal
ROUND = 1.5 * 2.0**23 + 127.0  # adding it leaves the nearest integer, plus 127, in the low bits of the sum


def exp(x: Num) -> Num:
    """e**x, at most 3 ulp, 2 of them the hardware's: 2**r * 2**n with x log2(e) = n + r. 8 instructions.

    n is found from (n + 126)/253, which is clamped to [0, 1] in the instruction that computes it, with NaN taken to 0. Outside of
    that range r takes what is left, and its power of two, or the product, becomes 0, denormal or infinite.
    """
    e = x.at
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
    of = x.value.type
    return x.at.make("arith.minnumf", of, x.at.make("arith.maxnumf", of, x, x.like(0.0)), x.like(1.0))
