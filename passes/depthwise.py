"""lamina-depthwise: depthwise convolutions that kernels of ours compute, with the groups that read them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.gpu import Gpu

from .base import Pass
from .generics import empty, filled, generic, with_body
from .layout import CONVOLUTION, channels_last
from .locations import fused, model_ops, op_word
from .product_groups import CHOICE, calls, copy_body, reader, strides_of
from .reading import Untraceable, producer, shape_of
from .realise import bytes_of
from .space import find_space
from .strips import WINDOW, Strips, Unfit, strips_of

_TYPES = ("f16", "bf16")
_STRIDES = (1, 2)
_TAPS = (4, 64)  # of a window
_SMALLEST = 8  # channels
_LAUNCH = 2e-6  # seconds that one kernel less saves
_BUSY = 0.6  # of the peak, that arithmetic beside loads and conversions reaches


@dataclass(frozen=True)
class Depthwise(Pass):
    """Turn calls of depthwise convolutions into kernels of ours.

    Before: @main holds groups and externs. After: a 2-D convolution of f16 or bf16 with one filter for each channel, whose result
    has the channels last, is a group marked `graph.window`: a sum over the window in f32. It takes the group that alone reads it
    where that computes element by element, and the group that makes its image for it alone where it is cheaper to compute that
    again for each strip than to store it. Its weight is put in order by a group of its own, with the channels last and in f32:
    threads have channels side by side, and convert no number of the weight twice. lamina-tile makes strips of it
    (passes/strips.py).

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
        if not self.target:
            return
        gpu = Gpu.named(self.target.partition(":")[2])
        for op in calls(module):
            found = Convolution.read(op)
            if found is not None:
                _replace(op, found, gpu)


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
        given, sizes = shape_of(image), self.result.shape[2:]
        reach = [(o - 1) * s + k for o, s, k in zip(sizes, self.stride, kernel, strict=False)]
        after = [max(r - n - p, 0) for r, n, p in zip(reach, given[2:], self.padding, strict=True)]
        shape = [*given[:2], *(p + n + a for p, n, a in zip(self.padding, given[2:], after, strict=True))]
        element = ir.RankedTensorType(image.type).element_type
        zero = arith.constant(element, 0.0)
        pad = ir.Operation.create(
            "tensor.pad", results=[ir.RankedTensorType.get(shape, element)], operands=[image], regions=1,
            attributes={
                "static_low": ir.DenseI64ArrayAttr.get([0, 0, *self.padding]),
                "static_high": ir.DenseI64ArrayAttr.get([0, 0, *after]),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0]),
            },
        )  # fmt: skip
        with ir.InsertionPoint(pad.regions[0].blocks.append(*[ir.IndexType.get()] * 4)):
            ir.Operation.create("tensor.yield", operands=[zero])
        return pad.results[0]


def _pair(numbers: ir.Attribute) -> tuple[int, int]:
    """What holds for height and width; torch takes one number for both."""
    given = [ir.IntegerAttr(a).value for a in ir.ArrayAttr(numbers)]
    return (given[0], given[-1])


@dataclass(frozen=True)
class _Around:
    """What is computed with a convolution: the group that makes its image for it alone, and the one that alone reads its result."""

    before: ir.Operation | None
    after: ir.Operation | None


def _replace(op: ir.Operation, convolution: Convolution, gpu: Gpu) -> None:
    """The group of a call, with as much of what is around it as strips can compute. The call stays where they cannot compute the
    convolution alone."""
    before, after = _maker(op, convolution.image), reader(op)
    with op.context:
        weight = _weight(op, convolution.weight)
        for around in dict.fromkeys(_Around(b, a) for b in (before, None) for a in (after, None)):
            new = _made(op, around, convolution, weight.results[0])
            plan = _plan(new, gpu)
            if plan is not None and (around.before is None or _pays(around.before, plan, gpu)):
                for old, now in zip((around.after or op).results, new.results, strict=True):
                    old.replace_all_uses_with(now)
                for gone in (around.after, op, around.before):
                    if gone is not None:
                        gone.erase()
                return
            new.erase()
        weight.erase()


def _maker(op: ir.Operation, image: ir.Value) -> ir.Operation | None:
    """The group that makes an image for `op` alone, element by element."""
    group = producer(image)
    if group is None or group.name != "graph.group" or len(group.results) != 1 or len(list(image.uses)) != 1:
        return None
    if WINDOW in group.attributes or CHOICE in group.attributes or list(op.operands).count(image) != 1:
        return None
    ops = [o.operation for o in group.regions[0].blocks[0].operations]
    return None if any("reduction" in str(o.attributes["iterator_types"]) for o in ops if o.name == "linalg.generic") else group


def _pays(before: ir.Operation, plan: Strips, gpu: Gpu) -> bool:
    """Whether it takes less time to make each pixel as often as strips read it than to write and read all of them."""
    again = plan.operations * plan.pixels / (gpu.peak("f32") / 2 * _BUSY)
    return again < 2 * bytes_of(before.results[0]) / gpu.bandwidth + _LAUNCH


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


def _made(op: ir.Operation, around: _Around, convolution: Convolution, weight: ir.Value) -> ir.Operation:
    """The group that would stand for a call and what is around it, beside them."""
    before, after = around.before, around.after
    image = [convolution.image] if before is None else list(before.operands)
    bias = [] if convolution.bias is None else [convolution.bias]
    rest = [] if after is None else [v for v in after.operands if v != op.results[0]]
    operands = list(dict.fromkeys([*image, weight, *bias, *rest]))
    results = [convolution.result] if after is None else [v.type for v in after.results]
    location = fused([o.location for o in (before, op, after) if o is not None])
    words = dict.fromkeys(op_word(name) for name in model_ops(location))

    def body(values: Sequence[ir.Value]) -> ir.Value | None:
        inner = dict(zip(operands, values, strict=True))
        pixels = inner[convolution.image] if before is None else _copied(before, inner)
        made = convolution.emit(pixels, inner[weight], *(inner[v] for v in bias))
        if after is None:
            return made
        copy_body(after, {**inner, op.results[0]: made})
        return None

    with ir.InsertionPoint(after or op):
        new = _group(operands, results, "_".join(list(words)[:5]) or "convolution", location, body)
    new.attributes[WINDOW] = ir.UnitAttr.get()
    return new


def _copied(group: ir.Operation, values: dict[ir.Value, ir.Value]) -> ir.Value:
    """The result of a group, computed at the end of the current block."""
    copy_body(group, values)
    end = list(ir.InsertionPoint.current.block.operations)[-1].operation
    result = end.operands[0]
    end.erase()
    return result


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


def _plan(group: ir.Operation, gpu: Gpu) -> Strips | None:
    """The strips of a group on images that have their channels last; None where there are none."""
    block = group.regions[0].blocks[0]
    last = {v: channels_last(shape_of(v)) for v in (*group.operands, *group.results) if len(shape_of(v)) == 4}
    strides = {a: last.get(v) or strides_of(v) for a, v in zip(block.arguments, group.operands, strict=True)}
    outs = [last.get(v) or strides_of(v) for v in group.results]
    try:
        space = find_space(block, strides, outs, divide=True)
        return strips_of(space, dict.fromkeys(block.arguments, 16), [16] * len(outs), gpu)
    except (Unfit, Untraceable):
        return None
