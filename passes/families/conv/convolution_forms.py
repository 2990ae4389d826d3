"""lamina-convolution-forms: gives convolutions the forms that a GPU's libraries and Lamina's kernels compute fastest."""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.dtypes import HALF
from lamina.core.gpu import Gpu
from lamina.core.sizes import below, is_symbolic
from lamina.core.target import Target
from lamina.dialects.graph import TF32
from lamina.kernels.library import CONVOLUTION, CONVOLUTION_BACKWARD

from ...infra.base import Pass
from ...ir.affine import row_major
from ...ir.extern_calls import call_like, encoded, extern_call
from ...ir.generics import elementwise, transposed
from ...ir.reading import callee_of, element_type, shape_of
from ...ir.reshapes import collapse, expand, sliced
from ...ir.rewriting import replace_op
from ...ir.sizes import sizes_attribute, sizes_of, tensor_type
from ..surroundings import calls
from .calls import FIRST_NUMBER, SUMMED_DIRECTLY, Convolution, has_fixed_window, sum_of_channels
from .depthwise_gradients import reversed_windows
from .few_channels import FEW, Window, with_more_channels
from .one_row import numbers_with_row, row_added, row_dropped, with_row
from .weight_sums import weight_sums


@dataclass(frozen=True)
class ConvolutionForms(Pass):
    """Rewrite convolutions, and their gradients, into forms that a GPU's libraries compute faster.

    Before: what lamina-extern made of the model's calls. After:

    - No convolution has a bias: torch adds it in a kernel of its own, and here it fuses with what reads it. Its gradient is a sum.
    - 1-D convolutions of half types, and of f32 that may be rounded to tf32, are those of images of one row.
    - Images of one pixel, and windows of half types that do not overlap, are rows of a matrix product.
    - Half-precision images of few channels have 16 (few_channels.py).
    - Gradients of the images of depthwise convolutions are such convolutions, too; those of weights of half types and few
      elements are sums of products.

        %0 = "graph.extern"(%x, %w, %b) {callee = "aten.convolution.default", ...}
     -> %1 = "graph.extern"(%x, %w) {callee = "aten.convolution.default", ...} ; %0 = linalg.generic (%1 + %b)

    target  the GPU
    """

    name: ClassVar[str] = "lamina-convolution-forms"
    target: Target

    def run(self, module: ir.Module) -> None:
        """Rewrites the calls."""
        for op in calls(module, symbolic=True):
            callee = callee_of(op)
            if callee not in (CONVOLUTION, CONVOLUTION_BACKWARD):
                continue
            with op.location, ir.InsertionPoint(op):
                replacements = _forward(op, self.target.gpu) if callee == CONVOLUTION else _backward(op)
            if replacements is not None:
                replace_op(op, *replacements)


