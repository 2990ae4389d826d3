"""Inlines flex_attention's functions of scores and positions into the graph that calls it.

torch's functions take one score and its positions. vmap, as in eager, makes them functions of all scores and of ranges of
positions, which are only broadcast where an op needs both; the ops that it runs are inserted one by one.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import _vmap_for_bhqkv
from torch.overrides import TorchFunctionMode

from ..fx.reading import shape, sizes, value
from ..fx.rewriter import Graft

aten = torch.ops.aten

_SWALLOWS = -1e9
"""A number so low that adding a score to it leaves it unchanged."""
_SAME = (aten.alias.default, aten.clone.default, aten.expand.default, aten.view.default, aten._to_copy.default, aten.detach.default)
_BY_NUMBER = (
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor,
    aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor, aten.div.Tensor_mode, aten.remainder.Tensor, aten.fmod.Tensor,
    aten.floor_divide.default,
)  # fmt: skip
"""Ops whose second operand may be a number that is written into the graph."""


class NotLinear(Exception):
    """Says that a function does more to a score than to scale it, to cap it, to add something and to hide it."""


@dataclass(frozen=True)
class ChangedScores:
    """The scores times `factor`, plus `added`; -inf where `seen` is false.

    factor  positive
    inner   where it is not 0, the tanh of the scores times this stands for the scores: a soft cap of `factor`
    added   broadcasts with the scores; None for nothing
    seen    bool, broadcasts with the scores; None if all are
    """

    factor: float = 1.0
    added: fx.Node | None = None
    seen: fx.Node | None = None
    inner: float = 0.0

    @property
    def cap(self) -> float:
        """The soft cap; 0 for none."""
        return self.factor if self.inner else 0.0

    @property
    def scale(self) -> float:
        """The factor of the scores before the soft cap."""
        return self.factor * (self.inner or 1.0)


@dataclass(frozen=True)
class _Number:
    """A tensor of no dimensions whose value is known."""

    value: float
    dtype: torch.dtype


@dataclass(frozen=True)
class ScoreFunction:
    """A function of scores, or of positions alone, as the graph holds it.

    module  the function: of (a score,) batch, head, query and key, then of `others`
    others  captured tensors and sizes
    """

    module: fx.GraphModule
    others: tuple[Any, ...]

    def inlined(self, graft: Graft, first: Sequence[Any], positions: Sequence[fx.Node], like: Tensor) -> Any:
        """Inserts the function's ops and returns its result: a node, or ChangedScores where `first` is one.

        first      the scores, as a node or as ChangedScores; empty for a function of positions alone
        positions  ranges of one dimension: batches, heads, queries, keys
        like       a (fake) tensor with the scores' shape, dtype and device

        Raises NotLinear if ChangedScores cannot say the result.
        """
        given = (*first, *positions, *self.others)
        traced = self._traced([like, *map(_fake, given[1:])] if first else [_fake(g) for g in given], bool(first), graft)
        return _Inliner(graft, traced, like).run(given)

    def _traced(self, fakes: Sequence[Any], scored: bool, graft: Graft) -> fx.GraphModule:
        suffix = (None,) * len(self.others)

        def whole(*args: Any) -> Any:
            """Calls the function at all positions at once, as flex_attention does."""
            with _Indexing():
                return _vmap_for_bhqkv(self.module, prefix=(0,) if scored else (), suffix=suffix)(*args)

        try:
            with torch.no_grad(), graft.fake:
                traced = make_fx(whole)(*fakes)
        except Exception as error:  # whatever vmap refuses, torch's own call may do
            raise NotLinear(str(error)) from error
        traced.graph.eliminate_dead_code()
        return traced


class _Indexing(TorchFunctionMode):
    """Indexes by tensors of no dimensions, as flex_attention's functions do, without asking for their values."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not Tensor.__getitem__:
            return func(*args, **(kwargs or {}))
        source, parts = args[0], _leaves([args[1]])
        if not all(isinstance(part, Tensor | int) for part in parts) or isinstance(parts[0], bool):
            return func(*args)
        for dim, part in reversed(list(enumerate(parts))):
            source = source.select(dim, part) if isinstance(part, int) else source
        places = [part for part in parts if isinstance(part, Tensor)]
        return aten.index.Tensor(source, places) if places else source


