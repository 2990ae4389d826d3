"""Chooses what a graph is compiled for: the requested target, else the device that its tensors are on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, fx

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.program import Device
from lamina.core.sizes import at_most
from lamina.core.target import Target

from . import support
from .aliases import tensors
from .locations import origin_of, where
from .random_bits import is_seed
from .sizes import elements

if TYPE_CHECKING:
    from lamina.targets.base import Backend

_COPIES = (torch.ops.aten._to_copy.default, torch.ops.prims.device_put.default)
_REMEDY = "move the model and its inputs to one device first, and results to another one afterwards"


@dataclass(frozen=True)
class Destination:
    """A target with the device that the graph's tensors are on.

    target    code is generated for it
    identity  what the code depends on: part of the cache key
    gpu       the number of the GPU that the tensors are on; None if they are on the CPU, or nothing is run
    """

    target: Target
    identity: str
    gpu: int | None = None

    @property
    def device(self) -> Device:
        """The device of the program's tensors."""
        return self.target.device

    def backend(self) -> "Backend":
        """Returns the backend that compiles for the target."""
        from lamina.targets import backend

        return backend(self.target.machine)


def check_name(target: str | Target | None) -> None:
    """Raises CompileError for text that names no target, TypeError for anything but text."""
    if target is not None:
        Target.parse(target)


def destination_of(target: str | Target | None, gm: fx.GraphModule) -> Destination:
    """Returns the destination of an aten graph with fake tensors. A target other than the tensors' own device is allowed for code
    that is not run here: a GPU's, from tensors of the CPU. Raises CompileError for other devices and targets."""
    home = _home(gm)
    if home.type not in ("cpu", "cuda"):
        raise CompileError(f"the model's tensors are on {home}", remedy="Lamina compiles for the CPU and for NVIDIA GPUs")
    gpu = (home.index or 0) if home.type == "cuda" else None
    chosen = _own(gpu) if target is None else Target.parse(target)
    if gpu is not None and not chosen.is_gpu:
        raise CompileError(f"target {str(chosen)!r} is the CPU, but the model's tensors are on {home}", remedy=_REMEDY)
    return Destination(chosen, chosen.identity + (_rounding() if chosen.is_gpu else ""), None if chosen.null else gpu)


def for_gpu(target: str | Target | None, gm: fx.GraphModule) -> bool:
    """Returns whether a graph, of Dynamo's or ATen's dialect, is compiled for a GPU: by the target, else its tensors' device."""
    return _home(gm).type == "cuda" if target is None else Target.parse(target).is_gpu


def _rounding() -> str:
    """Returns, as text, which ops torch allows to round to tf32: convolutions by default, products only if the user allows it."""
    return (", tf32" if rounds_to_tf32() else "") + ("" if convolutions_round_to_tf32() else ", convolutions of f32")


def rounds_to_tf32() -> bool:
    """Returns whether torch allows products of f32 on GPUs to round their factors to tf32 (torch.set_float32_matmul_precision)."""
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


def convolutions_round_to_tf32() -> bool:
    """Returns the same for convolutions (torch.backends.cudnn.allow_tf32)."""
    return bool(torch.backends.cudnn.conv.fp32_precision == "tf32")


def check_devices(gm: fx.GraphModule) -> None:
    """Raises CompileError unless arguments, results and results of external calls are on one device. Values in between are computed
    there, whatever their device is called. Small integers are allowed anywhere, except seeds that kernels read: torch itself keeps
    some seeds on either device. Arguments that `moved` finds are copied there at every call."""
    home, ahead = _home(gm), moved(gm)
    for node in _visible(gm):
        if node in ahead:
            continue
        for value in tensors(node):
            if value.device != home and (is_seed(node) or not _is_small_integer(value)):
                raise CompileError(
                    f"{_name(node)} is on {value.device}, other tensors on {home}", where=where(node), remedy=_REMEDY
                )


def moved(gm: fx.GraphModule) -> list[fx.Node]:
    """Returns arguments on the CPU that PyTorch moves to the GPU that the graph runs on: tensors of no dimension, which count as
    numbers, and those that are only read to be copied to the GPU."""
    home = _home(gm)
    if home.type == "cpu":
        return []
    results = next(node for node in gm.graph.nodes if node.op == "output").all_input_nodes
    return [
        node
        for node in gm.graph.nodes
        if _is_argument(node) and node not in results
        for value in tensors(node)
        if value.device.type == "cpu" and not _is_small_integer(value) and (value.dim() == 0 or _is_copied(node, home))
    ]


def _is_argument(node: fx.Node) -> bool:
    """Returns whether a placeholder is the caller's; tensors that the graph's module held are moved at compile time."""
    return node.op == "placeholder" and not node.name.startswith("captured_")


def _is_copied(node: fx.Node, home: torch.device) -> bool:
    return bool(node.users) and all(
        user.op == "call_function" and any(value.device == home for value in tensors(user)) and user.target in _COPIES
        for user in node.users
    )


def _visible(gm: fx.GraphModule) -> Iterator[fx.Node]:
    """Nodes whose tensors are seen from outside the compiled code. Constants are moved to the device of the others."""
    for node in gm.graph.nodes:
        if node.op == "output":
            yield from (n for n in node.all_input_nodes if n.op == "call_function")
        elif _is_argument(node):
            yield node
        elif node.op == "call_function" and support.reason(node) is not None:
            yield node  # its operands may be numbers on the CPU for torch, and are on the GPU when it is called


def _is_small_integer(value: Tensor) -> bool:
    return value.dtype in (torch.int64, torch.uint64) and at_most(elements(value), 2)


def _name(node: fx.Node) -> str:
    return f"argument {node.name}" if node.op == "placeholder" else f"the result of {origin_of(node) or node.target}"


def _home(gm: fx.GraphModule) -> torch.device:
    """Returns the device of the first argument that is more than a small integer or a number on the CPU, else of the first tensor;
    the CPU where there is none."""
    kinds = ("placeholder", "call_function")
    found = [value for kind in kinds for node in gm.graph.nodes if node.op == kind for value in tensors(node)]
    large = (value for value in found if not _is_small_integer(value) and (value.dim() or value.device.type != "cpu"))
    value = next(large, found[0] if found else None)
    return torch.device("cpu") if value is None else value.device


def _own(gpu: int | None) -> Target:
    """Returns the target of the machine that the tensors are on."""
    if gpu is None:
        return Target.host()
    if torch.version.cuda is None:
        raise CompileError("this torch's GPUs are not NVIDIA's", remedy="Lamina compiles for the CPU and for NVIDIA GPUs")
    return Target("nvvm", Gpu.of_capability(*torch.cuda.get_device_capability(gpu)))
