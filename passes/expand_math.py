"""`lamina-expand-math`: math functions become polynomial programs on vectors."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from .base import Pass
from .emit import Emit, Num
from .polynomials import ANY, F32, F64


@dataclass(frozen=True)
class ExpandMath(Pass):
    """math functions become arith and math.fma on the same shape, without a call.

    Those of f32 all do; f16 and bf16 operands are widened first. Of f64, exp, expm1, log, log1p and tanh do; the others stay, and
    LLVM calls the C library for each lane. `ldexp` says that the target multiplies vectors by powers of two in one instruction
    (AVX-512's vscalef).

        %y = math.exp %x : vector<64xf32>
    ->  %t = math.fma %x, %log2e, %round : vector<64xf32> ...
    """

    name: ClassVar[str] = "lamina-expand-math"
    ldexp: bool = False

    def run(self, module: ir.Module) -> None:
        found: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name in F32 or op.name in ANY:
                found.append(op)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        with module.context:
            for op in found:
                self._expand(op)

    def _expand(self, op: ir.Operation) -> None:
        of = op.operands[0].type
        shape = of.shape if isinstance(of, ir.VectorType) else ()
        e = Emit(ir.InsertionPoint(op), op.location, shape, ldexp=self.ldexp)
        operands = [e.wrap(v) for v in op.operands]
        element = operands[0].element
        if op.name in ANY:
            result = ANY[op.name](*operands)
        elif isinstance(element, ir.F64Type):
            if op.name not in F64:
                return
            result = F64[op.name](*operands)
        else:
            result = _narrowed(F32[op.name](*map(_widened, operands)), element)
        op.results[0].replace_all_uses_with(result.value)
        op.erase()


def _widened(x: Num) -> Num:
    return x.cast("arith.extf", ir.F32Type.get()) if x.is_float and x.element.width < 32 else x


def _narrowed(x: Num, element: ir.Type) -> Num:
    return x if x.element == element else x.cast("arith.truncf", element)
