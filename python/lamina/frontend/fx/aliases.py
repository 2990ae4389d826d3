"""Alias analysis of a graph's outputs: each is a result of its own, or a view of another result or of an input, as in eager.

Tensors at the linalg level are values. Which of them share memory is read off the FX graph, whose fake tensors share storage where
eager's tensors do. The compiled graph returns every storage once (its base), and the program's outputs are views of these.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, fx
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor

from lamina.core.layout import Layout
from lamina.core.sizes import Size, SizeLike
from lamina.runtime.inputs import materialized, with_bits, without_bits

from .dtypes import Dtype
from .sizes import elements, exact, exact_sizes

aten = torch.ops.aten
_WITH_MEMORY = {Tensor, torch.nn.Parameter, FakeTensor}


@dataclass(frozen=True)
class ConstantResult:
    """An output that is not a tensor: None or a number."""

    value: bool | int | float | str | Size | None


@dataclass(frozen=True)
class ViewResult:
    """A tensor over the memory of a result of the compiled graph or of an input.

    source  whose memory it is
    index   number of that result or input
    offset  in elements from its first element
    """

    source: Literal["result", "input"]
    index: int
    offset: SizeLike
    dtype: Dtype
    shape: tuple[SizeLike, ...]
    strides: tuple[SizeLike, ...]


@dataclass(frozen=True)
class Reinterpreted:
    """A view whose dtype, or conj and neg bits, differ from those of the tensor it views.

    base      that tensor, as a whole
    base_conj, base_neg  its bits when the graph was traced
    offset    elements of `dtype` from the first element of the base
    conj, neg the view's own bits
    """

    base: ViewResult
    base_conj: bool
    base_neg: bool
    offset: SizeLike
    dtype: Dtype
    shape: tuple[SizeLike, ...]
    strides: tuple[SizeLike, ...]
    conj: bool
    neg: bool

    def of(self, base: Tensor) -> Tensor:
        """Returns the view of `base`, or of a copy of it where its bits differ from those at trace time. Raises ValueError if
        `base` does not start at a whole element of `dtype` in its storage."""
        base = base.detach()
        if (base.is_conj(), base.is_neg()) == (self.base_conj, self.base_neg):
            return self._viewing(without_bits(base))
        if self.dtype == base.dtype:  # the bits are those of the base, except for these flips
            flips = self.base_conj != self.conj, self.base_neg != self.neg
            return with_bits(base.as_strided(self.shape, self.strides, base.storage_offset() + self.offset), *flips)
        return self._viewing(without_bits(materialized(base, self.base_conj, self.base_neg)))

    def _viewing(self, memory: Tensor) -> Tensor:
        start, rest = divmod(memory.storage_offset() * memory.element_size(), self.dtype.itemsize)
        if rest:
            raise ValueError(
                f"a tensor that does not start at a whole {self.dtype} in its storage cannot be viewed as {self.dtype}"
            )
        if memory.dtype != self.dtype:
            count = memory.untyped_storage().nbytes() // max(memory.element_size(), self.dtype.itemsize)
            elements = count * max(1, self.dtype.itemsize // memory.element_size())
            memory = memory.as_strided((elements,), (1,), 0).view(self.dtype)
        return with_bits(memory.as_strided(self.shape, self.strides, start + self.offset), self.conj, self.neg)


@dataclass(frozen=True)
class Empty:
    """A tensor without elements, created by each call."""

    dtype: Dtype
    shape: tuple[SizeLike, ...]
    strides: tuple[SizeLike, ...]
    device: str


Output = ConstantResult | ViewResult | Reinterpreted | Empty


@dataclass(frozen=True)
class Outputs:
    """bases: the nodes that the compiled graph returns; outputs: every output of the FX graph, in order."""

    bases: tuple[fx.Node, ...]
    outputs: tuple[Output, ...]


def storage(value: Tensor) -> int:
    """Returns the identity of a tensor's storage: within torch.func's transforms, that of the tensor they wrap."""
    return storage(get_unwrapped(value)) if is_functorch_wrapped_tensor(value) else value.untyped_storage()._cdata


def tensors(node: fx.Node) -> list[Tensor]:
    """Returns the (fake) tensors that a node computes: one, or those among several results."""
    found = node.meta.get("val", node.meta.get("example_value"))
    return [v for v in (found if isinstance(found, list | tuple) else (found,)) if isinstance(v, Tensor)]


def layout(value: Tensor) -> Hashable:
    """Returns what two tensors have in common that hold the same elements in the same order, given the same memory."""
    flags = value.is_conj(), value.is_neg()
    return value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), value.device, *flags


def sharing(values: Sequence[Any]) -> Hashable:
    """Returns how the tensors among values share memory; None if none do. Equal for two calls that AOTAutograd makes the same
    program for: where tensors share memory that is written, it passes the tensor that they view, or all of the memory. A tensor of
    a subclass, which stands for others, counts as sharing none."""
    tensors = [v for v in values if type(v) in _WITH_MEMORY and v.layout is torch.strided]
    memory = list(map(storage, tensors))
    if len(set(memory)) == len(memory):
        return None
    numbers: dict[Any, int] = {}
    return tuple(
        (
            numbers.setdefault(held, len(numbers)),
            numbers.setdefault(id(t), len(numbers)),
            t.untyped_storage().nbytes(),
            t.storage_offset(),
            _base(t),
        )
        for held, t in zip(memory, tensors, strict=True)
    )


def _base(tensor: Tensor) -> Hashable:
    """Returns the layout of the tensor that this one is a view of for autograd."""
    base = tensor._base
    return None if base is None else (tuple(base.shape), base.stride(), base.storage_offset(), base.dtype)


def classify(graph: fx.Graph, outputs: list[Any], inputs: list[fx.Node]) -> Outputs:
    """Returns the bases and outputs of a graph. `inputs`: the placeholders that are tensors, in the order of the compiled graph's
    arguments."""
    viewed = _viewed(graph, inputs, outputs)
    producers = _producers(graph)
    nodes = {output for output in outputs if isinstance(output, fx.Node)}
    shared = Counter(storage(value) for node in nodes for value in tensors(node))  # how many different outputs hold it
    bases: list[fx.Node] = []
    results: list[Output] = []
    for output in outputs:
        if not isinstance(output, fx.Node) or not isinstance(output.meta.get("val"), Tensor):
            value = output.meta["val"] if isinstance(output, fx.Node) else output
            results.append(ConstantResult(exact(value) if isinstance(value, torch.SymInt) else value))
            continue
        value = output.meta["val"]
        memory = storage(value)
        if output in viewed:
            results.append(_view("input", viewed[output], value, inputs[viewed[output]].meta["val"]))
            continue
        if 0 in exact_sizes(value.shape):
            results.append(Empty(value.dtype, exact_sizes(value.shape), exact_sizes(value.stride()), str(value.device)))
            continue
        base = output
        first = producers.get(memory)
        if first is not None and (shared[memory] > 1 or not is_dense(value) or _is_reinterpreted(value, first.meta["val"])):
            base = first
        if base not in bases:
            bases.append(base)
        results.append(_view("result", bases.index(base), value, base.meta["val"]))
    return Outputs(tuple(bases), tuple(results))


def _viewed(graph: fx.Graph, inputs: list[fx.Node], outputs: list[Any]) -> dict[fx.Node, int]:
    """Maps nodes that view an input to the input's number. It follows the ops between them, as inputs that shared memory during the
    trace need not share it at a call. Results without elements have lost these ops, and go by their memory."""
    input_of = {node: i for i, node in enumerate(inputs)}
    for node in graph.nodes:
        memory = _memory(node)
        source = next((arg for arg in node.all_input_nodes if arg in input_of and _memory(arg) & memory), None)
        if source is not None and node.op == "call_function":
            input_of[node] = input_of[source]
    for output in outputs:
        value = output.meta.get("val") if isinstance(output, fx.Node) else None
        if isinstance(value, Tensor) and elements(value) == 0 and output not in input_of:
            input_of.update((output, i) for i, node in reversed(list(enumerate(inputs))) if _memory(node) == {storage(value)})
    return input_of


def _memory(node: fx.Node) -> set[int]:
    return set(map(storage, tensors(node)))


def is_dense(value: Tensor) -> bool:
    """Returns whether the elements fill their memory without gaps or overlaps, in some order of the dimensions."""
    return dense_order(value) is not None


def dense_order(value: Tensor) -> tuple[int, ...] | None:
    """Returns the dimensions of a dense tensor from the outermost in memory to the innermost; None for others (see `is_dense`)."""
    return Layout.of(exact_sizes(value.shape), exact_sizes(value.stride())).order


def memory_source(node: fx.Node) -> fx.Node | None:
    """Returns the argument whose memory a node's result lies in; None if it has memory of its own."""
    memory = _memory(node)
    return next((arg for arg in node.all_input_nodes if _memory(arg) & memory), None)


