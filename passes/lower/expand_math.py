"""lamina-expand-math: expands math functions into arithmetic on vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.target import Kind

from ..infra.base import Pass
from ..ir.emit import Emit, Num, in_f32, replace
from ..ir.reading import element_of, nested
from . import expand_random_bits, float8, gpu_math, polynomials
from .gpu_math import hardware, shortcuts
from .polynomials.remainder import remf

BITS, REMAINDER = "random.bits", "arith.remf"
Formulas = dict[str, Callable[..., Num]]


@dataclass(frozen=True)
class ExpandMath(Pass):
    """Expand math functions into arith and math.fma on the same shape, without calls.

    All functions of f32 are expanded; f16 and bf16 operands are widened first. Of f64, exp, expm1, log, log1p and tanh are; the
    others stay, and LLVM calls the C library for each lane. arith.remf of f32 becomes an exact loop. random.bits become the integer
    arithmetic of Philox, one block of four words for four neighboring lanes. Conversions from and to 8-bit floats become arithmetic
    on integers.

    With `target=nvvm` the formulas are those of a GPU. Exponentials are the hardware's approximations, and so are divisions and
    roots of f32 unless an integer is made of them, or the function is `tile.consistent`; all are marked `fastmath<afn>`. Divisors
    1 + exp(y), and exponentials of which only f16 or bf16 is made, take shorter ways (passes/lower/gpu_math/shortcuts.py). All
    functions of f64 have formulas. sin, cos, tan and arith.remf stay for lamina-gpu-to-nvvm, random.bits for lamina-distribute.

    target  what the code is for: "cpu" or "nvvm"
    ldexp   the target multiplies vectors by powers of two in one instruction (AVX-512's vscalef)

        %y = math.exp %x : vector<64xf32>
    ->  %t = math.fma %x, %log2e, %round : vector<64xf32> ...
    """

    name: ClassVar[str] = "lamina-expand-math"
    target: Kind = "cpu"
    ldexp: bool = False

    def run(self, module: ir.Module) -> None:
        """Expands every op of the module that has a formula for the target."""
        with module.context:
            for op in nested(module.operation, *float8.CASTS):
                if float8.is_cast(op):
                    float8.expand(op)
            if self.target == "nvvm":
                self._expand_for_gpu(module.operation)
            else:
                self._expand_for_cpu(module.operation)

    def _expand_for_cpu(self, module: ir.Operation) -> None:
        for op in nested(module, *polynomials.F32, *polynomials.ANY):
            self.expand(op, polynomials.F32, polynomials.F64)
        for op in nested(module, REMAINDER):
            self.expand(op, {REMAINDER: remf}, {})
        for op in nested(module, BITS):
            expand_random_bits.expand(op)

    def _expand_for_gpu(self, module: ir.Operation) -> None:
        for op in nested(module, "arith.divf"):
            shortcuts.by_reciprocal(op)
        for op in nested(module, "math.exp"):
            shortcuts.short_exp(op)
        for op in nested(module, *polynomials.F32, *polynomials.ANY):
            if not hardware.is_marked(op):
                self.expand(op, gpu_math.F32, gpu_math.F64)
        for function in nested(module, "func.func", "gpu.func"):
            exact = "tile.consistent" in function.attributes
            for op in nested(function, *hardware.MARKABLE):
                _approximate(op, exact)

    def expand(self, op: ir.Operation, f32: Formulas, f64: Formulas) -> None:
        """Expands one op by the formulas of its element type, if it has one there."""
        type_ = op.operands[0].type
        shape = type_.shape if isinstance(type_, ir.VectorType) else ()
        e = Emit(ir.InsertionPoint(op), op.location, shape, ldexp=self.ldexp)
        operands = [e.wrap(v) for v in op.operands]
        element = operands[0].element
        if op.name in polynomials.ANY:
            result = polynomials.ANY[op.name](*operands)
        elif isinstance(element, ir.F64Type):
            if op.name not in f64:
                return
            result = f64[op.name](*operands)
        elif op.name in f32:
            result = f32[op.name](*map(Num.widened, operands)).to(element)
        elif isinstance(element, ir.F32Type):
            return
        else:
            _by_f32(op)
            return
        replace(op, result)


def _approximate(op: ir.Operation, exact: bool) -> None:
    """Marks a division or root of f32 as the hardware's approximation, unless it is to be exact; computes those of f16 and bf16 in
    f32; leaves f64."""
    element = element_of(op.operands[0].type)
    if isinstance(element, ir.F32Type):
        if not exact:
            hardware.mark(op)
    elif element.width < 32:
        _by_f32(op)


def _by_f32(op: ir.Operation) -> None:
    """Computes an op on f16 or bf16 in f32 and rounds its result."""
    single = in_f32(op, Num.widened)
    if op.name in hardware.MARKABLE:
        hardware.mark(single.value.owner)
    replace(op, single.to(element_of(op.operands[0].type)))
