"""cuDNN's convolution with a bias and a ReLU. A batch norm with running statistics between them is folded into weight and bias.

    relu(norm(convolution(x, w)))  ->  cudnn_convolution_relu(x, w * scale, shift)

Between the two is a chain of additions and products with one number per channel: a bias, a norm (also one that a model writes
out). The scale is multiplied into the weight, by a kernel in each call, as parameters are inputs; the shift becomes the bias. Why
this and no more is in docs/decisions/11-epilogues.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.dtypes import HALF
from lamina.core.target import Target
from lamina.dialects.graph import CALLS
from lamina.kernels.library import CONVOLUTION_RELU

from ...ir.affine import Affine
from ...ir.expressions import Apply, Const, Expr, Interner, Load, unlisted, walk
from ...ir.extern_calls import declared_strides
from ...ir.generics import elementwise, to_f32
from ...ir.reading import bytes_of, element_type, elements_of, producer, shape_of
from ...ir.reshapes import collapsed
from ...ir.sizes import read_sizes, sizes_of, tensor_type
from ...ir.views import is_view
from ..conv.calls import Convolution, channels_last
from ..problem import Problem
from ..surroundings import ValueMap, copy_body, group_before, strides_of
from .routine import Epilogue, Routine, VendorCall, epilogue

_FEW = 8  # channels, below which cuDNN takes four times as long with a ReLU as without
_EPILOGUE = 1 / 3  # at most, of the pass that it saves: 16 of 51 us for a 1x1 convolution of 64 to 256 channels, mostly 0 to 0.1
_STEPS = ("arith.mulf", "arith.addf", "arith.subf")
_MULTIPLY, _ADD, _SUBTRACT = _STEPS

Step = tuple[str, Expr]


class ConvolutionRelu(Routine):
    """A ReLU of a convolution of a half type, with factors and terms of each channel in between."""

    name: ClassVar[str] = "cudnn"

    def call(self, problem: Problem, target: Target) -> VendorCall | None:
        """Returns cuDNN's call; None if it has none, or would be less exact than eager."""
        found = _Fused.read(problem) if target.is_gpu else None
        return None if found is None else found.call()

    def pays(self, problem: Problem, target: Target) -> bool:
        """Returns whether the pass that is saved takes longer than the epilogue and the scaling of the weight, at typical sizes.
        Where only kernels read the result, there may be no pass: they compute what they read."""
        fusion = _Fused.read(problem)
        if fusion is None or not _is_stored(fusion.group.results[0]):
            return False
        gpu, weight = target.gpu, fusion.convolution.weight
        passed = 2 * bytes_of(fusion.group.results[0]) / gpu.bandwidth
        scaling = 2 * bytes_of(weight) / gpu.bandwidth if fusion.is_scaled and fusion.weight_kernel is None else 0.0
        return passed + gpu.launch > _EPILOGUE * passed + scaling


@dataclass(frozen=True)
class _Fused:
    """A convolution, and the group that reads it and ends in a ReLU.

    steps  ops on the convolution's result: their names and other operands, in order
    """

    convolution: Convolution
    group: ir.Operation
    after: Epilogue
    steps: Sequence[Step]

    @staticmethod
    def read(problem: Problem) -> "_Fused | None":
        """Reads a problem; None if cuDNN has no such call, or it would be less exact than eager: scaled weights in f16 may leave
        its range."""
        convolution, after = Convolution.read(problem.ops[0]), epilogue(problem)
        if convolution is None or after is None or problem.group is None or len(problem.ops) > 1 or not _suits(convolution):
            return None
        result, relu = convolution.op.results[0], after.element
        if (
            element_type(problem.group.results[0]) != convolution.element
            or not isinstance(relu, Apply)
            or relu.op != "arith.maximumf"
        ):
            return None
        inner, zero = relu.operands
        steps = _steps(inner, next(e for e in walk(inner) if isinstance(e, Load) and after.operand_of[e.tensor] == result))
        if not isinstance(zero, Const) or zero.value != 0 or steps is None:
            return None
        each = after.index[1], shape_of(result)[1]
        if not all(_is_per_channel(e, *each) for _, other in steps for e in walk(other)):
            return None
        fusion = _Fused(convolution, problem.group, after, steps)
        return fusion if convolution.element == "bf16" or not fusion.is_scaled else None

    @property
    def is_scaled(self) -> bool:
        """Whether a factor is multiplied in."""
        return any(op == _MULTIPLY for op, _ in self.steps)

    @property
    def weight_kernel(self) -> ir.Operation | None:
        """The group that computes the weight for this call alone, as lamina-layout adds one; None without one."""
        group = producer(self.convolution.weight)
        plain = group is not None and group.name == "graph.group" and len(group.results) == 1
        return group if plain and len(list(self.convolution.weight.uses)) == 1 else None

    def call(self) -> VendorCall:
        """Returns the call."""
        bias, make = self._parameter(), Interner()
        scale, shift = (None, None) if bias is not None else _folded(self.steps, make)
        result, type_ = self.convolution.op.results[0], self.convolution.result
        channels = tensor_type([shape_of(result)[1]], type_.element_type)
        weight = self.convolution.weight if scale is None else partial(self._scaled, scale)
        added = bias if shift is None else partial(self._computed, shift, channels)
        how = list(self.convolution.op.attributes["args"])[3:6]
        args = [self.convolution.image, weight, added, *how, self.convolution.groups]
        return VendorCall(CONVOLUTION_RELU, args, self.group.results, result_types=[(type_, declared_strides(result))])

    def _parameter(self) -> ir.Value | None:
        """Returns the bias as the model holds it, where the group does nothing else but add it."""
        if len(self.steps) != 1 or self.steps[0][0] != _ADD or not isinstance(load := self.steps[0][1], Load):
            return None
        value = self.after.operand_of[load.tensor]
        while (reshape := producer(value)) is not None and reshape.name in ("tensor.expand_shape", "tensor.collapse_shape"):
            value = reshape.operands[0]
        same = ir.RankedTensorType(value.type).element_type == self.convolution.result.element_type
        return value if same and len(shape_of(value)) == 1 and strides_of(value) == (1,) else None

    def _scaled(self, scale: Expr) -> ir.Value:
        """Emits the group that scales the weight, with what computes it."""
        weight, kernel = self.convolution.weight, self.weight_kernel

        def copied(values: ValueMap) -> ir.Value:
            """Computes the scaled weight."""
            return values[weight] if kernel is None else copy_body(kernel, values)[0]

        return self._computed(scale, weight.type, [weight] if kernel is None else list(kernel.operands), copied)

    def _computed(
        self, each: Expr, type_: ir.Type, more: Sequence[ir.Value] = (), factor: Callable[[ValueMap], ir.Value] | None = None
    ) -> ir.Value:
        """Emits a group that computes a tensor from a number of each channel, its first dimension.

        more    values that `factor` reads
        factor  emits a tensor of this type to multiply by
        """
        loads = [e for e in walk(each) if isinstance(e, Load)]
        sources = [self.after.operand_of[e.tensor] for e in loads]
        tensor = ir.RankedTensorType(type_)

        def fill(values: ValueMap) -> list[ir.Value]:
            """Computes a value for each feature, times the factor."""
            dims = [ir.AffineDimExpr.get(d) for d in range(tensor.rank)]
            whole = [] if factor is None else [factor(values)]
            numbers = [collapsed(values[v], sizes_of(type_)[:1]) for v in sources]
            maps = [*[dims] * len(whole), *[dims[:1]] * len(numbers)]

            def element(*given: ir.Value) -> ir.Value:
                """Computes one element in f32."""
                first = [*map(to_f32, given)]
                value = _emitted(each, dict(zip(loads, first[len(whole) :], strict=True)))
                value = arith.mulf(first[0], value) if whole else value
                return value if value.type == tensor.element_type else arith.truncf(tensor.element_type, value)

            return [elementwise(tensor, [*whole, *numbers], maps, element)]

        operands = dict.fromkeys([*more, *sources])
        return group_before(self.group, [self.group], {v: v for v in operands}, [tensor], fill).results[0]


