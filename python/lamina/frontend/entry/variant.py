"""Compiles one traced form of a model: a program without gradients, and programs with them per set of tensors that need them."""

import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, fx

from lamina import _native
from lamina.core.options import Options

from ..calls.returned import returned_views
from ..capture.exclusive import COMPILING
from ..capture.module_state import ModuleState
from ..capture.retrace import updates_statistics
from ..capture.size_relations import SizeRelations
from ..capture.trace import Inference, Traced, inference
from ..compiling.split import compile_graph
from ..custom.substitute import with_kernels
from ..decompositions.table import table
from ..fx.aliases import storage
from ..fx.reading import writes_to
from ..rewrites.normalize import fold_weights
from ..rewrites.numbers import faked, symbolic
from ..rewrites.updates import update_in_place
from .arguments import Arguments
from .binding import Binding
from .dynamo import autograd
from .specialize import for_traced
from .variant_sizes import VariantSizes

_requires_grad = operator.attrgetter("requires_grad")

Run = Callable[..., Sequence[Any]]

_ADMITTED = 4096
"""The number of sets of sizes that a variant remembers to have checked."""


class Variant:
    """One compiled form of a model; called with the input tensors, it returns what the model returns.

    arguments  the form of the calls that it serves
    state      the state of the model's modules for which it was traced
    pattern    for each input tensor the number of the first one that is the same object
    sizes      the sizes and layouts of the input tensors
    watch      checks whether it still serves a call
    """

    def __init__(
        self,
        traced: Traced,
        arguments: Arguments,
        state: ModuleState,
        pattern: tuple[int, ...],
        sizes: VariantSizes,
        options: Options,
        target: str | None,
    ) -> None:
        self.traced = traced
        self.arguments = arguments
        self._sizes = sizes
        self._relations = SizeRelations.of(traced.program.graph) if sizes.symbolic else None
        self._admitted = _native.SeenSizes(sizes.opened, _ADMITTED)
        self._conditions = 0
        self._state, self._pattern = state, pattern
        self._options, self._target = options, target
        self._run: Run | None = None
        self._compiled: Run | None = None
        self._mutated: tuple[int | None, ...] = ()
        self._everything = Binding(traced.slots, traced.constants)
        self._binding = self._everything
        if self._relations is not None and options.specialize:
            names = self._everything.calls([arguments.names[i] for i in arguments.tensors])
            fixed = {name: size for argument, d, size in sizes.fixed for name in arguments.open.names(argument, d)}
            self._options = for_traced(options, arguments.open, self._relations, names, fixed)
        self._by_autograd: dict[Hashable, Run] = {}
        self._writes = _writes_to_arguments(traced.program.graph_module.graph)
        self._views = returned_views(traced.program.graph)
        self._finish = _finisher(traced.out_spec, traced.assigned)
        self.refresh()

    def refresh(self) -> None:
        """Looks the model's tensors up again."""
        with COMPILING:
            self._everything.refresh()
            self._binding.refresh()
            if self._compiled is not None:
                self._run = self._binding.bound(self._compiled)
            self.watch = self._state.watch(self._pattern, self.arguments.device_types)

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        """Computes the graph for these tensors."""
        needs = self.traced.grad and self.wants_grad(tensors)
        shared = self._everything.shared(tensors) if self._writes else None
        if needs or shared is not None:
            args = self._everything.arrange(tensors)
            return self._finish(self.by_autograd(args, tensors, needs, shared)(*args))
        run = self._run or self.load()
        results = run(*tensors)
        if self._mutated:
            results = self._store(results, tensors)
        return self._finish(self._as_returned(results, tensors) if self._views else results)

    def wants_grad(self, tensors: Sequence[Tensor]) -> bool:
        """Returns whether a call needs gradients, given that it is in grad mode."""
        return any(map(_requires_grad, tensors)) or any(map(_requires_grad, self._everything.values))

    def prepare(self, tensors: Sequence[Tensor]) -> None:
        """Compiles what a call with these tensors would run."""
        needs = self.traced.grad and self.wants_grad(tensors)
        shared = self._everything.shared(tensors) if self._writes else None
        if needs or shared is not None:
            self.by_autograd(self._everything.arrange(tensors), tensors, needs, shared)
        else:
            self.load()

    def load(self) -> Run:
        """Returns the program without gradients as a function of the input tensors, and compiles it at the first call."""
        with COMPILING:
            if self._run is None:
                with torch.no_grad():
                    graph = inference(self.traced, with_kernels(table(), self._options.kernels, self._target), self._target)
                update_in_place(graph.gm, graph.mutated)
                gm = fold_weights(graph.gm, self._foldable(graph)) if self._options.fold_weights else graph.gm
                self._compiled = compile_graph(gm, options=self._options, target=self._target, frozen=self._frozen(graph))
                self._mutated = graph.mutated
                self._binding = Binding(graph.slots, self.traced.constants)
                self._run = self._binding.bound(self._compiled)
            return self._run

    def _frozen(self, graph: Inference) -> set[int]:
        """Returns the weights that the user promised not to change in place and that the model does not
        write, by argument number."""
        if not self._options.freeze_weights:
            return set()
        return {i for i, slot in enumerate(graph.slots) if slot.value is not None and i not in graph.mutated}

    def _foldable(self, graph: Inference) -> dict[int, Tensor]:
        """Returns the model's tensors that count as constants: small enough, and never written by the model."""
        values = {i: slot.value for i, slot in enumerate(graph.slots) if slot.value is not None and i not in graph.mutated}
        return {i: v for i, v in values.items() if v.numel() * v.element_size() <= self._options.fold_weights}

    def by_autograd(self, args: Sequence[Any], tensors: Sequence[Tensor], needs: bool, shared: Hashable) -> Run:
        """Returns the programs that AOTAutograd makes of the graph, as a function of all its arguments.

        They are those with gradients, and those of a graph that writes to memory which several arguments share. They are compiled
        for the first call's tensors, which must have this variant's strides: ValueError otherwise.
        """
        kinds = [isinstance(a, Tensor) and (needs and a.requires_grad, a.is_conj(), a.is_neg()) for a in args]
        key = (needs, tuple(kinds), shared)
        if key not in self._by_autograd:
            with COMPILING, torch.set_grad_enabled(needs):
                if key not in self._by_autograd:  # another thread may have compiled it meanwhile
                    self._by_autograd[key] = self._compiled_by_autograd(args, tensors, shared is not None)
        return self._by_autograd[key]

    def _compiled_by_autograd(self, args: Sequence[Any], tensors: Sequence[Tensor], shares: bool) -> Run:
        """Compiles what `by_autograd` returns. shares: whether arguments share memory that the graph writes to."""
        if not self._sizes.fit(tensors):
            raise ValueError("these strides have a variant of their own")
        module, places = _each_result_once(self.traced.program.graph_module)
        distinct = _each_argument_once(module.graph, args) if shares else None
        with self._faked(args, distinct) as fakes:
            run = autograd(module, fakes, options=self._options, target=self._target)
        if not self._serves(tensors):
            raise ValueError("these sizes have a variant of their own")
        return run if places is None and distinct is None else _Spread(run, distinct, places)

    @contextmanager
    def _faked(self, args: Sequence[Any], distinct: Sequence[int] | None) -> Iterator[list[Any]]:
        """Yields fake tensors for the arguments; with symbolic sizes, those of the trace."""
        numbers = range(len(args)) if distinct is None else distinct
        with symbolic(self.traced.program.graph, args) if self._sizes.symbolic else faked([args[i] for i in numbers]) as fakes:
            yield [fakes[i] for i in numbers] if self._sizes.symbolic else fakes

    def admits(self, tensors: Sequence[Tensor]) -> bool:
        """Returns whether a call's sizes are known to be served, where some are open."""
        return self._relations is None or self._admitted.holds(tensors)

    def admit(self, tensors: Sequence[Tensor]) -> bool:
        """Returns whether a call's sizes are served, where some are open: see SizeRelations.serve, also for errors."""
        if not self.admits(tensors):
            if not self._serves(tensors):
                return False
            self._admitted.add(tensors)
        return True

    def _serves(self, tensors: Sequence[Tensor]) -> bool:
        if self._relations is None:
            return True
        if len(self._relations.guards) != self._conditions:  # compiling has added some
            self._admitted.clear()
            self._conditions = len(self._relations.guards)
        names = [self.arguments.names[i] for i in self.arguments.tensors]
        return self._relations.serve(self._everything.calls(list(zip(names, tensors, strict=True))))

    def _store(self, results: Sequence[Any], tensors: Sequence[Tensor]) -> Sequence[Any]:
        """Writes the new values of what the model mutates, and returns the remaining results."""
        count = len(self._mutated)
        with torch.no_grad():
            for i, value in zip(self._mutated, results, strict=False):
                if i is not None:
                    self._binding.argument(i, tensors).copy_(value)
        return results[count:]

    def _as_returned(self, results: Sequence[Any], tensors: Sequence[Tensor]) -> Sequence[Any]:
        found = list(results)
        for view in self._views:
            found[view.result] = view.as_eager(found[view.result], self._everything.argument(view.argument, tensors))
        return found


