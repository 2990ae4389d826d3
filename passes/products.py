"""Calls of matrix products as linalg, so that kernels of ours can compute them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from .generics import empty, filled, generic, with_body

PRODUCTS = ("aten.mm.default", "aten.addmm.default", "aten.bmm.default", "aten.baddbmm.default")
_FACTORS = ("f16", "bf16")
TF32 = "tf32"  # the attribute of calls that may round factors of f32 to it


@dataclass(frozen=True)
class Product:
    """beta * added + alpha * a @ b, of two matrices or of batches of them; `added` broadcasts."""

    added: ir.Value | None
    a: ir.Value
    b: ir.Value
    beta: float
    alpha: float
    result: ir.RankedTensorType

    @staticmethod
    def read(op: ir.Operation) -> "Product | None":
        """The product that a graph.extern calls; None for another call, and for types that tensor cores do not multiply."""
        if op.name != "graph.extern" or ir.StringAttr(op.attributes["callee"]).value not in PRODUCTS:
            return None
        *added, a, b = op.operands
        element = str(ir.RankedTensorType(a.type).element_type)
        allowed = (*_FACTORS, "f32") if TF32 in op.attributes else _FACTORS
        plain = all(isinstance(x, ir.UnitAttr) for x in op.attributes["args"])
        if element not in allowed or len(op.operands) > 3 or not plain:
            return None
        given = {named.name: float(named.attr.value) for named in op.attributes["kwargs"]}
        result = ir.RankedTensorType(op.results[0].type)
        return Product(added[0] if added else None, a, b, given.get("beta", 1.0), given.get("alpha", 1.0), result)

    @property
    def operands(self) -> list[ir.Value]:
        return [v for v in (self.added, self.a, self.b) if v is not None]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """batch, m, n, k."""
        batch = self.result.shape[0] if self.result.rank == 3 else 1
        return batch, self.result.shape[-2], self.result.shape[-1], ir.RankedTensorType(self.a.type).shape[-1]

    def emit(self, operands: Sequence[ir.Value]) -> ir.Value:
        """The product of other values like `operands`, in linalg: summed in f32, then rounded to the result's type. Factors of f32
        are rounded to tf32."""
        *added, a, b = operands
        return self.finish(self.sums(a, b), added)

    def sums(self, a: ir.Value, b: ir.Value, parts: int = 1) -> ir.Value:
        """The sums of products alone, f32. parts: into which the inner dimension is cut; if more than one, the result has the sums
        of each, [parts, ...]."""
        rank, dims = self.result.rank, [ir.AffineDimExpr.get(d) for d in range(self.result.rank + 2)]
        *outer, i, j, k = dims[:-1]
        maps, shape = [[*outer, i, k], [*outer, k, j], [*outer, i, j]], list(self.result.shape)
        if parts > 1:
            p, *outer, i, j, k = dims
            maps, shape = [[*outer, i, p, k], [*outer, p, k, j], [p, *outer, i, j]], [parts, *shape]
            a, b = in_parts(a, rank - 1, parts), in_parts(b, rank - 2, parts)
        wide = ir.RankedTensorType.get(shape, ir.F32Type.get())
        loops = len(shape)
        total = generic(wide, [a, b, filled(wide, 0.0)], maps, loops + 1, [False] * loops + [True])
        return with_body(total, lambda x, y, s: arith.addf(s, arith.mulf(_factor(x), _factor(y))))

    def finish(self, sums: ir.Value, added: Sequence[ir.Value], parts: int = 1) -> ir.Value:
        """The product, from what `sums` gave, and what is added to it, if anything. Parts are added in their order."""
        rank = self.result.rank
        inner = [ir.AffineDimExpr.get(d) for d in range(rank)]
        terms, term_maps = [sums] * parts, [inner]
        if parts > 1:
            term_maps = [[ir.AffineConstantExpr.get(p), *inner] for p in range(parts)]
        if added and self.beta:
            shape = ir.RankedTensorType(added[0].type).shape
            first = rank - len(shape)
            stays = [n == m for n, m in zip(shape, self.result.shape[first:], strict=True)]
            terms.append(added[0])
            term_maps.append([d if s else ir.AffineConstantExpr.get(0) for d, s in zip(inner[first:], stays, strict=True)])
        out = generic(self.result, [*terms, empty(self.result)], [*term_maps, inner], rank, [False] * rank)

        def epilogue(*elements: ir.Value) -> ir.Value:
            value = _scaled(reduce(arith.addf, elements[:parts]), self.alpha)
            for term in elements[parts:-1]:
                value = arith.addf(value, _scaled(_wide(term), self.beta))
            return value if self.result.element_type == ir.F32Type.get() else arith.truncf(self.result.element_type, value)

        return with_body(out, epilogue)


def in_parts(factor: ir.Value, dim: int, parts: int) -> ir.Value:
    """A factor with its inner dimension cut in two: [..., parts, inner / parts, ...]."""
    type_ = ir.RankedTensorType(factor.type)
    shape = [*type_.shape[:dim], parts, type_.shape[dim] // parts, *type_.shape[dim + 1 :]]
    places = [[d + (d > dim)] if d != dim else [d, d + 1] for d in range(type_.rank)]
    return tensor.expand_shape(ir.RankedTensorType.get(shape, type_.element_type), factor, places, [], shape)


def _wide(x: ir.Value) -> ir.Value:
    f32 = ir.F32Type.get()
    return x if x.type == f32 else arith.extf(f32, x)


def _factor(x: ir.Value) -> ir.Value:
    f32 = ir.F32Type.get()
    return arith.extf(f32, arith.truncf(ir.FloatTF32Type.get(), x) if x.type == f32 else x)


def _scaled(x: ir.Value, by: float) -> ir.Value:
    return x if by == 1 else arith.mulf(x, arith.constant(x.type, by))
