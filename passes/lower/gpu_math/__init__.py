"""Math functions as formulas for NVIDIA GPUs: arith, math.fma and the hardware's own approximations (hardware.py).

Functions that the hardware is no help for (logarithms, powers, inverse functions, f64) come from `polynomials`, as on the CPU. sin,
cos and tan stay: their reduction of large angles is a branch, which belongs to one thread, so lamina-gpu-to-nvvm expands them.

Bounds in docstrings are units in the last place (ulp) of the result, with the hardware at its worst documented error;
test/unit/test_gpu_math.py measures them against float64 by an emulation that errs as much as the documents allow.
"""

from collections.abc import Callable

from ...ir.emit import Num
from .. import polynomials
from .single import erf, exp, exp2, powf, tanh

LATE: dict[str, Callable[..., Num]] = {name: polynomials.F32[name] for name in ("math.cos", "math.sin", "math.tan")}
F64: dict[str, Callable[..., Num]] = {
    name: function for name, function in polynomials.F32.items() if name not in LATE and name != "math.rsqrt"
}
F32: dict[str, Callable[..., Num]] = F64 | {f"math.{function.__name__}": function for function in (erf, exp, exp2, powf, tanh)}