def _each_result_once(gm: fx.GraphModule) -> tuple[fx.GraphModule, list[int] | None]:
    """Returns a copy of the graph that returns no result twice, and for each old result its number among the new.

    AOTAutograd's preparation changes the copy. The numbers are None if the graph returned each result once.
    """
    graph = fx.Graph()
    returned = list(graph.graph_copy(gm.graph, {}))  # type: ignore[arg-type]
    order = {result: None for result in returned if isinstance(result, fx.Node)}
    unique = [*order, *(result for result in returned if not isinstance(result, fx.Node))]
    spread = len(unique) < len(returned)
    graph.output(tuple(unique if spread else returned)).meta = dict(gm.graph.output_node().meta)
    copy = fx.GraphModule(gm, graph)
    copy.meta = dict(gm.meta)
    return copy, [_index(unique, result) for result in returned] if spread else None


def _each_argument_once(graph: fx.Graph, args: Sequence[Any]) -> list[int] | None:
    """Merges arguments that are one tensor, and returns the numbers of those that remain; None if all do.

    AOTAutograd merges them, too, where the graph writes to them, but then mistakes the layouts of gradients.
    """
    first = {id(arg): i for i, arg in reversed(list(enumerate(args))) if isinstance(arg, Tensor)}
    distinct = [i for i, arg in enumerate(args) if first.get(id(arg), i) == i]
    if len(distinct) == len(args):
        return None
    nodes = graph.find_nodes(op="placeholder")
    for i in set(range(len(args))).difference(distinct):
        nodes[i].replace_all_uses_with(nodes[first[id(args[i])]])
        graph.erase_node(nodes[i])
    return distinct