def covers(base: Tensor, view: Tensor) -> bool:
    """Returns whether all elements of a view in the same memory are elements of `base`."""
    if elements(view) == 0 or layout(base) == layout(view):
        return True
    first, last = _ends(view)
    start, end = _ends(base)
    return is_dense(base) and start <= first and last <= end


def _ends(value: Tensor) -> tuple[int, int]:
    """Returns the offsets of the first and the last element in memory."""
    first = int(value.storage_offset())
    return first, first + sum((n - 1) * stride for n, stride in zip(value.shape, value.stride(), strict=True))


def _producers(graph: fx.Graph) -> dict[int, fx.Node]:
    """Returns the first node of every storage, where it fills the storage with its values."""
    producer_of: dict[int, fx.Node] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, Tensor):
            producer_of.setdefault(storage(value), node)
    return {memory: n for memory, n in producer_of.items() if is_dense(v := n.meta["val"]) and not (v.is_conj() or v.is_neg())}


def view_of(graph: fx.Graph, base: fx.Node, base_value: Tensor, value: Tensor) -> fx.Node:
    """Returns a node that views `base`, a placeholder, as `value` views `base_value`, this placeholder in another graph.

    It is as_strided in the same dtype; else the memory, from first to last element, is viewed as a row of the other dtype.
    """

    def call(target: Any, node: fx.Node, *args: Any) -> fx.Node:
        """Inserts a call on a node and computes its value."""
        made = graph.call_function(target, (node, *args))
        made.meta = {**base.meta, "val": target(node.meta["val"], *args)}
        return made

    def flip(node: fx.Node, conj: bool, neg: bool) -> fx.Node:
        """Flips the conj and neg bits of a node."""
        node = call(aten._conj.default, node) if conj else node
        return call(aten._neg_view.default, node) if neg else node

    shape, strides = list(value.shape), list(value.stride())
    first = base.meta["val"].storage_offset()
    offset = value.storage_offset() - base_value.storage_offset() * base_value.element_size() // value.element_size()
    if value.dtype == base_value.dtype:
        node = call(aten.as_strided.default, base, shape, strides, first + offset)
        return flip(node, value.is_conj() != base_value.is_conj(), value.is_neg() != base_value.is_neg())
    node = flip(base, base_value.is_conj(), base_value.is_neg())
    ratio = max(1, value.element_size() // base_value.element_size())
    extent = 1 + sum((n - 1) * stride for n, stride in zip(base_value.shape, base_value.stride(), strict=True))
    node = call(aten.view.dtype, call(aten.as_strided.default, node, [extent // ratio * ratio], [1], first), value.dtype)
    start = node.meta["val"].storage_offset() + offset
    return flip(call(aten.as_strided.default, node, shape, strides, start), value.is_conj(), value.is_neg())


def _offset(value: Tensor, base: Tensor) -> SizeLike:
    """Returns how far `value` starts from the start of `base` in the same storage, in elements of `value`."""
    return exact(value.storage_offset()) - exact(base.storage_offset()) * base.element_size() // value.element_size()


def _is_reinterpreted(value: Tensor, base: Tensor) -> bool:
    return (value.dtype, value.is_conj(), value.is_neg()) != (base.dtype, base.is_conj(), base.is_neg())


def _view(source: Literal["result", "input"], index: int, value: Tensor, base: Tensor) -> ViewResult | Reinterpreted:
    shape, strides = exact_sizes(value.shape), exact_sizes(value.stride())
    if value is base or not _is_reinterpreted(value, base):
        return ViewResult(source, index, _offset(value, base), value.dtype, shape, strides)
    whole = ViewResult(source, index, 0, base.dtype, exact_sizes(base.shape), exact_sizes(base.stride()))
    bits = (value.is_conj(), value.is_neg())
    return Reinterpreted(whole, base.is_conj(), base.is_neg(), _offset(value, base), value.dtype, shape, strides, *bits)
