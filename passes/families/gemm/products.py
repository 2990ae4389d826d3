"""Reads calls of matrix products (mm, addmm, bmm, baddbmm, _scaled_mm) and emits them as linalg for Lamina's kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.dtypes import HALF
from lamina.core.sizes import SizeLike
from lamina.dialects.graph import TF32
from lamina.kernels.library import PRODUCTS, SCALED_PRODUCT

from ...ir.generics import elementwise, in_parts, sums_of_products, tf32_or_half, to_f32
from ...ir.reading import callee_of, shape_of
from ...ir.sizes import sizes_of, tensor_type
from ..conv.implicit_gemm import ImplicitGemm

_FLOAT8 = "f8E4M3FN"
_FAST = 7  # the position of use_fast_accum among the arguments of _scaled_mm; if true, sums may have less precision


@dataclass(frozen=True)
class Product:
    """A matrix product, or a batch of them: beta * added + alpha * a @ b.

    added   the bias, which broadcasts to the result; None: there is none
    scales  f32 factors that multiply the sums, and broadcast to the result
    fast    the sums may have less precision than f32
    """

    added: ir.Value | None
    a: ir.Value
    b: ir.Value
    beta: float
    alpha: float
    result: ir.RankedTensorType
    scales: tuple[ir.Value, ...] = ()
    fast: bool = False

    @staticmethod
    def read(op: ir.Operation) -> "Product | None":
        """Reads the product that a graph.extern calls; None for other calls, and for types that tensor cores do not multiply."""
        if op.name != "graph.extern" or callee_of(op) not in PRODUCTS:
            return None
        if callee_of(op) == SCALED_PRODUCT:
            return _scaled_product(op)
        *added, a, b = op.operands
        element = str(ir.RankedTensorType(a.type).element_type)
        allowed = (*HALF, "f32") if TF32 in op.attributes else HALF
        plain = all(isinstance(x, ir.UnitAttr) for x in op.attributes["args"])
        if element not in allowed or len(op.operands) > 3 or not plain:
            return None
        given = {named.name: float(named.attr.value) for named in op.attributes["kwargs"]}
        result = ir.RankedTensorType(op.results[0].type)
        return Product(added[0] if added else None, a, b, given.get("beta", 1.0), given.get("alpha", 1.0), result)

    @property
    def operands(self) -> list[ir.Value]:
        """The bias if there is one, a, b and the scales."""
        return [*([] if self.added is None else [self.added]), self.a, self.b, *self.scales]

    @property
    def after(self) -> list[ir.Value]:
        """The operands that `finish` reads besides the sums: the scales, and the bias if there is one."""
        return [*self.scales, *([] if self.added is None else [self.added])]

    @property
    def sizes(self) -> tuple[SizeLike, SizeLike, SizeLike, SizeLike]:
        """The sizes (batch, m, n, k)."""
        *batch, m, n = sizes_of(self.result)
        return batch[0] if batch else 1, m, n, shape_of(self.a)[-1]

    def emit(self, operands: Sequence[ir.Value]) -> ir.Value:
        """Emits the product in linalg: summed in f32, then rounded to the result's type. f32 factors are rounded to tf32.

        operands  values to use for `self.operands`
        """
        values = dict(zip(self.operands, operands, strict=True))
        return self.finish(self.sums(values[self.a], values[self.b]), [values[v] for v in self.after])

    def sums(self, a: ir.Value, b: ir.Value, parts: int = 1) -> ir.Value:
        """Emits the sums a @ b alone, in f32. parts: split-K parts of the inner dimension; with more than one the result is
        [parts, ...], the sums of each."""
        rank, dims = self.result.rank, [ir.AffineDimExpr.get(d) for d in range(self.result.rank + 2)]
        *outer, i, j, k = dims[:-1]
        maps, shape = [[*outer, i, k], [*outer, k, j], [*outer, i, j]], list(sizes_of(self.result))
        if parts > 1:
            p, *outer, i, j, k = dims
            maps, shape = [[*outer, i, p, k], [*outer, p, k, j], [p, *outer, i, j]], [parts, *shape]
            a, b = in_parts(a, rank - 1, parts), in_parts(b, rank - 2, parts)
        return sums_of_products(tensor_type(shape, ir.F32Type.get()), a, b, maps, 1, factor=tf32_or_half)

    def finish(self, sums: ir.Value, after: Sequence[ir.Value], parts: int = 1) -> ir.Value:
        """Emits the product from the result of `sums`, with the values to use for `self.after`. Parts are added in order."""
        rank = self.result.rank
        inner = [ir.AffineDimExpr.get(d) for d in range(rank)]
        terms, term_maps = [sums] * parts, [inner]
        if parts > 1:
            term_maps = [[ir.AffineConstantExpr.get(p), *inner] for p in range(parts)]
        count = parts + len(self.scales)
        for value in after if self.beta else after[: len(self.scales)]:
            terms.append(value)
            term_maps.append(_spread(value, sizes_of(self.result), inner))

        def epilogue(*elements: ir.Value) -> ir.Value:
            """Adds up the parts, scales and adds the other terms, and rounds."""
            value = _scaled(reduce(arith.addf, elements[:parts]), self.alpha)
            value = reduce(arith.mulf, elements[parts:count], value)
            for term in elements[count:]:
                value = arith.addf(value, _scaled(to_f32(term), self.beta))
            return value if self.result.element_type == ir.F32Type.get() else arith.truncf(self.result.element_type, value)

        return elementwise(self.result, terms, term_maps, epilogue)


def read_product(op: ir.Operation) -> Product | ImplicitGemm | None:
    """Reads the product or convolution that a graph.extern calls, where a GEMM kernel may compute it."""
    return Product.read(op) or ImplicitGemm.read(op)


def _scaled_product(op: ir.Operation) -> Product | None:
    """Reads aten._scaled_mm on e4m3, with a scale per matrix, or per row of the left and column of the right; None for others."""
    operands, args = list(op.operands), list(op.attributes["args"])
    tensors: list[ir.Value | None] = [operands.pop(0) if isinstance(x, ir.UnitAttr) else None for x in args[:6]]
    a, b, one, other, bias, scale_result = tensors + [None] * (6 - len(tensors))
    if a is None or b is None or one is None or other is None or scale_result is not None or operands or op.attributes["kwargs"]:
        return None
    result = ir.RankedTensorType(op.results[0].type)
    shapes = [tuple(ir.RankedTensorType(v.type).shape) for v in (one, other)]
    types = [str(ir.RankedTensorType(v.type).element_type) for v in (a, b, one, other)]
    known = all(s in ((), (1,), (1, 1)) for s in shapes) or shapes == [(result.shape[0], 1), (1, result.shape[1])]
    if not known or types != [_FLOAT8, _FLOAT8, "f32", "f32"]:
        return None
    fast = len(args) > _FAST and isinstance(args[_FAST], ir.BoolAttr) and args[_FAST].value
    return Product(bias, a, b, 1.0, 1.0, result, (one, other), fast)


def _spread(v: ir.Value, shape: Sequence[SizeLike], dims: Sequence[ir.AffineExpr]) -> list[ir.AffineExpr]:
    """Returns the indexing map of a tensor that broadcasts to `shape`, whose loops are `dims`."""
    mine = shape_of(v)
    first = len(shape) - len(mine)
    stays = [n == m for n, m in zip(mine, shape[first:], strict=True)]
    return [d if s else ir.AffineConstantExpr.get(0) for d, s in zip(dims[first:], stays, strict=True)]


def _scaled(x: ir.Value, by: float) -> ir.Value:
    return x if by == 1 else arith.mulf(x, arith.constant(x.type, by))
