"""lamina-layout: chooses the layout of convolutions, channels first or channels last."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.target import Target
from lamina.dialects.graph import CALLS

from ...infra.base import Pass
from ...ir.affine import row_major
from ...ir.extern_calls import memory_strides
from ...ir.generics import copied
from ...ir.reading import ops_in, shape_of
from ...ir.rewriting import function_bodies
from ...ir.sizes import sizes_attribute
from ...ir.views import WHOLE_VIEWS, is_view, layout_through, through_views
from .calls import Convolution, channels_last
from .layout_cost import channels_last_calls
from .layout_cpu import suits_frozen, suits_slow

StridesOf = Callable[[tuple[int, ...]], tuple[int, ...]]  # of a shape, in a layout


@dataclass(frozen=True)
class ChooseLayout(Pass):
    """Choose the layout of 2-D convolutions and of their gradients: channels first or channels last.

    With channels last, nothing is reordered between a convolution and the pointwise kernel after it. The pass sets the result's
    strides; lamina-plan lets kernels that feed such a convolution write the same layout.

        strides = [array<i64: 200704, 3136, 56, 1>]  ->  strides = [array<i64: 200704, 1, 3584, 64>]

    On a GPU the layouts minimize an estimate over the whole function: the library's time for each call by its layout, from
    measurements of similar calls (schedules/convolution_layout.py), and the bytes of what must be transposed between calls, after
    arguments and before results. It takes half types, and f32 that the library may round to tf32; other f32 convolutions stay.
    Operands that no kernel produces are copied into the layout: a library's result has its operands' layout.

    On a CPU, f32 convolutions have their channels last where the weight is an argument of @main, which the runtime packs once.

    target  the machine (none: a CPU)
    slow    on a CPU, only convolutions that are slow in oneDNN with channels first, and others of the graph with weights smaller
            than images, packed or not; and gradients whose image was saved with its channels last
    """

    name: ClassVar[str] = "lamina-layout"
    target: Target | None = None
    slow: bool = False

    def run(self, module: ir.Module) -> None:
        """Sets the strides of the convolutions, and copies operands where needed."""
        for block in function_bodies(module):
            with module.context:
                self._choose(block.owner.operation, [call for op in ops_in(block) if (call := Convolution.read(op))])

    def _choose(self, function: ir.Operation, calls: list[Convolution]) -> None:
        if self.target is not None and self.target.is_gpu:
            calls = [call for call in calls if call.uses_tensor_cores]
            last = channels_last_calls(function, calls, self.target.gpu)
            for call in calls:
                if call in last:
                    _change(call, copied=True)
                elif last or not call.is_channels_first:
                    _pin(call)
            return
        for call in suits_slow(calls) if self.slow else suits_frozen(calls):
            _change(call, copied=self.slow)


def _change(call: Convolution, copied: bool) -> None:
    """Lets a call take and give channels last. `copied`: operands that no kernel produces are copied."""
    op = call.op
    _set_strides(call, channels_last)
    if copied:
        for i, image in enumerate(call.images):
            if not _needs_no_copy(image):
                op.operands[i] = _copy(op, image)
    if call.is_gradient:  # cuDNN copies operands whose layout differs from the image's
        op.attributes["needs"] = ir.ArrayAttr.get([_strides(v, channels_last) for v in op.operands])


def _pin(call: Convolution) -> None:
    """Lets a call take and give channels first, whatever its operands' producers would prefer."""
    _set_strides(call, row_major)
    call.op.attributes["needs"] = ir.ArrayAttr.get([_strides(v, row_major) for v in call.op.operands])


def _set_strides(call: Convolution, layout: StridesOf) -> None:
    results = iter(call.op.results)  # gradients that are not requested are not among the results
    strides = [
        strides if isinstance(strides, ir.TypeAttr) else _changed(next(results), strides, layout)
        for strides in call.op.attributes["strides"]
    ]
    call.op.attributes["strides"] = ir.ArrayAttr.get(strides)


def _changed(result: ir.Value, strides: ir.Attribute, layout: StridesOf) -> ir.Attribute:
    return _strides(result, layout) if len(shape_of(result)) == 4 else strides


def _strides(value: ir.Value, layout: StridesOf) -> ir.Attribute:
    shape = shape_of(value)
    return sizes_attribute(layout(shape) if len(shape) == 4 else row_major(shape))


def _needs_no_copy(value: ir.Value) -> bool:
    """Returns whether a value needs no copy: Lamina's kernel produces it, in any layout, it is the result of a call, or it is an
    argument of @main, or a view of such a result, that is channels last."""
    views, source = through_views(value, WHOLE_VIEWS)
    if isinstance(source, ir.BlockArgument):
        return _is_channels_last(source, memory_strides(source), views)
    if source.owner.name in CALLS:
        strides = ir.ArrayAttr(source.owner.attributes["strides"])[ir.OpResult(source).result_number]
        known = ir.DenseI64ArrayAttr(strides) if isinstance(strides, ir.DenseI64ArrayAttr) else None
        return not views or _is_channels_last(source, known, views)
    return not is_view(source.owner) and source.owner.name != "arith.constant"


def _is_channels_last(source: ir.Value, strides: Sequence[int] | None, views: Sequence[ir.Operation]) -> bool:
    """Returns whether a value of these strides (row-major if None) is channels last through `views` (the last one first)."""
    shape = shape_of(source)
    layout = layout_through(views, Layout.of(shape, list(strides)) if strides is not None else Layout.row_major(shape))
    return layout is not None and layout == Layout.of(layout.shape, channels_last(layout.shape))


def _copy(op: ir.Operation, operand: ir.Value) -> ir.Value:
    """Emits a copy of an operand before `op`, as a kernel of its own."""
    with op.location, ir.InsertionPoint(op):
        return copied(operand)
