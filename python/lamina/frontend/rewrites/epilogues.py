"""Fuses the norm and the ReLU after a convolution on a GPU into cuDNN's call, whose epilogue computes both.

    relu(norm(convolution(x, w)))  ->  cudnn_convolution_relu(x, w * scale, shift)

Between the two is a chain of additions and products with one number per channel: a bias, a norm with running statistics (also one
that a model writes out). The scale is folded into the weight, by a kernel in each call, as parameters are inputs; the shift becomes
the bias. Why this and no more is in docs/decisions/11-epilogues.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from lamina.core.sizes import at_most, typical

from ..decompositions.convolutions import FEW
from ..decompositions.ops.library import on_gpu
from ..fx import support
from ..fx.rewriter import insert, replace
from ..fx.sizes import elements, exact, exact_sizes

aten = torch.ops.aten
FUSED = aten.cudnn_convolution_relu.default

_BANDWIDTH = 4.2e12  # bytes a second that Lamina's kernels reach on an H200
_LAUNCH = 2e-6  # seconds that a kernel takes besides moving its bytes
_EPILOGUE = 1 / 3  # at most, of the pass that it saves: 16 of 51 us for a 1x1 convolution of 64 to 256 channels, mostly 0 to 0.1
_CONVERSIONS = (aten._to_copy.default, torch.ops.prims.convert_element_type.default)
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.permute.default, aten.transpose.int, aten.unsqueeze.default)
_STEPS = (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor)

Step = tuple[Any, fx.Node]


@dataclass(frozen=True)
class _Chain:
    """A convolution, the ops on its result and the ReLU that ends them.

    links  from the convolution to the node before `relu`
    relu   the ReLU
    steps  ops on the convolution's result: an op of _STEPS and its other operand, in order
    """

    links: tuple[fx.Node, ...]
    relu: fx.Node
    steps: tuple[Step, ...]

    @property
    def convolution(self) -> fx.Node:
        """The convolution that begins the chain."""
        return self.links[0]

    @property
    def is_scaled(self) -> bool:
        """Tells whether a factor is multiplied in."""
        return any(op is aten.mul.Tensor for op, _ in self.steps)


def take_epilogues(graph: fx.Graph) -> None:
    """Fuses, in place, norms and ReLUs into the convolutions of a normalized graph."""
    grouped = any(_has_groups(node) for node in graph.nodes)
    for node in list(graph.nodes):
        chain = _before(node) if node.target is aten.relu.default else None
        if chain is not None and _suits(chain) and (not grouped or _is_channels_last(chain.convolution)) and _pays(chain):
            _fuse(graph, chain)


def _has_groups(node: fx.Node) -> bool:
    """Returns whether a node is a grouped convolution, for which lamina-layout leaves the layouts of the whole graph unchanged."""
    return node.target is aten.convolution.default and node.args[8] not in (1, node.args[0].meta["val"].shape[1])


def _is_channels_last(node: fx.Node) -> bool:
    value: Tensor = node.meta["val"]
    return value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last)


def _before(relu: fx.Node) -> _Chain | None:
    """The chain that ends in `relu`, if each link has the next as its only user."""
    links: list[fx.Node] = []
    steps: list[Step] = []
    at: Any = relu.args[0]
    while isinstance(at, fx.Node) and len(at.users) == 1:
        links.append(at)
        if at.target is aten.convolution.default:
            return _Chain(tuple(reversed(links)), relu, tuple(reversed(steps)))
        if at.target in _CONVERSIONS and _keeps_layout(at):
            at = at.args[0]
            continue
        step = _step(at)
        if step is None:
            return None
        at, other = step
        steps.append((links[-1].target, other))
    return None


def _step(node: fx.Node) -> tuple[Any, fx.Node] | None:
    """The operand of a link that continues the chain, and the per-channel operand."""
    if node.target not in _STEPS or node.kwargs or len(node.args) != 2:
        return None
    source, other = node.args
    if node.target is not aten.sub.Tensor and _is_per_channel(source, node):
        source, other = other, source
    return (source, other) if _is_per_channel(other, node) and source is not other else None


def _keeps_layout(conversion: fx.Node) -> bool:
    return set(conversion.kwargs) <= {"dtype"} and conversion.meta["val"].dtype.is_floating_point


def _is_per_channel(node: Any, result: fx.Node) -> bool:
    """Returns whether a node has one number per channel of a result of shape (batch, channels, height, width)."""
    if not isinstance(node, fx.Node) or not isinstance(node.meta.get("val"), Tensor) or result.meta["val"].dim() != 4:
        return False
    shape, channels = exact_sizes(node.meta["val"].shape), exact(result.meta["val"].shape[1])
    own = shape[-3] if len(shape) in (3, 4) else 0
    return own == channels and math.prod(shape) == channels and node.meta["val"].dtype.is_floating_point


def _suits(chain: _Chain) -> bool:
    """Returns whether cuDNN has the call, and its results are as exact as eager's.

    Scales are folded into weights of bf16 alone: f16 has the range for the weights, but not for what they may be scaled to. With
    few channels (4) cuDNN takes four times as long with a ReLU as without.
    """
    x, weight, bias, _, _, _, transposed, _, groups = chain.convolution.args
    image, kernel, out = (n.meta["val"] for n in (x, weight, chain.convolution))
    result = chain.relu.meta["val"]
    enough = elements(out) != 0 and at_most(FEW, exact(image.shape[1]))
    plain = bias is None and out.dim() == 4 and groups == 1 and not transposed and enough
    rounded = image.dtype is kernel.dtype in ((torch.bfloat16,) if chain.is_scaled else (torch.bfloat16, torch.float16))
    same = (result.dtype, result.shape, result.stride()) == (out.dtype, out.shape, out.stride())
    return bool(plain and rounded and same and on_gpu(image) and _has_cudnn())


def _has_cudnn() -> bool:
    """Whether cuDNN is available; assumed where torch has no CUDA, as code may be compiled for a GPU on a machine without one."""
    return torch.version.cuda is None or torch.backends.cudnn.is_available()


def _pays(chain: _Chain) -> bool:
    """Returns whether the saved pass over the convolution's result takes longer than the epilogue and the scaling of the weight, at
    typical sizes."""
    if not _is_stored(chain.relu):
        return False
    weight, whole = chain.convolution.args[1], _bytes(chain.convolution)
    saved = 2 * whole / _BANDWIDTH + _LAUNCH
    spent = _EPILOGUE * 2 * whole / _BANDWIDTH
    if chain.is_scaled and _is_channels_last(weight):  # else torch copies it for cuDNN in each call
        spent += 2 * _bytes(weight) / _BANDWIDTH
    return saved > spent


def _bytes(node: fx.Node) -> int:
    value: Tensor = node.meta["val"]
    return typical(elements(value)) * value.itemsize


def _is_stored(node: fx.Node) -> bool:
    """Whether a value must be in memory, as a library or the caller reads it. All others could be computed where they are read."""
    for user in node.users:
        if user.op == "output":
            if _is_channels_last(node):  # another layout is copied for the caller
                return True
        elif support.reason(user) is not None or (user.target in (*_VIEWS, aten.clone.default) and _is_stored(user)):
            return True
    return False


def _fuse(graph: fx.Graph, chain: _Chain) -> None:
    convolution, relu = chain.convolution, chain.relu
    x, weight, _, stride, padding, dilation, _, _, groups = convolution.args
    value, dtype = convolution.meta["val"], weight.meta["val"].dtype
    channels = value.shape[1]
    make = _Maker(relu)
    bias = _parameter(chain.steps, dtype)
    if bias is None and chain.steps:
        scale, shift = make.folded(chain.steps)
        bias = None if shift is None else make.to(dtype, make.view(shift, (channels,)))
        if scale is not None:
            wide = make(aten.mul.Tensor, make.to(torch.float32, weight), make.view(scale, (channels, 1, 1, 1)))
            weight = make.to(dtype, wide)
    made, how = value.new_empty_strided(value.shape, value.stride()), (stride, padding, dilation, groups)
    replace(relu, insert(relu, made, FUSED, x, weight, bias, *how, like=convolution))
    for node in reversed(chain.links):
        graph.erase_node(node)


def _parameter(steps: Sequence[Step], dtype: torch.dtype) -> fx.Node | None:
    """The bias as the model holds it, where the chain does nothing but add it."""
    if len(steps) != 1 or steps[0][0] is not aten.add.Tensor:
        return None
    at = steps[0][1]
    while at.target in (*_CONVERSIONS, *_VIEWS) and at.meta["val"].dtype in (dtype, torch.float32):
        at = at.args[0]
    value = at.meta["val"]
    return at if value.dtype is dtype and value.dim() == 1 and value.is_contiguous() else None


@dataclass(frozen=True)
class _Maker:
    """Creates nodes before `relu`, with the source location of the node before it."""

    relu: fx.Node

    def __call__(self, target: Any, *operands: fx.Node) -> fx.Node:
        values = [n.meta["val"] for n in operands]
        return self._node(target, operands, {}, torch.broadcast_shapes(*(v.shape for v in values)), values[0].dtype)

    def to(self, dtype: torch.dtype, node: fx.Node) -> fx.Node:
        """Casts a node, unless it has the dtype."""
        value = node.meta["val"]
        return node if value.dtype is dtype else self._node(aten._to_copy.default, (node,), {"dtype": dtype}, value.shape, dtype)

    def view(self, node: fx.Node, shape: tuple[int, ...]) -> fx.Node:
        """Views a node in another shape."""
        return self._node(aten.view.default, (node, list(shape)), {}, shape, node.meta["val"].dtype)

    def _node(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shape: Sequence[int], dtype: torch.dtype
    ) -> fx.Node:
        value = args[0].meta["val"].new_empty(shape, dtype=dtype)
        return insert(self.relu, value, target, *args, like=self.relu.args[0], **kwargs)  # type: ignore[arg-type]

    def folded(self, steps: Sequence[Step]) -> tuple[fx.Node | None, fx.Node | None]:
        """The scale and shift that the steps amount to, in f32: what they multiply by (None for 1) and what they turn 0 into (None
        for 0)."""
        scale: fx.Node | None = None
        shift: fx.Node | None = None
        for op, other in steps:
            number = self.to(torch.float32, other)
            if op is aten.mul.Tensor:
                scale = number if scale is None else self(op, scale, number)
                shift = None if shift is None else self(op, shift, number)
            elif shift is not None:
                shift = self(op, shift, number)
            else:
                shift = self(aten.neg.default, number) if op is aten.sub.Tensor else number
        return scale, shift