def _fake(argument: Any) -> Any:
    return argument.meta.get("example_value", argument.meta.get("val")) if isinstance(argument, fx.Node) else argument


@dataclass
class _Inliner:
    """Inserts the ops of a traced function. like: see ScoreFunction.inlined."""

    graft: Graft
    traced: fx.GraphModule
    like: Tensor

    def run(self, inputs: Sequence[Any]) -> Any:
        """Inserts the ops on these arguments and returns the result."""
        known: dict[fx.Node, Any] = {}
        arguments = iter(inputs)
        for node in self.traced.graph.nodes:
            if node.op == "placeholder":
                known[node] = next(arguments)
            elif node.op == "get_attr":
                known[node] = _held(getattr(self.traced, str(node.target)))
            elif node.op == "call_function":
                known[node] = self._call(node, known)
            else:
                (result,) = _leaves(node.args)
                return self._plain(known[result])
        raise AssertionError("a graph has an output")

    def _call(self, node: fx.Node, known: Mapping[fx.Node, Any]) -> Any:
        target, args = node.target, fx.map_arg(node.args, known.__getitem__)
        if target in (aten.lift_fresh_copy.default, aten.lift_fresh.default):
            return args[0]
        if (number := _number_of(node, args)) is not None:
            return number
        if any(isinstance(a, ChangedScores) for a in _leaves(args)):
            return self._changed(node, args)
        takes = target in _BY_NUMBER and not isinstance(args[0], _Number)
        args = tuple(a.value if takes and i == 1 and isinstance(a, _Number) else self._plain(a) for i, a in enumerate(args))
        return self.graft.call(target, *args, **fx.map_arg(node.kwargs, known.__getitem__))

    def _plain(self, arg: Any) -> Any:
        """Returns an argument with tensors in the place of numbers."""
        if isinstance(arg, list | tuple):
            return type(arg)(map(self._plain, arg))
        if not isinstance(arg, _Number):
            return arg
        return self.graft.number(arg.value, arg.dtype, self.like.device)

    def _changed(self, node: fx.Node, args: Sequence[Any]) -> ChangedScores:
        """Returns the result of an op on scores."""
        target, one = node.target, args[0]
        two = args[1] if len(args) > 1 else None
        if target in _SAME:
            val = node.meta["val"]
            if isinstance(one, ChangedScores) and sizes(val.shape) == sizes(self.like.shape) and val.dtype is self.like.dtype:
                return one
        elif target in (aten.add.Tensor, aten.sub.Tensor) and node.kwargs.get("alpha", 1) == 1:
            if target is aten.add.Tensor and not isinstance(one, ChangedScores):
                one, two = two, one
            if not isinstance(two, ChangedScores):
                return replace(one, added=self._sum(one.added, two, target))
        elif target in (aten.mul.Tensor, aten.div.Tensor):
            if target is aten.mul.Tensor and not isinstance(one, ChangedScores):
                one, two = two, one
            if isinstance(two, _Number) and two.value > 0 and isinstance(one, ChangedScores):
                added = None if one.added is None else self.graft.call(target, self._wide(one.added), two.value)
                factor = one.factor * two.value if target is aten.mul.Tensor else one.factor / two.value
                return replace(one, factor=factor, added=added)
        elif target is aten.tanh.default and one == ChangedScores(one.factor):
            return ChangedScores(inner=one.factor)
        elif target is aten.where.self:
            return self._chosen(one, two, args[2])
        elif target is aten.masked_fill.Scalar and not isinstance(two, ChangedScores):
            return self._chosen(two, _Number(float(args[2]), self.like.dtype), one)
        raise NotLinear(str(target))

    def _sum(self, added: fx.Node | None, more: Any, target: Any) -> fx.Node:
        more = self._wide(self._plain(more))
        if added is not None:
            return self.graft.call(target, self._wide(added), more)
        return more if target is aten.add.Tensor else self.graft.call(aten.neg.default, more)

    def _chosen(self, where: Any, one: Any, other: Any) -> ChangedScores:
        """Returns scores where a bool is true, and others, or a number that hides, elsewhere."""
        if not isinstance(where, fx.Node):
            raise NotLinear("where")
        if isinstance(one, ChangedScores) and isinstance(other, ChangedScores):
            if (one.factor, one.inner) != (other.factor, other.inner):
                raise NotLinear("two factors")
            added = self._where_visible(where, one.added, other.added, _Number(0.0, self.like.dtype))
            return replace(one, added=added, seen=self._where_visible(where, one.seen, other.seen, _Number(True, torch.bool)))
        scores, fill = (one, other) if isinstance(one, ChangedScores) else (other, one)
        if not isinstance(fill, _Number) or fill.value > _SWALLOWS:
            raise NotLinear("a score is replaced")
        if fill.value == -torch.inf:
            shown = where if scores is one else self.graft.call(aten.bitwise_not.default, where)
            both = shown if scores.seen is None else self.graft.call(aten.bitwise_and.Tensor, scores.seen, shown)
            return replace(scores, seen=both)
        lowest = self._plain(_Number(fill.value, self.like.dtype))
        there = self._plain(_Number(0.0, self.like.dtype)) if scores.added is None else self._wide(scores.added)
        first, second = (there, lowest) if scores is one else (lowest, there)
        return replace(scores, added=self.graft.call(aten.where.self, where, first, second))

    def _where_visible(self, where: fx.Node, one: fx.Node | None, other: fx.Node | None, without: _Number) -> fx.Node | None:
        if one is other:
            return one
        first, second = (self._plain(without) if x is None else x for x in (one, other))
        if without.dtype is not torch.bool:
            first, second = self._wide(first), self._wide(second)
        return self.graft.call(aten.where.self, where, first, second)

    def _wide(self, node: fx.Node) -> fx.Node:
        """Returns a tensor in the scores' dtype, in which eager adds it."""
        val = value(node)
        if val is None or val.dtype is self.like.dtype:
            return node
        return self.graft.call(aten._to_copy.default, node, dtype=self.like.dtype)


