"""lamina-depthwise: depthwise convolutions that kernels of ours compute, with the groups that read them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from .base import Pass
from .generics import empty, filled, generic, with_body
from .layout import CONVOLUTION, channels_last
from .locations import fused, model_ops, op_word
from .padding import padded, past_the_end
from .product_groups import calls, copy_body, reader, strides_of
from .reading import Untraceable, shape_of
from .space import find_space
from .strips import WINDOW, Unfit, strips_of

_TYPES = ("f16", "bf16")
_STRIDES = (1, 2)
_TAPS = (4, 64)  # of a window
_SMALLEST = 8  # channels


@dataclass(frozen=True)
class Depthwise(Pass):
    """Turn calls of depthwise convolutions into kernels of ours.

    Before: @main holds groups and externs. After: a 2-D convolution of f16 or bf16 with one filter for each channel, whose result
    has the channels last, is a group marked `graph.window`: a sum over the window in f32, with the group that alone reads it where
    that computes element by element. Its weight is put in order by a group of its own, with the channels last and in f32: threads
    have channels side by side, and convert no number of the weight twice. lamina-tile makes strips of it (passes/strips.py).

        %0 = "graph.extern"(%x, %w) {callee = "aten.convolution.default", args = [unit, unit, none, [1, 1], [3, 3], ...]}
     -> %1 = "graph.group"(%w) ({ transposed, in f32 })
        %0 = "graph.group"(%x, %1) ({ pad ; sum of products }) {graph.window}

    cuDNN's kernels for channels that are last in memory load a pixel and a weight for each product. Here a thread holds a row of
    sums and reads each pixel of a row of the window once, so that nearly all it does is multiply and add.

    target  the GPU ("": none, and nothing is changed)
    """

    name: ClassVar[str] = "lamina-depthwise"
    target: str = ""

    def run(self, module: ir.Module) -> None:
        if not self.target.startswith("nvvm:"):
            return
        for op in calls(module):
            found = Convolution.read(op)
            if found is not None:
                _replace(op, found)


@dataclass(frozen=True)
class Convolution:
    """A depthwise convolution. image: (batch, channels, height, width); kernel, stride, padding: of height, width."""

    image: ir.Value
    weight: ir.Value
    bias: ir.Value | None
    stride: tuple[int, int]
    padding: tuple[int, int]
    result: ir.RankedTensorType

    @staticmethod
    def read(op: ir.Operation) -> "Convolution | None":
        """What a graph.extern calls, where it is a depthwise convolution that may be ours."""
        if op.name != "graph.extern" or ir.StringAttr(op.attributes["callee"]).value != CONVOLUTION:
            return None
        image, weight = (shape_of(v) for v in list(op.operands)[:2])
        _, _, _, stride, padding, dilation, transposed, _, groups = ir.ArrayAttr(op.attributes["args"])
        result = ir.RankedTensorType(op.results[0].type)
        if len(image) != 4 or ir.BoolAttr(transposed).value or 0 in (*image, *result.shape):
            return None
        if not ir.IntegerAttr(groups).value == image[1] == weight[0] or image[1] < _SMALLEST:
            return None
        steps, pads, spread = (_pair(a) for a in (stride, padding, dilation))
        declared = tuple(ir.DenseI64ArrayAttr(op.attributes["strides"][0]))
        suits = (
            str(result.element_type) in _TYPES
            and spread == (1, 1)
            and all(s in _STRIDES for s in steps)
            and min(weight[2:]) > 1
            and _TAPS[0] <= math.prod(weight[2:]) <= _TAPS[1]
            and declared == channels_last(tuple(result.shape))
        )
        bias = op.operands[2] if len(op.operands) > 2 else None
        return Convolution(op.operands[0], op.operands[1], bias, steps, pads, result) if suits else None

    def emit(self, image: ir.Value, weight: ir.Value, bias: ir.Value | None = None) -> ir.Value:
        """The convolution of an image with a weight (kernel height, kernel width, channels) of f32: summed in f32, then rounded."""
        wide = ir.RankedTensorType.get(self.result.shape, ir.F32Type.get())
        n, c, i, j, ki, kj = (ir.AffineDimExpr.get(d) for d in range(6))
        (si, sj), out = self.stride, [n, c, i, j]
        maps = [[n, c, i * si + ki, j * sj + kj], [ki, kj, c], out]
        total = generic(wide, [self._padded(image, shape_of(weight)), weight, filled(wide, 0.0)], maps, 6, [False] * 4 + [True] * 2)
        sums = with_body(total, lambda x, w, s: arith.addf(s, arith.mulf(arith.extf(ir.F32Type.get(), x), w)))
        terms = [sums] if bias is None else [sums, bias]
        rounded = generic(self.result, [*terms, empty(self.result)], [out, *([c] for _ in terms[1:]), out], 4, [False] * 4)

        def whole(x: ir.Value, *rest: ir.Value) -> ir.Value:
            biased = arith.addf(x, arith.extf(x.type, rest[0])) if bias is not None else x
            return arith.truncf(self.result.element_type, biased)

        return with_body(rounded, whole)

    def _padded(self, image: ir.Value, kernel: tuple[int, ...]) -> ir.Value:
        """The image with zeros around it, up to where the last window ends."""
        reach = [(o - 1) * s + k for o, s, k in zip(self.result.shape[2:], self.stride, kernel, strict=False)]
        return padded(image, self.padding, past_the_end(shape_of(image)[2:], reach, self.padding))


def _pair(numbers: ir.Attribute) -> tuple[int, int]:
    """What holds for height and width; torch takes one number for both."""
    given = [ir.IntegerAttr(a).value for a in ir.ArrayAttr(numbers)]
    return (given[0], given[-1])


def _replace(op: ir.Operation, convolution: Convolution) -> None:
    """The group of a call, with its reader, or by itself where strips cannot compute both. The call stays where they cannot compute
    the convolution either."""
    group = reader(op)
    with op.context:
        weight = _weight(op, convolution.weight)
        for after in [group, None] if group is not None else [None]:
            new = _made(op, after, convolution, weight.results[0])
            if _fits(new):
                for old, now in zip((after or op).results, new.results, strict=True):
                    old.replace_all_uses_with(now)
                if after is not None:
                    after.erase()
                op.erase()
                return
            new.erase()
        weight.erase()


def _weight(op: ir.Operation, weight: ir.Value) -> ir.Operation:
    """A group: (channels, 1, kernel height, kernel width) -> (kernel height, kernel width, channels) in f32."""
    c, _, kh, kw = shape_of(weight)
    i, j, k = (ir.AffineDimExpr.get(d) for d in range(3))
    maps = [[k, ir.AffineConstantExpr.get(0), i, j], [i, j, k]]
    f32 = ir.F32Type.get()
    type_ = ir.RankedTensorType.get([kh, kw, c], f32)

    def transposed(values: Sequence[ir.Value]) -> ir.Value:
        return with_body(generic(type_, [values[0], empty(type_)], maps, 3, [False] * 3), lambda x, _: arith.extf(f32, x))

    with ir.InsertionPoint(op):
        return _group([weight], [type_], "weight", op.location, transposed)


def _made(op: ir.Operation, group: ir.Operation | None, convolution: Convolution, weight: ir.Value) -> ir.Operation:
    """The group that would stand for a call and its reader, beside them."""
    after = [] if group is None else [v for v in group.operands if v != op.results[0]]
    bias = [] if convolution.bias is None else [convolution.bias]
    operands = list(dict.fromkeys([convolution.image, weight, *bias, *after]))
    results = [convolution.result] if group is None else [v.type for v in group.results]
    location = fused([o.location for o in ([op] if group is None else [op, group])])
    words = dict.fromkeys(op_word(name) for name in model_ops(location))

    def body(values: Sequence[ir.Value]) -> ir.Value | None:
        inner = dict(zip(operands, values, strict=True))
        made = convolution.emit(inner[convolution.image], inner[weight], *(inner[v] for v in bias))
        if group is None:
            return made
        copy_body(group, {**inner, op.results[0]: made})
        return None

    with ir.InsertionPoint(group or op):
        new = _group(operands, results, "_".join(list(words)[:5]) or "convolution", location, body)
    new.attributes[WINDOW] = ir.UnitAttr.get()
    return new


def _group(
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    name: str,
    location: ir.Location,
    body: Callable[[Sequence[ir.Value]], ir.Value | None],
) -> ir.Operation:
    """A graph.group at the current point. body: makes its ops from its arguments, and gives its result if it has not yielded."""
    with location:
        new = ir.Operation.create(
            "graph.group",
            results=list(results),
            operands=list(operands),
            attributes={"sym_name": ir.StringAttr.get(name)},
            regions=1,
        )
        block = new.regions[0].blocks.append(*[v.type for v in operands])
        with ir.InsertionPoint(block):
            made = body(list(block.arguments))
            if made is not None:
                ir.Operation.create("graph.yield", operands=[made])
    return new


def _fits(group: ir.Operation) -> bool:
    """Whether strips can compute a group on images that have their channels last."""
    block = group.regions[0].blocks[0]
    last = {v: channels_last(shape_of(v)) for v in (*group.operands, *group.results) if len(shape_of(v)) == 4}
    strides = {a: last.get(v) or strides_of(v) for a, v in zip(block.arguments, group.operands, strict=True)}
    outs = [last.get(v) or strides_of(v) for v in group.results]
    try:
        space = find_space(block, strides, outs, divide=True)
        strips_of(space, dict.fromkeys(block.arguments, 16), [16] * len(outs))
    except (Unfit, Untraceable):
        return False
    return True
