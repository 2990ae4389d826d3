"""Approximations that NVIDIA GPUs compute in one or a few instructions, as ordinary ops of f32 marked by fast-math flags.

They stay elementwise ops on vectors, which every pass between here and lamina-gpu-to-nvvm understands; that one turns each lane
into the PTX instruction. Errors are those of the PTX ISA (8.x, "Floating Point Instructions"); instructions as ptxas 12.8 makes
them for sm_90.

| op                    | PTX                    | instructions                                           | error              |
| --------------------- | ---------------------- | ------------------------------------------------------ | ------------------ |
| math.exp2 <afn>       | ex2.approx.ftz.f32     | 1; results below 2**-126 become 0                       | 2 ulp              |
| arith.divf <afn>      | div.full.f32           | 7; 3 where lanes share the divisor, 1 by a constant     | 2 ulp              |
| arith.divf <arcp,afn> | rcp.approx.ftz.f32, mul | 2; for divisors with 2**-126 <= abs(y) <= 2**126 or inf | 1 ulp and rounding |
| math.rsqrt <afn>      | rsqrt.approx.f32       | 4                                                      | 2**-22.9 relative  |
| math.sqrt <afn>       | sqrt.approx.f32        | 4                                                      | 2**-23 relative    |
"""

from torch_mlir import ir

from ...ir.emit import Num

MARKABLE = {"arith.divf", "math.rsqrt", "math.sqrt"}
# users for which the last bit of a value decides about a whole unit: 6.0/3.0 must not become 1.9999999
_DECIDING = {"math.floor", "math.ceil", "math.trunc", "math.round", "math.roundeven", "arith.fptosi", "arith.fptoui", "arith.cmpf"}


def ex2(x: Num) -> Num:
    """2**x, flushing denormals."""
    return x.emitter.make("math.exp2", x.value.type, x, fastmath=flags("afn"))


def reciprocal(y: Num) -> Num:
    """1 / y for a y of moderate size."""
    return y.emitter.make("arith.divf", y.value.type, y.like(1.0), y, fastmath=flags("arcp,afn"))


def mark(op: ir.Operation) -> None:
    """Marks an f32 division or root as the hardware's, unless its result is rounded to an integer or compared."""
    if not is_marked(op) and not any(use.owner.name in _DECIDING for use in op.results[0].uses):
        op.attributes["fastmath"] = flags("afn")


def is_marked(op: ir.Operation) -> bool:
    """Returns whether an op is such an approximation rather than of IEEE's accuracy."""
    return "fastmath" in op.attributes and "afn" in str(op.attributes["fastmath"])


def by_reciprocal(op: ir.Operation) -> bool:
    """Returns whether a marked division has a divisor of moderate size, so that a reciprocal and a product do."""
    return "arcp" in str(op.attributes["fastmath"])


def flags(names: str) -> ir.Attribute:
    """Returns fast-math flags as an attribute."""
    return ir.Attribute.parse(f"#arith.fastmath<{names}>")