def _number_of(node: fx.Node, args: Sequence[Any]) -> _Number | None:
    """Returns the tensor of no dimensions that a call makes of a number; None for other calls."""
    val = node.meta.get("val")
    if not isinstance(val, Tensor) or val.dim():
        return None
    number: Any = None
    if node.target in (aten.full.default, aten.new_full.default):
        number = args[-1]
    elif node.target in (aten.new_ones.default, aten.new_zeros.default, aten.ones.default, aten.zeros.default):
        number = float(node.target in (aten.new_ones.default, aten.ones.default))
    elif node.target in (aten.scalar_tensor.default, aten._to_copy.default):
        number = args[0].value if isinstance(args[0], _Number) else args[0]
    return _Number(number, val.dtype) if isinstance(number, bool | int | float) else None


def _held(tensor: Any) -> Any:
    """Returns a tensor that a function makes of a number."""
    constant = getattr(tensor, "constant", tensor)
    if not isinstance(constant, Tensor) or constant.dim():
        raise NotLinear("a tensor that a function holds")
    with torch.utils._python_dispatch._disable_current_modes():
        return _Number(constant.item(), tensor.dtype)


def _leaves(args: Any) -> list[Any]:
    """Returns the items of nested lists and tuples."""
    return [leaf for a in args for leaf in _leaves(a)] if isinstance(args, list | tuple) else [args]


def before_expansion(node: fx.Node) -> fx.Node:
    """Returns a tensor before it is only repeated along dimensions: where it can be broadcast as well."""
    while node.op == "call_function" and node.target is aten.expand.default and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def as_four(graft: Graft, node: fx.Node) -> fx.Node:
    """Returns a tensor that broadcasts with scores with all four dimensions."""
    missing = 4 - len(shape(node))
    return graft.call(aten.reshape.default, node, [1] * missing + [*shape(node)]) if missing else node


def item_of(node: fx.Node, number: int) -> fx.Node | None:
    """Returns the node that takes an item of a call's results; None without one."""
    return next((u for u in node.users if u.target is operator.getitem and u.args[1] == number), None)
