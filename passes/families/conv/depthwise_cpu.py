"""lamina-depthwise: turns row-major (NCHW) depthwise convolutions of f32 into Lamina's CPU kernels.

oneDNN computes these in a layout blocked by channels, to and from which it copies images and results, or with its reference code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from ...infra.base import Pass
from ...ir.affine import row_major
from ...ir.generics import empty, generic, sums_of_products, with_body
from ...ir.locations import fused, model_ops, op_word
from ...ir.reading import Untraceable, shape_of
from ...space.direct_convolution import NoDirectConvolution
from ...space.planes import PLANES, PlaneWindow, planes_of
from ...space.space import find_space
from ..surroundings import calls, copy_body, reader, strides_of
from .depthwise_calls import is_depthwise
from .padding import padded, past_the_end


@dataclass(frozen=True)
class Depthwise(Pass):
    """Turn depthwise convolutions of f32 with row-major results into Lamina's CPU kernels.

    Before: @main holds groups and externs. After: such a convolution is a group marked `graph.planes`, which has its stride,
    padding and dilation, fused with its only reader where that is a pointwise group. lamina-tile computes it plane by plane
    (passes/space/planes.py).
    """

    name: ClassVar[str] = "lamina-depthwise"

    def run(self, module: ir.Module) -> None:
        """Rewrites the calls."""
        for op in calls(module):
            if is_depthwise(op) and _declared(op) == row_major(shape_of(op.results[0])):
                _replace(op)


def _declared(op: ir.Operation) -> tuple[int, ...]:
    return tuple(ir.DenseI64ArrayAttr(op.attributes["strides"][0]))


def _replace(op: ir.Operation) -> None:
    after = reader(op)
    with op.context:
        for group in [after, None] if after is not None else [None]:
            new = _made(op, group)
            if not _fits(new):
                new.erase()
                continue
            for old, now in zip((group or op).results, new.results, strict=True):
                old.replace_all_uses_with(now)
            for gone in (group, op):
                if gone is not None:
                    gone.erase()
            return


def _made(op: ir.Operation, group: ir.Operation | None) -> ir.Operation:
    """Builds the group that would replace a call and its reader, beside them."""
    after = [] if group is None else [v for v in group.operands if v != op.results[0]]
    given = list(dict.fromkeys([*op.operands, *after]))
    location = fused([o.location for o in ([op] if group is None else [op, group])])
    words = dict.fromkeys(op_word(name) for name in model_ops(location))
    window = _window(op)
    with location, ir.InsertionPoint(group or op):
        new = ir.Operation.create(
            "graph.group",
            results=[v.type for v in (group or op).results],
            operands=given,
            attributes={
                "sym_name": ir.StringAttr.get("_".join(list(words)[:5]) or "convolution"),
                PLANES: window.attribute(),
            },
            regions=1,
        )
        block = new.regions[0].blocks.append(*[v.type for v in given])
        with ir.InsertionPoint(block):
            inner = dict(zip(given, block.arguments, strict=True))
            sums = _convolution(op, window, [inner[v] for v in op.operands])
            made = [sums] if group is None else copy_body(group, {**inner, op.results[0]: sums})
            ir.Operation.create("graph.yield", operands=made)
    return new


def _window(op: ir.Operation) -> PlaneWindow:
    stride, padding, dilation = (_pair(ir.ArrayAttr(op.attributes["args"])[i]) for i in (3, 4, 5))
    return PlaneWindow(stride, padding, dilation)


def _pair(numbers: ir.Attribute) -> tuple[int, int]:
    """Returns the numbers for height and width; torch takes one number for both."""
    given = [ir.IntegerAttr(a).value for a in ir.ArrayAttr(numbers)]
    return (given[0], given[-1])


def _convolution(op: ir.Operation, window: PlaneWindow, values: Sequence[ir.Value]) -> ir.Value:
    """Emits the convolution of a zero-padded image, with the bias if there is one. values: image, weight, bias."""
    image, weight, *bias = values
    type_ = ir.RankedTensorType(op.results[0].type)
    features, _, *kernel = shape_of(weight)
    sizes = zip(type_.shape[2:], window.stride, kernel, window.dilation, strict=True)
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in sizes]
    image = padded(image, window.padding, past_the_end(shape_of(image)[2:], reach, window.padding))
    flat = ir.RankedTensorType.get([features, *kernel], type_.element_type)
    weight = tensor.collapse_shape(flat, weight, [[0, 1], [2], [3]])
    n, c, i, j, ki, kj = (ir.AffineDimExpr.get(d) for d in range(6))
    (si, sj), (di, dj) = window.stride, window.dilation
    maps = [[n, c, i * si + ki * di, j * sj + kj * dj], [c, ki, kj], [n, c, i, j]]
    sums = sums_of_products(type_, image, weight, maps, 2)
    if not bias:
        return sums
    out = [n, c, i, j]
    return with_body(generic(type_, [sums, *bias, empty(type_)], [out, [c], out], 4, [False] * 4), lambda x, y, _: arith.addf(x, y))


def _fits(group: ir.Operation) -> bool:
    """Returns whether the planes schedule can compute a group with row-major results."""
    block = group.regions[0].blocks[0]
    strides = {a: strides_of(v) for a, v in zip(block.arguments, group.operands, strict=True)}
    try:
        space = find_space(block, strides, [row_major(shape_of(v)) for v in group.results], divide=True)
        planes_of(space, PlaneWindow.read(group.attributes[PLANES]), block)
    except (NoDirectConvolution, Untraceable):
        return False
    return True
