"""Math functions of f32 and f64 as formulas of arith and math.fma, for vectors and scalars alike.

Every function is right for all finite inputs, infinities, NaN, signed zeros and denormals, with the error its docstring states in
units in the last place (ulp) of the result, that of f32 unless it says f64; test/unit/test_math.py measures that against float64,
test/unit/test_gpu_double.py against long double.

Method. Arguments are reduced as W. J. Cody and W. Waite do (Software Manual for the Elementary Functions, 1980): an integer times
a constant held in two or three parts is subtracted by fused multiply-adds. What remains is a polynomial; the coefficients of f32
are minimax fits (Remez exchange in 30 digits, weighted by the relative error of the result) rounded to f32, those of f64 Chebyshev
fits in 40 digits.

A CPU calls the C library for functions of f64 that are not in `F64`, lane by lane: a model has few of them.
"""

from collections.abc import Callable

from ...ir.emit import Num
from .error_function import erf
from .exponential import exp, exp2, expm1
from .hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from .integer import fpowi_by_library, ipowi, isinf
from .inverse_trigonometric import acos, asin, atan, atan2
from .logarithm import log, log1p, log2, log10
from .power import fpowi, powf, rsqrt
from .trigonometric import cos, sin, tan

F32: dict[str, Callable[..., Num]] = {
    f"math.{function.__name__}": function
    for function in (
        acos, acosh, asin, asinh, atan, atan2, atanh, cos, cosh, erf, exp, exp2, expm1, log, log10, log1p, log2, powf, rsqrt,
        sin, sinh, tan, tanh, fpowi,
    )
}  # fmt: skip
F64: dict[str, Callable[..., Num]] = {f"math.{function.__name__}": function for function in (exp, expm1, log, log1p, tanh)}
F64["math.fpowi"] = fpowi_by_library
ANY: dict[str, Callable[..., Num]] = {f"math.{function.__name__}": function for function in (isinf, ipowi)}
