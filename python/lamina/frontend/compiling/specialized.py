"""Compiles programs whose sizes are constants for the sets of sizes that Options.specialize names, on a thread of their own.

The thread compiles what has been captured already: it rewrites the FX graph for the sizes, and holds the lock for MLIR alone, so
that calls of the program for all sizes, and captures of other graphs, go on meanwhile. It does not read the graph's fake tensors:
while another thread runs an op in their mode, they are on the device "meta".
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import sympy
import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.sym_node import SymNode

from lamina.core.options import Options

from ..calls.saved import TRACED, decide_at
from ..fx.aliases import storage
from ..fx.rewriter import copied
from ..fx.size_expressions import backed_values
from ..fx.sizes import guards_refused, silence_raw_sizes
from ..rewrites.numbers import inline_sizes
from .bindable import Bindable
from .sized import SizedProgram, listed
from .tuning import without_measuring
from .worker import WORKER, warned

Build = Callable[[fx.GraphModule, Options], Bindable]


def compile_specialized(program: SizedProgram, gm: fx.GraphModule, options: Options, build: Build) -> None:
    """Has programs compiled for the sets of sizes in `options.specialize`, by symbol, as far as the graph has these symbols."""
    found = {tuple((name, size) for name, size in wanted if name in program.sources) for wanted in options.specialize}
    chosen = without_measuring(replace(options, specialize=()))
    for sizes in (dict(one) for one in sorted(found - {()})):
        silence_raw_sizes()
        with warned(f"program for {listed(sizes)}"):
            WORKER.add(program, partial(_compile, rewriter=_AtSizes(gm, sizes), sizes=sizes, options=chosen, build=build))


def _compile(program: SizedProgram, rewriter: "_AtSizes", sizes: Mapping[str, int], options: Options, build: Build) -> None:
    with warned(f"program for {listed(sizes)}"):
        graph = rewriter.graph_at_sizes()
        with guards_refused(graph.graph):
            program.specialize(sizes, build(graph, options))


def specialized_graph(gm: fx.GraphModule, sizes: Mapping[str, int]) -> fx.GraphModule:
    """Returns a copy of a functional aten graph in which these symbols are numbers; its arguments stay, also those that are numbers
    now. Raises NotImplementedError if arguments share memory."""
    return _AtSizes(gm, sizes).graph_at_sizes()


class _AtSizes(fx.Interpreter):
    """Computes the values of a copied graph's nodes again, with fake tensors of a mode of their own: the graph's is in use.

    Reads the graph's fake tensors, and what is known of its sizes, when it is made.
    """

    def __init__(self, gm: fx.GraphModule, sizes: Mapping[str, int]) -> None:
        super().__init__(copied(gm))
        self._wanted = sizes
        arguments = gm.graph.find_nodes(op="placeholder")
        values = [node.meta.get("val") for node in arguments]
        self._sizes = {sympy.Symbol(name, integer=True, positive=True): size for name, size in sizes.items()}
        mode = torch._guards.detect_fake_mode(values)
        self._env = _forked(mode.shape_env)
        self._mode = FakeTensorMode(shape_env=self._env, allow_non_fake_inputs=True)
        memory = [storage(value) for value in values if isinstance(value, Tensor)]
        if len(set(memory)) < len(memory):
            raise NotImplementedError("arguments share memory")
        self._arguments = [self._empty_like(node.meta.get(TRACED, node.meta.get("val"))) for node in arguments]
        self._saved = {node.name: self._empty_like(node.meta["val"]) for node in arguments if TRACED in node.meta}

    def graph_at_sizes(self) -> fx.GraphModule:
        """Returns the copy, with the values that its nodes have at these sizes."""
        self.run()
        inline_sizes(self.module.graph)
        decide_at(self.module, self._wanted)
        self.module.recompile()
        return self.module

    def run(self) -> Any:
        """Computes all nodes, from arguments in eager's strides."""
        with self._mode:
            results = super().run(*self._arguments)
        for node in self.module.graph.find_nodes(op="placeholder"):
            if node.name in self._saved:
                node.meta["val"] = self._saved[node.name]
        return results

    def run_node(self, n: fx.Node) -> Any:
        """Computes a node, and keeps its value."""
        n.args, n.kwargs = fx.node.map_aggregate(
            (n.args, n.kwargs), lambda a: self._number(a) if isinstance(a, torch.SymInt) else a
        )
        found = super().run_node(n)
        if "val" in n.meta:
            n.meta = {key: value for key, value in n.meta.items() if key != "tensor_meta"} | {"val": found}
        return found

    def _number(self, size: Any) -> Any:
        """Returns a size with numbers in place of symbols."""
        if not isinstance(size, torch.SymInt):
            return size
        node = size.node
        expression = node.shape_env.replace(node.expr).subs(self._sizes)
        if expression.is_Integer:
            return int(expression)
        known = expression.subs(backed_values(self._env))
        return torch.SymInt(SymNode(expression, self._env, int, int(known) if known.is_Integer else None))

    def _empty_like(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return self._number(value)
        shape, strides = map(self._number, value.shape), map(self._number, value.stride())
        with self._mode:
            return torch.empty_strided([*shape], [*strides], dtype=value.dtype, device=value.device)


def _forked(env: Any) -> Any:
    """Returns a copy of a ShapeEnv: what one thread finds out does not reach the other's."""
    forked = copy.copy(env)
    for name, held in vars(env).items():
        if isinstance(held, dict | list | set):
            setattr(forked, name, copy.copy(held))
    return forked