@dataclass(frozen=True)
class _Call:
    """A convolution's image, weight and numbers. how: stride, padding, dilation, transposed, padding of the output, groups."""

    op: ir.Operation
    image: ir.Value
    weight: ir.Value
    how: tuple[ir.Attribute, ...]

    @property
    def window(self) -> Window:
        """The numbers for height and width; torch accepts one number for both."""
        each = [[ir.IntegerAttr(n).value for n in ir.ArrayAttr(numbers)] for numbers in self.how[:3]]
        return Window(*(tuple(numbers) * (2 // len(numbers)) for numbers in each))

    @property
    def is_dense(self) -> bool:
        """Whether this is not transposed, and has one group."""
        return not ir.BoolAttr(self.how[3]).value and self.how[5] == encoded(1)

    @property
    def is_one_dimensional(self) -> bool:
        """Whether this is 1-D, not transposed, and may be an image of one row."""
        types = {element_type(v) for v in (self.image, self.weight)}
        rounded = types <= set(HALF) or (types == {"f32"} and TF32 in self.op.attributes)
        one = len(types) == 1 and len(shape_of(self.image)) == 3
        return one and rounded and not ir.BoolAttr(self.how[3]).value and not _is_empty(self.image, self.weight)

    def as_image(self) -> "_Call":
        """Emits the images of one row of a 1-D convolution."""
        return replace(self, image=row_added(self.image), weight=row_added(self.weight), how=numbers_with_row(self.how))

    def call(self, type_: ir.Type, strides: ir.Attribute) -> ir.Value:
        """Emits the convolution without a bias."""
        args = [ir.UnitAttr.get(), ir.UnitAttr.get(), None, *self.how]
        return call_like(self.op, [self.image, self.weight], args, [(type_, strides)]).results[0]


def _forward(op: ir.Operation, gpu: Gpu) -> list[ir.Value] | None:
    """Emits another form of a convolution; None if there is none."""
    image, weight, *biases = op.operands
    call = _Call(op, image, weight, tuple(op.attributes["args"])[FIRST_NUMBER[CONVOLUTION] :])
    bias, type_, strides = biases[0] if biases else None, op.results[0].type, op.attributes["strides"][0]
    half = element_type(image) in HALF and element_type(image) == element_type(weight)
    plain = len(shape_of(image)) == 4 and call.is_dense and has_fixed_window(call.how) and not _is_empty(image, weight)
    if plain and _has_one_pixel(call):
        return [
            expand(_product(call, collapse(image, [[0], [1, 2, 3]]), _columns(weight), bias), sizes_of(type_), [[0], [1, 2, 3]])
        ]
    if plain and half and call.window.covers_image(shape_of(weight)[2:]):
        return [_patch_product(call, bias)]
    if call.is_one_dimensional:
        row = with_row(type_)
        out = row_dropped(call.as_image().call(row, sizes_attribute(row_major(sizes_of(row)))))
    elif plain and half and (wider := with_more_channels(image, weight, call.window, sizes_of(type_), gpu)) is not None:
        image, weight, window = wider
        out = replace(call, image=image, weight=weight, how=(*map(encoded, window), *call.how[3:])).call(type_, strides)
    elif bias is not None:
        out = call.call(type_, strides)
    else:
        return None
    return [out if bias is None else _added(out, bias)]


def _backward(op: ir.Operation) -> list[ir.Value] | None:
    """Emits another form of a convolution's gradients; None if there is none."""
    grad, image, weight = op.operands
    *how, wanted = list(ir.ArrayAttr(op.attributes["args"]))[FIRST_NUMBER[CONVOLUTION_BACKWARD] :]
    call, mask = _Call(op, image, weight, tuple(how)), [ir.BoolAttr(m).value for m in ir.ArrayAttr(wanted)]
    if _is_empty(grad, image, weight) or not (mask[2] or call.is_one_dimensional or len(shape_of(image)) == 4):
        return None
    bias = [sum_of_channels(grad, op.results[len(op.results) - 1].type)] if mask[2] else []
    result_types = [
        (r.type, s)
        for r, s in zip(op.results, (s for s in op.attributes["strides"] if not isinstance(s, ir.TypeAttr)), strict=True)
    ]
    result_types = result_types[: sum(mask[:2])]
    if not result_types:
        return bias
    rows = call.is_one_dimensional
    if rows:
        call, grad = call.as_image(), row_added(grad)
        result_types = [(row := with_row(type_), sizes_attribute(row_major(sizes_of(row)))) for type_, _ in result_types]
    emitted = [
        _image_gradient(call, grad, *result_types[0]) if mask[0] else None,
        _weight_gradient(call, grad, result_types[-1][0]) if mask[1] else None,
    ]
    if not (any(emitted) or bias or rows):
        return None
    left = [is_wanted and value is None for is_wanted, value in zip(mask, emitted, strict=False)]
    if any(left):
        args = [*[ir.UnitAttr.get()] * 3, None, *call.how, [*left, False]]
        results = [result_types[sum(mask[:i])] if is_left else None for i, is_left in enumerate(left)]
        remaining = iter(call_like(op, [grad, call.image, call.weight], args, [*results, None]).results)
        emitted = [next(remaining) if is_left else value for is_left, value in zip(left, emitted, strict=True)]
    gradients = [value for value in emitted if value is not None]
    return [*(map(row_dropped, gradients) if rows else gradients), *bias]


def _weight_gradient(call: _Call, grad: ir.Value, type_: ir.Type) -> ir.Value | None:
    """Emits the gradient of a depthwise convolution's weight as sums of products; None for others."""
    one_each = call.how[5] == encoded(shape_of(call.weight)[0]) and not ir.BoolAttr(call.how[3]).value
    if not one_each or len(shape_of(call.weight)) != 4 or not has_fixed_window(call.how):
        return None
    return weight_sums(grad, call.image, call.window, ir.RankedTensorType(type_))


def _image_gradient(call: _Call, grad: ir.Value, type_: ir.Type, strides: ir.Attribute) -> ir.Value | None:
    """Emits the gradient of the image as the convolution of the result's gradient with the reversed windows, where Lamina's kernels
    compute that: of depthwise convolutions that are direct by default. None for others."""
    if len(shape_of(call.weight)) != 4 or not has_fixed_window(call.how) or is_symbolic(shape_of(call.weight)):
        return None
    window, size = call.window, shape_of(call.weight)[2:]
    around = [d * (k - 1) - p for d, k, p in zip(window.dilation, size, window.padding, strict=True)]
    if window.stride != (1, 1) or min(around) < 0 or ir.BoolAttr(call.how[3]).value or element_type(grad) not in SUMMED_DIRECTLY:
        return None
    args = [ir.UnitAttr.get(), ir.UnitAttr.get(), None, *map(encoded, window._replace(padding=tuple(around))), *call.how[3:]]
    call_op = call_like(call.op, [grad, call.weight], args, [(type_, strides)], CONVOLUTION)
    convolution = Convolution.read(call_op)
    if convolution is None or not (convolution.is_plain and convolution.is_direct_by_default):
        call_op.erase()
        return None
    with ir.InsertionPoint(call_op):
        call_op.operands[1] = reversed_windows(call.weight)
    return call_op.results[0]


def _is_empty(*values: ir.Value) -> bool:
    return any(0 in shape_of(v) for v in values)


def _has_one_pixel(call: _Call) -> bool:
    """Returns whether images and weights have one pixel."""
    return not any(call.window.padding) and shape_of(call.image)[2:] == shape_of(call.weight)[2:] == (1, 1)


def _columns(weight: ir.Value) -> ir.Value:
    """Emits a weight as the right operand of a product: a column for each feature."""
    return transposed(collapse(weight, [[0], [1, 2, 3]]), [1, 0])


def _product(call: _Call, left: ir.Value, right: ir.Value, bias: ir.Value | None) -> ir.Value:
    """Emits the library's matrix product, to which it adds a bias."""
    type_ = tensor_type([shape_of(left)[0], shape_of(right)[1]], ir.RankedTensorType(call.op.results[0].type).element_type)
    name, args = ("mm", [left, right]) if bias is None else ("addmm", [bias, left, right])
    return extern_call(f"aten.{name}.default", args, {}, [(type_, row_major(sizes_of(type_)))]).results[0]


def _patch_product(call: _Call, bias: ir.Value | None) -> ir.Value:
    """Emits a matrix product whose rows are the patches: the kernel that produces the image writes them, and cuBLAS adds the bias.

    Patches are laid out as the image is: channel by channel where there are few channels, else channels last.
    """
    n, c, *size = shape_of(call.image)
    features, _, kh, kw = shape_of(call.weight)
    h, w = sizes_of(call.op.results[0].type)[2:]
    few = below(c, FEW)
    inside = [n, c, h * kh, w * kw]
    whole = call.image if inside[2:] == size else sliced(call.image, [0] * 4, inside, [1] * 4)
    patches = transposed(
        expand(whole, [n, c, h, kh, w, kw], [[0], [1], [2, 3], [4, 5]]), [0, 2, 4, *([1, 3, 5] if few else [3, 5, 1])]
    )
    kernels = _columns(call.weight if few else transposed(call.weight, [0, 2, 3, 1]))
    rows = _product(call, collapse(patches, [[0, 1, 2], [3, 4, 5]]), kernels, bias)
    return transposed(expand(rows, [n, h, w, features], [[0, 1, 2], [3]]), [0, 3, 1, 2])


def _added(out: ir.Value, bias: ir.Value) -> ir.Value:
    """Emits the sum of a convolution and a bias."""
    type_ = ir.RankedTensorType(out.type)
    dims = [ir.AffineDimExpr.get(d) for d in range(type_.rank)]
    return elementwise(type_, [out, bias], [dims, dims[1:2]], arith.addf)
