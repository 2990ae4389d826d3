"""Formulas of f64 functions for GPUs: those that the CPU leaves to the C library, which no GPU has. Coefficients are Chebyshev
fits in 40 digits.

Bounds in docstrings are ulp of the f64 result, measured against long double by test/unit/test_gpu_double.py.
"""

from collections.abc import Callable

from ....ir.emit import Num
from .angles import cos, sin, tan
from .error_function import erf
from .exponential import exp2, log2, log10
from .hyperbolic import acosh, asinh, atanh, cosh, sinh
from .inverse import acos, asin, atan, atan2
from .power import fpowi, powf

F64: dict[str, Callable[..., Num]] = {
    f"math.{function.__name__}": function
    for function in (
        acos, acosh, asin, asinh, atan, atan2, atanh, cosh, erf, exp2, fpowi, log10, log2, powf, sinh,
    )
}  # fmt: skip
LATE: dict[str, Callable[..., Num]] = {f"math.{function.__name__}": function for function in (cos, sin, tan)}
