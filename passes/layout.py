"""lamina-layout: convolutions give and take their channels last."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from .base import Pass

CONVOLUTION = "aten.convolution.default"


@dataclass(frozen=True)
class ChooseLayout(Pass):
    """Let 2-D convolutions in f32 give their result with the channels last.

    oneDNN computes blocks of channels; with them last nothing is reordered between a convolution and the pointwise kernel
    after it. The result's strides are set here; lamina-plan lets kernels that feed such a convolution write the same layout.
    Applies where the weight is an argument of @main, which the runtime packs once.

        strides = [array<i64: 200704, 3136, 56, 1>]  ->  strides = [array<i64: 200704, 1, 3584, 64>]
    """

    name: ClassVar[str] = "lamina-layout"

    def run(self, module: ir.Module) -> None:
        for f in module.body.operations:
            if f.operation.name != "func.func" or not f.operation.regions[0].blocks:
                continue
            with module.context:
                for op in f.operation.regions[0].blocks[0].operations:
                    if op.operation.name == "graph.extern" and _packs(op.operation):
                        op.operation.attributes["strides"] = ir.ArrayAttr.get([_channels_last(op.operation.results[0])])


def _packs(op: ir.Operation) -> bool:
    if ir.StringAttr(op.attributes["callee"]).value != CONVOLUTION:
        return False
    image, weight = op.operands[0], op.operands[1]
    types = [ir.RankedTensorType(v.type) for v in (image, weight, op.results[0])]
    plain = all(t.rank == 4 and isinstance(t.element_type, ir.F32Type) and 0 not in t.shape for t in types)
    transposed = ir.BoolAttr(ir.ArrayAttr(op.attributes["args"])[6]).value
    return plain and not transposed and isinstance(weight, ir.BlockArgument)


def channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an image (batch, channels, height, width) with its channels innermost."""
    _, c, h, w = shape
    return (h * w * c, 1, w * c, c)


def _channels_last(value: ir.Value) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get(list(channels_last(tuple(ir.RankedTensorType(value.type).shape))))
