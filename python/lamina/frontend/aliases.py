"""What each output of a graph is: a result of its own, or a view of another result or of an input, as in eager.

Tensors at the linalg level are values; which of them share memory is read off the FX graph, whose fake tensors share storage where
eager's tensors do. The compiled graph returns every storage once (its base), and the program's outputs are views of these.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, fx


@dataclass(frozen=True)
class Constant:
    """An output that is no tensor: None or a number."""

    value: Any


@dataclass(frozen=True)
class View:
    """A tensor over the memory of a result of the compiled graph or of an input.

    of      "result" or "input"
    index   which one
    offset  elements from the first element of that one
    """

    of: Literal["result", "input"]
    index: int
    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Empty:
    """A tensor without elements, made anew by each call."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str


Output = Constant | View | Empty


@dataclass(frozen=True)
class Outputs:
    """bases: the nodes that the compiled graph returns; outputs: every output of the FX graph, in order."""

    bases: tuple[fx.Node, ...]
    outputs: tuple[Output, ...]


def storage(value: Tensor) -> int:
    return value.untyped_storage()._cdata


def classify(graph: fx.Graph, outputs: list[Any], inputs: list[fx.Node]) -> Outputs:
    """`inputs`: the placeholders that are tensors, in the order of the compiled graph's arguments."""
    of_input = {storage(node.meta["val"]): i for i, node in reversed(list(enumerate(inputs)))}
    producers = _producers(graph)
    shared = _shared(outputs)
    bases: list[fx.Node] = []
    found: list[Output] = []
    for output in outputs:
        if not isinstance(output, fx.Node) or not isinstance(output.meta.get("val"), Tensor):
            found.append(Constant(output.meta["val"] if isinstance(output, fx.Node) else output))
            continue
        value = output.meta["val"]
        held = storage(value)
        if held in of_input and value.dtype == inputs[of_input[held]].meta["val"].dtype:
            found.append(_view("input", of_input[held], value, inputs[of_input[held]].meta["val"]))
            continue
        if value.numel() == 0:
            found.append(Empty(value.dtype, tuple(value.shape), tuple(value.stride()), str(value.device)))
            continue
        base = output
        if (shared[held] > 1 or not is_dense(value)) and held in producers and producers[held].meta["val"].dtype == value.dtype:
            base = producers[held]
        if base not in bases:
            bases.append(base)
        found.append(_view("result", bases.index(base), value, base.meta["val"]))
    return Outputs(tuple(bases), tuple(found))


def is_dense(value: Tensor) -> bool:
    """Whether the elements fill their memory without gaps or overlaps, in some order of the dimensions."""
    if value.numel() == 0:
        return True
    expected = 1
    for stride, size in sorted((s, n) for n, s in zip(value.shape, value.stride(), strict=True) if n > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _producers(graph: fx.Graph) -> dict[int, fx.Node]:
    """The first node of every storage, where it fills it."""
    found: dict[int, fx.Node] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, Tensor):
            found.setdefault(storage(value), node)
    return {held: node for held, node in found.items() if is_dense(node.meta["val"])}


def _shared(outputs: list[Any]) -> dict[int, int]:
    """How many different output nodes hold each storage."""
    nodes = {o for o in outputs if isinstance(o, fx.Node) and isinstance(o.meta.get("val"), Tensor)}
    counts: dict[int, int] = {}
    for node in nodes:
        held = storage(node.meta["val"])
        counts[held] = counts.get(held, 0) + 1
    return counts


def _view(of: Literal["result", "input"], index: int, value: Tensor, base: Tensor) -> View:
    offset = int(value.storage_offset()) - int(base.storage_offset())
    return View(of, index, offset, value.dtype, tuple(value.shape), tuple(value.stride()))
