"""Decomposes an exported graph op by op, if it mutates none of its inputs.

torch.export's own way takes ten times as long: it traces every call of the graph twice, through layers that find mutations and copy
what they change.
"""

import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.proxy_tensor import set_original_aten_op
from torch.utils import _pytree as pytree

from ..decompositions.eager_layout import laid_out
from ..decompositions.expansion import (
    Expansion,
    TracedCall,
    is_composite,
    is_kept_call,
    kept_call_expansion,
    kind_of,
    trace_expansions,
)
from ..decompositions.table import Table, own_decompositions, table
from ..fx.aliases import layout, storage
from ..fx.in_place import functional_variant, is_functional, same_tensors
from ..rewrites.normalize import SETTLED

aten = torch.ops.aten

# Norms that update their running statistics in training, which their schemas do not say: the number of the argument that decides.
_NORMS = {aten.batch_norm.default: 5, aten.instance_norm.default: 5}
_PLACES = ("stack_trace", "nn_module_stack", "original_aten")  # metadata on where in the model a node comes from


def decomposed(gm: fx.GraphModule, decompositions: Table | None = None) -> fx.GraphModule | None:
    """Returns the graph decomposed, with the same arguments and outputs, by Lamina's table unless another is given.

    Returns None if it is more than a function of tensors of fixed shapes: if it changes its arguments in place, has branches
    or checks. The new nodes keep the lines and modules of the nodes that they came from.
    """
    fake = torch._guards.detect_fake_mode([node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")])
    if fake is None or not all(map(_is_plain, gm.graph.nodes)):
        return None
    same = same_tensors(gm.graph)
    made = None if same is None else _Run(gm, fake, same, decompositions or table()).run()
    return made if made is not None and all(is_functional(node) for node in made.graph.nodes) else None


@dataclass(frozen=True)
class _Run:
    """The decomposition of one graph.

    same        the tensors that share memory with each node, from same_tensors
    table       the decompositions
    new_values  what each old node has become
    used        the memory of the new values
    known       expansions by kind of call
    """

    gm: fx.GraphModule
    fake: FakeTensorMode
    same: dict[fx.Node, tuple[fx.Node, ...]]
    table: Table
    graph: fx.Graph = field(default_factory=fx.Graph)
    new_values: dict[fx.Node, Any] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    constants: dict[str, Any] = field(default_factory=dict)
    known: dict[Hashable, Expansion] = field(default_factory=dict)

    def run(self) -> fx.GraphModule | None:
        """Returns the new graph, or None if an op in place would get another dtype or shape (see `same`)."""
        self._foresee()
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self.new_values[node] = self.graph.node_copy(node)
                self.used.update(storage(v) for v in (node.meta.get("val"),) if isinstance(v, Tensor))
            elif node.op == "output":
                self.graph.output(self._new(node.args[0]))
            elif node.target is operator.getitem:
                self.new_values[node] = self._item(node)
            elif node.target not in SETTLED:
                self.new_values[node] = self._call(node)
                if node in self.same:
                    made, old = self.new_values[node].meta["val"], node.meta["val"]
                    if (made.dtype, made.shape) != (old.dtype, old.shape):
                        return None  # in place, the result takes the type of what it replaces
                    self.new_values.update((other, self.new_values[node]) for other in self.same[node])
        return _LazyGraphModule(self.constants, self.graph)

    def _new(self, args: Any) -> Any:
        """Maps arguments of the old graph to those of the new one."""
        return pytree.tree_map(lambda a: self.new_values[a] if isinstance(a, fx.Node) else a, args)

    def _item(self, node: fx.Node) -> Any:
        source, index = self.new_values[node.args[0]], node.args[1]
        if not isinstance(source, fx.Node):
            return source[index]
        item = self.graph.call_function(operator.getitem, (source, index))
        item.meta = {**_places(node), "val": source.meta["val"][index]}
        return item

    def _foresee(self) -> None:
        """Traces all kinds of calls of the old graph at once.

        Where a decomposition lays out its results otherwise than eager does, calls that take them are of other kinds, traced when
        met.
        """
        calls: dict[Hashable, TracedCall] = {}
        for node in self.gm.graph.nodes:
            if node.op == "call_function" and node.target is not operator.getitem and node.target not in SETTLED:
                whole, key, call = self._kind(node, node.args, node.kwargs)
                if not whole:
                    calls.setdefault(key, call)
        found = trace_expansions(list(calls.values()), self.fake, self.table) if calls else []
        if all(is_functional(n) for expansion in found for n in expansion.nodes):
            self.known.update((key, expansion) for key, expansion in zip(calls, found, strict=True) if expansion.is_copyable)

    def _kind(self, node: fx.Node, args: Any, kwargs: Any) -> tuple[bool, Hashable, TracedCall]:
        """Returns whether a node's call stays as it is, the kind of the call with these arguments, and the call."""
        target = functional_variant(node.target) if node in self.same else node.target
        run, note, whole = _decomposed(target), "", is_kept_call(target, self.table)
        if node in self.same and not _all_row_major(node):
            run, note, whole = partial(_where_it_was, run), "in place", False
        key, inputs = kind_of(target, args, kwargs, note)
        return whole, key, TracedCall(run, args, kwargs, inputs, node.meta.get("stack_trace") or "")

    def _call(self, node: fx.Node) -> Any:
        whole, key, call = self._kind(node, self._new(node.args), self._new(node.kwargs))
        expansion = self.known.get(key)
        if expansion is None:
            expansion = kept_call_expansion(call, self.fake) if whole else trace_expansions([call], self.fake, self.table)[0]
            if expansion.is_copyable:
                self.known[key] = expansion
        return self._copy(expansion, call.inputs, node)

    def _copy(self, expansion: Expansion, inputs: Sequence[fx.Node], node: fx.Node) -> Any:
        """Copies an expansion into the new graph. Its results get memory of their own each time, intermediate values do not."""
        new = dict(zip(expansion.inputs, inputs, strict=True))
        for one in expansion.nodes:
            new[one] = self._constant(expansion, one) if one.op == "get_attr" else self.graph.node_copy(one, new.__getitem__)
            origin = one.meta.get("original_aten")
            new[one].meta = {**_places(node), "val": one.meta.get("val"), **({"original_aten": origin} if origin else {})}
        results = {n for n in pytree.tree_leaves(expansion.results) if isinstance(n, fx.Node)}
        for one in results.difference(expansion.inputs) if expansion.is_copyable else ():
            base = inputs[expansion.shared[one]].meta["val"] if one in expansion.shared else None
            new[one].meta["val"] = self._value(one.meta["val"], base, node)
        self.used.update(storage(v) for n in results for v in pytree.tree_leaves(new[n].meta["val"]) if isinstance(v, Tensor))
        return pytree.tree_map(lambda n: new[n] if isinstance(n, fx.Node) else n, expansion.results)

    def _constant(self, expansion: Expansion, node: fx.Node) -> fx.Node:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = attrgetter(str(node.target))(expansion.holder)
        return self.graph.create_node("get_attr", name)

    def _value(self, like: Tensor, base: Tensor | None, node: fx.Node) -> Tensor:
        """Returns a fake tensor like another, in the memory of `base` or, without it, in memory of its own.

        The old node's value is used where it is such a tensor.
        """
        old = node.meta["val"]
        fits = isinstance(old, Tensor) and node not in self.same and layout(old) == layout(like)
        if fits and (storage(old) not in self.used if base is None else storage(old) == storage(base)):
            return old
        with self.fake:
            if base is not None:
                return base.as_strided(like.shape, like.stride(), like.storage_offset())
            return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)


def _decomposed(target: Any) -> Callable[..., Any]:
    """Returns what to trace for calls of an op.

    Composite ops, which torch's dispatcher decomposes before a trace sees them, are decomposed as torch.export does: by Lamina's
    table where it has them, else by torch's Python or C++.
    """
    if not is_composite(target):
        return target  # type: ignore[no-any-return]
    return partial(_by_us, target) if target in own_decompositions() else target.decompose  # type: ignore[no-any-return]


def _by_us(target: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    with set_original_aten_op(target):
        made = own_decompositions()[target](*args, **kwargs)
        return target.decompose(*args, **kwargs) if made is NotImplemented else made


def _where_it_was(run: Callable[..., Any], changed: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Computes an in-place op out of place, with the result in the layout of the tensor that the op changes."""
    return laid_out(run(changed, *args, **kwargs), changed)


def _all_row_major(node: fx.Node) -> bool:
    """Returns whether all tensor arguments and results of a call are row-major."""
    values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
    return all(v.is_contiguous() for v in values if isinstance(v, Tensor))


def _places(node: fx.Node) -> dict[str, Any]:
    return {name: node.meta[name] for name in _PLACES if name in node.meta}


def _is_plain(node: fx.Node) -> bool:
    """Returns whether a node computes tensors of fixed shapes, and at most writes to its first argument besides."""
    if node.op == "placeholder":
        return not node.users or _is_fixed(node.meta.get("val"))
    if node.op == "output" or node.target in SETTLED:
        return True
    if node.target is not operator.getitem and not isinstance(node.target, torch._ops.OpOverload):
        return False
    values = pytree.tree_leaves(node.meta.get("val"))
    fixed = all(map(_is_fixed, values))
    return (
        fixed
        and bool(values)
        and not updates_statistics(node)
        and (is_functional(node) or functional_variant(node.target) is not None)
    )


def updates_statistics(node: fx.Node) -> bool:
    """Returns whether a node is a norm that updates its running statistics, which its schema does not say."""
    return node.target in _NORMS and bool(node.args[_NORMS[node.target]])


def _is_fixed(value: Any) -> bool:
    return isinstance(value, Tensor) and all(type(n) is int for n in (*value.shape, *value.stride(), value.storage_offset()))
