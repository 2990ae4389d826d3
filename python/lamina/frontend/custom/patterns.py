"""Replaces occurrences of graph patterns by launches of users' kernels.

A pattern is a Python function that is traced and decomposed like a model. It is first traced for its example inputs, in every
floating dtype of the graph, and matched with all integers left open. Where that matches, the pattern is traced again for the
tensors found there, and now all integers must match, too.
"""

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx
from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._functorch.compile_utils import fx_graph_cse
from torch._subclasses.fake_tensor import FakeTensorMode

from lamina.core.custom_kernel import CustomKernel
from lamina.core.errors import CompileError
from lamina.core.layout import Layout
from lamina.core.target import Target

from ..capture.as_module import as_module
from ..capture.trace import inference, trace
from ..decompositions.table import Table
from ..fx.locations import where
from ..fx.ops.kernel_op import KERNEL
from ..fx.support import has_effect
from .launch import accepts, launch_arguments
from .matching import Found, KernelMatcher
from .rules import location_of, parameter_names

aten = torch.ops.aten

Way = Callable[[Callable[..., Any], Sequence[Tensor], Table], fx.Graph]
"""A way to trace a pattern for inputs: `by_export` or `by_dispatch`."""


def with_patterns(
    gm: fx.GraphModule, kernels: Sequence[CustomKernel], decompositions: Table, target: str | Target | None
) -> fx.GraphModule:
    """Returns the graph with launches of kernels in place of occurrences of their patterns; `gm` itself if there are none.

    target  what the patterns are traced for
    """
    kernels = [kernel for kernel in kernels if kernel.pattern is not None]
    if not kernels:
        return gm
    graph = _with_equal_values_once(gm.graph)
    ways = partial(by_export, target=target), by_dispatch
    changed = [_Search(kernel, graph, decompositions, ways).run() for kernel in kernels]
    return fx.GraphModule(gm, graph) if any(changed) else gm


def _with_equal_values_once(graph: fx.Graph) -> fx.Graph:
    """Returns a copy of a graph after CSE, which patterns go through, too; without CSE if some call has an effect."""
    if not any(node.op == "call_function" and has_effect(node) for node in graph.nodes):
        return fx_graph_cse(graph)
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy


@dataclass(frozen=True)
class _Search:
    """Replaces one kernel's pattern in a graph.

    ways    the ways to trace the pattern; they differ in what becomes of composite ops, which torch decomposes itself
    traces  the traced patterns, by way and inputs
    """

    kernel: CustomKernel
    graph: fx.Graph
    decompositions: Table
    ways: Sequence[Way]
    traces: dict[Any, KernelMatcher] = field(default_factory=dict)

    def run(self) -> bool:
        """Replaces the pattern's occurrences and returns whether there were any."""
        changed = False
        for example, way in itertools.product(_examples(self.kernel, self.graph), self.ways):
            try:
                loose = replace(self._traced(way, example), exact=False)
            except CompileError:
                continue  # the pattern has no trace in this dtype; in the example's it was traced when it was declared
            for at in reversed(list(self.graph.nodes)):
                if at.op == "call_function" and at.target is loose.results[0].target and not at._erased:
                    changed = self._replaced(way, loose, at) or changed
        return changed

    def _traced(self, way: Way, inputs: Sequence[Tensor]) -> KernelMatcher:
        """Traces the pattern for inputs like these, once."""
        key = (way, *((t.dtype, t.shape, t.stride(), t.device) for t in inputs))
        if key not in self.traces:
            self.traces[key] = traced(self.kernel, inputs, self.decompositions, way)
        return self.traces[key]

    def _replaced(self, way: Way, loose: KernelMatcher, first: fx.Node) -> bool:
        """Replaces an occurrence of the pattern whose first result is `first`, if there is one; returns whether it did."""
        nodes = list(self.graph.nodes)
        for found in loose.matches(first, nodes, {}):
            inputs = [found[argument] for argument in loose.arguments]
            exact = self._traced(way, [node.meta["val"] for node in inputs])
            known = dict(zip(exact.arguments, inputs, strict=True))
            for same in exact.matches(first, nodes, known):
                if _launch(self.kernel, inputs, [same[result] for result in exact.results], self.graph):
                    _erase(same, self.graph)
                    return True
        return False


def by_export(
    pattern: Callable[..., Any], inputs: Sequence[Tensor], decompositions: Table, target: str | Target | None
) -> fx.Graph:
    """Traces a pattern as lamina.compile does."""
    return inference(trace(as_module(pattern), tuple(inputs), {}), decompositions, target).gm.graph