def _suits(convolution: Convolution) -> bool:
    """Returns whether cuDNN has a call for a convolution, if a ReLU follows."""
    plain = convolution.is_plain and convolution.groups == 1 and convolution.bias is None
    known = plain and convolution.element in HALF and convolution.has_known_channels
    return known and shape_of(convolution.image)[1] >= _FEW


def _steps(e: Expr, result: Load) -> list[Step] | None:
    """Returns the ops on a convolution's result that an expression is; None for another expression."""
    steps: list[Step] = []
    while e is not result:
        if not isinstance(e, Apply) or e.op not in _STEPS:
            return None
        first, second = e.operands
        of_first, of_second = (result in walk(x) for x in e.operands)
        if of_first == of_second or (of_second and e.op == _SUBTRACT):
            return None
        steps.append((e.op, second if of_first else first))
        e = first if of_first else second
    return steps[::-1]


def _is_per_channel(e: Expr, channel: Affine, channels: int) -> bool:
    """Returns whether an expression is a number, f32 arithmetic, or an element of a tensor that has one for each channel."""
    if isinstance(e, Load):
        shape = shape_of(e.tensor)
        return e.dtype == "f32" and e.offset == channel and not e.guard and bool(shape) and elements_of(e.tensor) == channels
    return isinstance(e, Const | Apply) and e.dtype == "f32"


def _folded(steps: Sequence[Step], make: Interner) -> tuple[Expr | None, Expr | None]:
    """Returns what the steps multiply by (None for 1), and what they turn 0 into (None for 0)."""
    scale: Expr | None = None
    shift: Expr | None = None
    for op, other in steps:
        if op == _MULTIPLY:
            scale = other if scale is None else make.apply(op, (scale, other), None, "f32")
        if shift is not None:
            shift = make.apply(op, (shift, other), None, "f32")
        elif op != _MULTIPLY:
            shift = other if op == _ADD else make.apply("arith.negf", (other,), None, "f32")
    return scale, shift


def _emitted(e: Expr, known: Mapping[Expr, ir.Value]) -> ir.Value:
    """Emits f32 arithmetic on the values that expressions are known to have."""
    values, f32 = dict(known), ir.F32Type.get()
    for x in unlisted(e, values):
        if isinstance(x, Const):
            values[x] = arith.constant(f32, float(x.value))
        elif isinstance(x, Apply):
            values[x] = ir.Operation.create(x.op, results=[f32], operands=[values[o] for o in x.operands]).results[0]
    return values[e]


def _is_stored(value: ir.Value) -> bool:
    """Returns whether a value must be in memory with the channels last: a call reads it, or the function returns it so."""
    for use in value.uses:
        user = use.owner.operation
        if user.name in CALLS or (is_view(user) and _is_stored(user.results[0])):
            return True
        if user.name == "func.return" and len(shape_of(value)) == 4 and _is_returned_last(value, user, use.operand_number):
            return True
    return False


def _is_returned_last(value: ir.Value, end: ir.Operation, number: int) -> bool:
    """Returns whether a function returns an image with the channels last, or in any layout."""
    attributes = end.parent.attributes
    if "res_attrs" not in attributes:
        return False
    asked = ir.ArrayAttr(attributes["res_attrs"])[number]
    return "graph.strides" not in asked or read_sizes(asked["graph.strides"]) == channels_last(shape_of(value))