def _index(items: Sequence[Any], item: Any) -> int:
    return next(i for i, other in enumerate(items) if other is item)


class _Spread:
    """Runs a program on some of the arguments and repeats some of its results.

    kept    the numbers of the arguments that it takes; None for all
    places  for each result its number among the program's; None for all, in order
    """

    def __init__(self, run: Run, distinct: Sequence[int] | None, places: Sequence[int] | None) -> None:
        self._run, self._kept, self._places = run, distinct, places

    def __call__(self, *args: Any) -> Sequence[Any]:
        results = self._run(*args) if self._kept is None else self._run(*[args[i] for i in self._kept])
        return results if self._places is None else tuple(results[i] for i in self._places)


def _writes_to_arguments(graph: fx.Graph) -> bool:
    """Returns whether a graph may write to memory that is not its own."""
    written = [writes_to(node) for node in graph.nodes]
    if any(memory is None for memory in written) or any(map(updates_statistics, graph.nodes)):
        return True
    arguments = [node.meta["val"] for node in graph.find_nodes(op="placeholder")]
    argument_memory = {storage(value) for value in arguments if isinstance(value, Tensor)}
    return any(memory & argument_memory for memory in written if memory)


def _finisher(spec: pytree.TreeSpec, assigned: Sequence[tuple[dict[str, Any], str]]) -> Callable[[Sequence[Any]], Any]:
    """Returns a function that builds the model's output from the flat outputs."""
    if assigned:
        return partial(_assign, spec, assigned)
    if spec.is_leaf():
        return operator.itemgetter(0)
    if spec.type in (tuple, list) and all(child.is_leaf() for child in spec.children()):
        kind: Callable[[Sequence[Any]], Any] = spec.type
        return kind
    return partial(_unflatten, spec)


def _unflatten(spec: pytree.TreeSpec, results: Sequence[Any]) -> Any:
    return pytree.tree_unflatten(list(results), spec)


def _assign(spec: pytree.TreeSpec, assigned: Sequence[tuple[dict[str, Any], str]], results: Sequence[Any]) -> Any:
    """Assigns the tensors that forward assigns to attributes, and returns the model's output."""
    output, values = _unflatten(spec, results)
    for (held, name), value in zip(assigned, values, strict=True):
        held[name] = value
    return output
