"""lamina-pad-products: pads products whose rows in memory keep a library off the tensor cores' fast path."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.dtypes import HALF
from lamina.core.gpu import Gpu
from lamina.core.layout import Layout
from lamina.core.sizes import divisor, typical
from lamina.core.target import Target

from ...infra.base import Pass
from ...ir.affine import row_major
from ...ir.extern_calls import call_like
from ...ir.generics import padded, transposed
from ...ir.reading import callee_of, element_type, producer, shape_of, terminator
from ...ir.reshapes import sliced
from ...ir.rewriting import replace_op
from ...ir.sizes import read_sizes, sizes_attribute, tensor_type
from ...ir.views import RESHAPES, layout_through
from ..surroundings import calls, strides_of
from .products import Product

ROOM = "graph.room"
"""On a result of @main: its rows may lie further apart in memory than `graph.strides` says."""
_CALLEES = ("aten.mm.default", "aten.addmm.default")
_ALIGNED, _BYTES = 8, 2  # elements of a half type in 16 bytes, the unit in which tensor cores are fed, and their bytes
_SLOW, _FAST = 0.096, 0.71  # cuBLAS's shares of the peak with and without unaligned rows: 95 and 700 TFLOP/s on an H200


@dataclass(frozen=True)
class PadProducts(Pass):
    """Pad the operands of half-precision products with zeros where their rows in memory are not multiples of 16 bytes.

    A vocabulary of 50257 words keeps a product off the fast path. The rows of operands and results are padded, in the order in
    which they lie in memory, where the product saves more time than the copies take, by the target's peaks. What follows reads a
    slice of the product. A result that is one, or a reshape of one, stays in the product's memory where it has `graph.room`: its
    `graph.strides` become those of the slice.

        %0 = "graph.extern"(%a, %b) {callee = "aten.mm.default", ...} : (tensor<8192x768xbf16>, tensor<768x50257xbf16>) -> ...
     -> %p = tensor.pad %b low[0, 0] high[0, 7]
        %w = "graph.extern"(%a, %p) {callee = "aten.mm.default", ...} : ... -> tensor<8192x50264xbf16>
        %0 = tensor.extract_slice %w[0, 0] [8192, 50257] [1, 1]

    target  the GPU
    """

    name: ClassVar[str] = "lamina-pad-products"
    target: Target

    def run(self, module: ir.Module) -> None:
        """Pads the products, then spaces the rows of results."""
        slices: list[ir.Value] = []
        for op in calls(module, symbolic=True):
            product = Product.read(op) if callee_of(op) in _CALLEES else None
            short = None if product is None or element_type(product.a) not in HALF else _short(product)
            if product is not None and short is not None and _pays(product, short, self.target.gpu):
                with op.location, ir.InsertionPoint(op):
                    slices.append(_padded(op, product, *short))
                replace_op(op, slices[-1])
        for main in (f.operation for f in module.body.operations if slices and "res_attrs" in f.operation.attributes):
            with main.context:
                _space_rows(main, slices)


def _short(product: Product) -> tuple[int, int, int] | None:
    """Returns how many elements the rows in memory of operands and result are short of in the dimensions m, n and k; None if
    there is nothing to pad, or if sizes are symbolic."""
    _, m, n, k = product.sizes
    a_by_columns, b_by_columns = map(_by_columns, (product.a, product.b))
    rows = (m, a_by_columns), (n, True), (k, b_by_columns or not a_by_columns)
    if any(counts and divisor(size) % _ALIGNED and not isinstance(size, int) for size, counts in rows):
        return None
    found = tuple(-size % _ALIGNED if counts and isinstance(size, int) else 0 for size, counts in rows)
    return found if any(found) else None  # type: ignore[return-value]


def _by_columns(matrix: ir.Value) -> bool:
    """Returns whether the columns of a matrix are contiguous, and its rows are not."""
    first, last = strides_of(matrix)
    return first == 1 and last != 1


def _pays(product: Product, short: Sequence[int], gpu: Gpu) -> bool:
    """Returns whether the product saves more time than writing and reading the copies takes, at typical sizes."""
    _, m, n, k = map(typical, product.sizes)
    rows, last, inner = map(bool, short)
    copied = (n * k * (inner or last) + m * k * (rows or inner) + m * n * last) * _BYTES
    return 2 * m * n * k / gpu.peak("bf16") * (1 / _SLOW - 1 / _FAST) >= 2 * copied / gpu.bandwidth


def _padded(op: ir.Operation, product: Product, rows: int, last: int, inner: int) -> ir.Value:
    """Emits the first rows and columns of a product with as many more rows, columns and terms."""
    _, m, n, _ = product.sizes
    operands = [_in_memory(product.a, rows, inner), _in_memory(product.b, inner, last)]
    if (bias := product.added) is not None:
        more = [rows if size == m != 1 else 0 for size in shape_of(bias)[:-1]]
        more += [last if size == n else 0 for size in shape_of(bias)[-1:]]
        operands.insert(0, padded(bias, [0] * len(more), more) if any(more) else bias)
    sizes = (m + rows, n + last)
    result = tensor_type(sizes, product.result.element_type), sizes_attribute(row_major(sizes))
    wide = call_like(op, operands, list(ir.ArrayAttr(op.attributes["args"])), [result])
    return sliced(wide.result, [0, 0], [m, n], [1, 1])


def _in_memory(matrix: ir.Value, rows: int, columns: int) -> ir.Value:
    """Emits a matrix with more rows and columns of zeros, in the order in which it lies in memory."""
    if not (rows or columns):
        return matrix
    if not _by_columns(matrix):
        return padded(matrix, [0, 0], [rows, columns])
    return transposed(padded(transposed(matrix, [1, 0]), [0, 0], [columns, rows]), [1, 0])


def _space_rows(main: ir.Operation, slices: list[ir.Value]) -> None:
    """Gives results that are slices of padded products, or reshapes of one, its strides; one for each product, as results share no
    memory."""
    results = [{named.name: named.attr for named in each} for each in ir.ArrayAttr(main.attributes["res_attrs"])]
    for value, wishes in zip(terminator(main.regions[0].blocks[0]).operands, results, strict=True):
        chain: list[ir.Operation] = []
        while value not in slices and (defining := producer(value)) is not None and defining.name in RESHAPES:
            chain.append(defining)
            value = defining.operands[0]
        if ROOM not in wishes or value not in slices:
            continue
        chain.append(value.owner)
        layout = layout_through(chain, Layout.row_major(shape_of(chain[-1].operands[0])))
        asked = Layout.of(shape_of(chain[0].results[0]), read_sizes(wishes["graph.strides"]))
        if layout is not None and asked.is_row_major and asked.shape[-1] == shape_of(value)[-1]:
            wishes["graph.strides"] = sizes_attribute(layout.strides)
            slices.remove(value)
    main.attributes["res_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in results])