def by_dispatch(pattern: Callable[..., Any], inputs: Sequence[Tensor], decompositions: Table) -> fx.Graph:
    """Traces a pattern as AOTAutograd traces what Dynamo captured."""
    seen: list[fx.Graph] = []

    def keep(gm: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        """Keeps the graph that AOTAutograd made, instead of compiling it."""
        seen.append(gm.graph)
        return make_boxed_func(lambda *args: [n.meta["val"] if isinstance(n, fx.Node) else n for n in _results(gm.graph)])

    aot_function(pattern, fw_compiler=keep, decompositions=decompositions, keep_inference_input_mutations=False)(*inputs)
    return seen[0]


def traced(kernel: CustomKernel, inputs: Sequence[Tensor], decompositions: Table, way: Way) -> KernelMatcher:
    """Traces a kernel's pattern for inputs like these, and returns its exact matcher. Raises CompileError if tracing fails."""
    assert kernel.pattern is not None
    try:
        with torch._guards.tracing(None), torch.no_grad():
            with FakeTensorMode():
                fake = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in inputs]
            graph = fx_graph_cse(way(kernel.pattern, fake, decompositions))
    except Exception as error:
        raise CompileError(f"kernel {kernel.name}: pattern cannot be traced: {error}", where=location_of(kernel.pattern)) from error
    results = _results(graph)
    computed = all(isinstance(r, fx.Node) and r.op == "call_function" for r in results)
    if not results or not computed or len(set(results)) < len(results):
        raise CompileError(f"kernel {kernel.name}: pattern has to compute each of its results", where=location_of(kernel.pattern))
    return KernelMatcher(tuple(n for n in graph.nodes if n.op == "placeholder"), tuple(results), exact=True)


def _results(graph: fx.Graph) -> list[Any]:
    return list(graph.output_node().args[0])


def _examples(kernel: CustomKernel, graph: fx.Graph) -> list[list[Tensor]]:
    """Returns the example inputs, on the graph's device, once for each floating dtype of the graph.

    Example inputs of several floating dtypes, or of none, keep their own dtypes.
    """
    values = [n.meta["val"] for n in graph.nodes if isinstance(n.meta.get("val"), Tensor)]
    if not values:
        return []
    examples = list(kernel.example_inputs)
    own = {t.dtype for t in examples if t.dtype.is_floating_point}
    dtypes = list(dict.fromkeys(v.dtype for v in values if v.dtype.is_floating_point)) if len(own) == 1 else []
    with FakeTensorMode():
        return [
            [torch.empty(t.shape, dtype=dtype if t.dtype in own and dtype else t.dtype, device=values[0].device) for t in examples]
            for dtype in dtypes or [None]
        ]


def _launch(kernel: CustomKernel, inputs: list[fx.Node], results: list[fx.Node], graph: fx.Graph) -> bool:
    """Replaces `results` by those of a launch of the kernel on `inputs`. Returns False, with the graph unchanged, if the kernel
    does not accept them."""
    order = {node: i for i, node in enumerate(graph.nodes)}
    first = min(results, key=order.__getitem__)
    if any(order[node] > order[first] for node in inputs):
        return False  # an input is computed after the first result
    values = {node: _without_overlap(node.meta["val"]) for node in inputs}
    named = dict(zip(parameter_names(kernel.pattern), (values[node] for node in inputs), strict=True))
    try:
        if not accepts(kernel, named):
            return False
        tensors, kwargs = launch_arguments(kernel, named, [node.meta["val"] for node in results], listed=False)
    except CompileError as error:
        raise CompileError(f"{error.message}, at {where(first)}", where=error.where, remedy=error.remedy) from error
    with graph.inserting_before(first):
        nodes = [_copied(node, values[node], graph) for value in tensors for node in inputs if values[node] is value][
            : len(tensors)
        ]
        launch = graph.call_function(KERNEL, (nodes,), kwargs)
        launch.meta = {**first.meta, "val": [node.meta["val"] for node in results]}
        for i, result in enumerate(results):
            item = graph.call_function(operator.getitem, (launch, i))
            item.meta = dict(result.meta)
            result.replace_all_uses_with(item)
    return True


def _without_overlap(value: Tensor) -> Tensor:
    """Returns a (fake) tensor; if some of its elements share memory, a contiguous one of its shape."""
    if Layout.of(value.shape, value.stride()).is_injective:
        return value
    return value.new_empty(value.shape)


def _copied(node: fx.Node, value: Tensor, graph: fx.Graph) -> fx.Node:
    """Returns a node, copied to contiguous memory if `value` is not its own value."""
    if value is node.meta["val"]:
        return node
    copy = graph.call_function(aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
    copy.meta = {**node.meta, "val": value}
    return copy


def _erase(bound: Found, graph: fx.Graph) -> None:
    """Erases the nodes of an occurrence that have no users left."""
    gone = {large for small, large in bound.items() if small.op == "call_function"}
    for node in reversed(list(graph.nodes)):
        if node in gone and not node.users:
            graph.erase_node(node)
