"""`lamina-expand-math`: math functions become formulas of arithmetic on vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.target import Kind

from ..infra.base import Pass
from ..ir.emit import Emit, Num
from . import float8, gpu_math, philox, polynomials
from .gpu_math import hardware, shortcuts

BITS = "random.bits"
Formulas = dict[str, Callable[..., Num]]


@dataclass(frozen=True)
class ExpandMath(Pass):
    """math functions become arith and math.fma on the same shape, without a call.

    Those of f32 all do; f16 and bf16 operands are widened first. Of f64, exp, expm1, log, log1p and tanh do; the others stay, and
    LLVM calls the C library for each lane. random.bits become the integer arithmetic of Philox, one block of four words for four
    neighbouring lanes. Conversions from and to floats of eight bits become arithmetic on integers.

    With `target=nvvm` the formulas are those of a GPU: exponentials, divisions and roots of f32 that no integer is made of are the
    hardware's approximations, marked `fastmath<afn>`; divisors 1 + exp(y) and exponentials of which only f16 or bf16 is made take
    shorter ways (passes/lower/gpu_math/shortcuts.py). All functions of f64 have formulas. sin, cos and tan stay for
    lamina-gpu-to-nvvm, random.bits for lamina-distribute.

    target  what the code is for: "cpu" or "nvvm"
    ldexp   the target multiplies vectors by powers of two in one instruction (AVX-512's vscalef)

        %y = math.exp %x : vector<64xf32>
    ->  %t = math.fma %x, %log2e, %round : vector<64xf32> ...
    """

    name: ClassVar[str] = "lamina-expand-math"
    target: Kind = "cpu"
    ldexp: bool = False

    def run(self, module: ir.Module) -> None:
        gpu = self.target == "nvvm"
        with module.context:
            formulas = gpu_math if gpu else polynomials
            for op in _find(module, {*float8.CASTS}):
                if float8.is_cast(op):
                    float8.expand(op)
            if gpu:
                for op in _find(module, {"arith.divf"}):
                    shortcuts.by_reciprocal(op)
                for op in _find(module, {"math.exp"}):
                    shortcuts.short_exp(op)
            for op in _find(module, {*polynomials.F32, *polynomials.ANY, *(() if gpu else (BITS,))}):
                if op.name == BITS:
                    philox.expand(op)
                elif not (gpu and hardware.is_marked(op)):
                    self.expand(op, formulas.F32, formulas.F64)
            if gpu:
                for op in _find(module, hardware.MARKABLE):
                    _approximate(op)

    def expand(self, op: ir.Operation, f32: Formulas, f64: Formulas) -> None:
        """One function, where it has a formula."""
        of = op.operands[0].type
        shape = of.shape if isinstance(of, ir.VectorType) else ()
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
            result = _narrowed(f32[op.name](*map(_widened, operands)), element)
        elif isinstance(element, ir.F32Type):
            return
        else:
            result = _in_f32(op, operands)
        op.results[0].replace_all_uses_with(result.value)
        op.erase()


def _find(module: ir.Module, names: set[str]) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _approximate(op: ir.Operation) -> None:
    """A division or root of f32 is the hardware's; of f16 and bf16 it is that of f32, rounded; of f64 it stays."""
    e = Emit.before(op)
    operands = [e.wrap(v) for v in op.operands]
    if isinstance(operands[0].element, ir.F32Type):
        hardware.mark(op)
    elif operands[0].element.width < 32:
        result = _in_f32(op, operands)
        op.results[0].replace_all_uses_with(result.value)
        op.erase()


def _in_f32(op: ir.Operation, operands: list[Num]) -> Num:
    """An op on half types as the same op on f32, its result rounded."""
    e = operands[0].at
    result = e.make(op.name, e.type(ir.F32Type.get()), *map(_widened, operands))
    if op.name in hardware.MARKABLE:
        hardware.mark(result.value.owner)
    return _narrowed(result, operands[0].element)


def _widened(x: Num) -> Num:
    return x.cast("arith.extf", ir.F32Type.get()) if x.is_float and x.element.width < 32 else x


def _narrowed(x: Num, element: ir.Type) -> Num:
    return x if x.element == element else x.cast("arith.truncf", element)
