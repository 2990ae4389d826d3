"""Ops that move the elements of complex tensors or sum them: each acts on both parts alike.

A value that lies in memory with both parts in a last dimension is moved as that, so that its parts are never separated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from ..fx.dtypes import REAL
from ..fx.sizes import exact_sizes
from .parts import ComplexValue, Emitter, Part, is_complex

aten = torch.ops.aten


@dataclass(frozen=True)
class PerPart:
    """Applies an op to each part.

    values  the positions of the arguments that hold elements: tensors, numbers or lists of tensors
    whole   makes the arguments for a tensor that holds both parts from the rank of the complex one and its own arguments; None
            if that has no dimension, so that a dimension that is named would be the one of the parts
    """

    target: Any
    values: Sequence[int] = (0,)
    whole: Callable[..., Sequence[Any] | None] | None = None

    def __call__(self, e: Emitter, *args: Any, **kwargs: Any) -> Any:
        """Returns the parts of the result, or one tensor with both."""
        kwargs = {name: value for name, value in kwargs.items() if name != "dtype"}
        if (held := self._in_memory(e, args)) is not None:
            return e(self.target, *held, **kwargs)
        return tuple(e(self.target, *self._arguments(e, args, i), **kwargs) for i in (0, 1))

    def _in_memory(self, e: Emitter, args: Sequence[Any]) -> Sequence[Any] | None:
        """Returns the arguments for tensors that hold both parts; None if some do not."""
        given = [args[i] for i in self.values if i < len(args)]
        flat = [v for value in given for v in (value if isinstance(value, list | tuple) else [value])]
        if self.whole is None or not all(isinstance(v, ComplexValue) and v.in_memory for v in flat):
            return None
        if len({v.like.dtype for v in flat}) > 1:
            return None
        return self.whole(flat[0].rank, *(_mapped(a, e.whole) for a in args))

    def _arguments(self, e: Emitter, args: Sequence[Any], i: int) -> list[Any]:
        """Returns the arguments of a move of part `i`, real (0) or imaginary (1)."""
        flat = [v for a in args for v in (a if isinstance(a, list | tuple) else [a])]
        dtype = next(REAL[v.like.dtype] for v in flat if isinstance(v, ComplexValue))

        def part(value: Any) -> Any:
            """Returns part `i` of an argument: a real tensor's imaginary part is filled with zeros."""
            if isinstance(value, ComplexValue):
                return e.filled(e.part(value, i), value.like)
            if isinstance(value, fx.Node) and isinstance(value.meta["val"], Tensor):
                return e.to(value, dtype) if i == 0 else e(aten.full_like.default, value, 0.0, dtype=dtype)
            return e.part(value, i)

        return [_mapped(a, part, all) if n in self.values else a for n, a in enumerate(args)]


def _mapped(argument: Any, function: Callable[[Any], Any], elements: Any = None) -> Any:
    """Maps the complex values of an argument, or all of its elements, by a function."""
    if isinstance(argument, list | tuple):
        return [_mapped(a, function, elements) for a in argument]
    return function(argument) if elements is all or isinstance(argument, ComplexValue) else argument


def _dim(position: int, fresh: int = 0) -> Callable[..., Sequence[Any] | None]:
    """Returns `PerPart.whole` for an op whose argument at `position` is a dimension. fresh: how many dimensions the op adds."""

    def arguments(rank: int, *args: Any) -> Sequence[Any] | None:
        """Makes the dimension, which may be left out, a non-negative number."""
        if rank + fresh == 0:
            return None
        found = list(args)
        if len(found) > position:
            found[position] = found[position] % (rank + fresh)
        return found if len(found) > position else [*found, 0]

    return arguments


def _dims(rank: int, x: Any, dims: Any, *rest: Any) -> Sequence[Any] | None:
    return None if rank == 0 else [x, [d % rank for d in (dims if isinstance(dims, list | tuple) else [dims])], *rest]


def _reduced(rank: int, x: Any, dims: Any = None, keep: bool = False, *_: Any, **__: Any) -> Sequence[Any] | None:
    given = dims if isinstance(dims, list | tuple) else [] if dims is None else [dims]
    return None if rank == 0 else [x, [d % rank for d in given] or list(range(rank)), keep]


def _shaped(rank: int, x: Any, shape: Sequence[Any], *rest: Any) -> Sequence[Any]:
    return [x, [*shape, 2], *rest]


def _spread(rank: int, grad: Any, sizes: Sequence[Any], dim: int, *rest: Any) -> Sequence[Any]:
    return [grad, [*sizes, 2], dim % max(len(sizes), 1), *rest]


MOVES: dict[Any, Callable[..., Any]] = {
    rule.target: rule
    for rule in (
        PerPart(aten.permute.default, whole=lambda rank, x, dims: [x, [*(d % max(rank, 1) for d in dims), rank]]),
        PerPart(aten.transpose.int, whole=lambda rank, x, a, b: [x, a % max(rank, 1), b % max(rank, 1)]),
        PerPart(aten.view.default, whole=_shaped),
        PerPart(aten._unsafe_view.default, whole=_shaped),
        PerPart(aten.expand.default, whole=_shaped),
        PerPart(aten.slice.Tensor, whole=_dim(1)),
        PerPart(aten.select.int, whole=_dim(1)),
        PerPart(aten.unsqueeze.default, whole=_dim(1, 1)),
        PerPart(aten.squeeze.dim, whole=_dim(1)),
        PerPart(aten.squeeze.dims, whole=_dims),
        PerPart(aten.flip.default, whole=_dims),
        PerPart(aten.cat.default, whole=_dim(1)),
        PerPart(aten.constant_pad_nd.default, (0, 2)),
        PerPart(aten.roll.default),
        PerPart(aten.repeat.default, whole=lambda rank, x, repeats: [x, [*repeats, 1]]),
        PerPart(aten.index.Tensor, whole=lambda rank, x, indices: [x, indices]),
        PerPart(aten.index_select.default, whole=_dim(1)),
        PerPart(aten.diagonal.default),
        PerPart(aten.gather.default),
        PerPart(aten.cumsum.default, whole=_dim(1)),
        PerPart(aten.sum.dim_IntList, whole=_reduced),
        PerPart(aten.mean.dim, whole=_reduced),
        PerPart(aten.where.self, (1, 2)),
        PerPart(aten.masked_fill.Scalar, (0, 2)),
        PerPart(aten.masked_fill.Tensor, (0, 2)),
        PerPart(aten.slice_scatter.default, (0, 1), whole=_dim(2)),
        PerPart(aten.select_scatter.default, (0, 1), whole=_dim(2)),
        PerPart(aten.diagonal_scatter.default, (0, 1)),
        PerPart(aten.slice_backward.default, whole=_spread),
        PerPart(aten.select_backward.default, whole=_spread),
        PerPart(aten.index_put.default, (0, 2)),
        PerPart(aten.scatter.src, (0, 3)),
        PerPart(aten.scatter.value, (0, 3)),
        PerPart(aten.scatter_add.default, (0, 3)),
        PerPart(aten.neg.default, whole=lambda rank, x: [x]),
        PerPart(aten.tril.default),
        PerPart(aten.triu.default),
    )
}  # fmt: skip
"""Rules by overload."""


def _transposed(e: Emitter, x: ComplexValue) -> Any:
    if x.rank < 2:
        return x
    return MOVES[aten.permute.default](e, x, [1, 0])


def _squeezed(e: Emitter, x: ComplexValue) -> Any:
    return MOVES[aten.view.default](e, x, [n for n in x.like.shape if n != 1])


def _unfolded(e: Emitter, x: ComplexValue, dim: int, size: int, step: int) -> Any:
    if x.rank == 0 or not x.in_memory:
        return PerPart(aten.unfold.default)(e, x, dim, size, step)
    windows = e(aten.unfold.default, e.whole(x), dim % x.rank, size, step)
    return e(aten.transpose.int, windows, x.rank, x.rank + 1)  # the parts are a dimension before that of the windows


def _summed(e: Emitter, x: ComplexValue, **_: Any) -> Any:
    return MOVES[aten.sum.dim_IntList](e, x, list(range(x.rank)))


def _averaged(e: Emitter, x: ComplexValue, **_: Any) -> Any:
    return MOVES[aten.mean.dim](e, x, list(range(x.rank)))


def _itself(e: Emitter, x: Any, *_: Any, **__: Any) -> Any:
    return x


def _copied(e: Emitter, into: Any, x: Any, *_: Any) -> Any:
    if not isinstance(into, ComplexValue):
        held = into.meta["val"]
        return e.filled(e.to(e.part(x, 0), held.dtype), held)
    if isinstance(x, ComplexValue) and x.in_memory and exact_sizes(x.like.shape) == exact_sizes(into.like.shape):
        return e.whole(x)
    return e.part(x, 0), e.part(x, 1)


def _converted(e: Emitter, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Converts to another dtype: to a real one, the real part."""
    dtype = kwargs.get("dtype", args[0] if args and isinstance(args[0], torch.dtype) else None)
    if isinstance(dtype, torch.dtype) and dtype not in REAL:
        return e(aten._to_copy.default, e.filled(e.part(x, 0), x.like), dtype=dtype)
    device = kwargs.get("device")
    held = x.like.device if isinstance(x, ComplexValue) else x.meta["val"].device
    if device is not None and torch.device(device) != held:
        return NotImplemented
    return e.part(x, 0), e.part(x, 1)


def _number(function: Callable[..., Any]) -> Callable[..., tuple[Part, Part]]:
    """Returns the rule of an op that fills a tensor with a number, which `function` picks from the op's arguments."""

    def rule(e: Emitter, *args: Any, **_: Any) -> tuple[Part, Part]:
        """Returns the parts of the number."""
        return e.part(function(*args), 0), e.part(function(*args), 1)

    return rule


MOVES |= {
    aten.t.default: _transposed, aten.unfold.default: _unfolded,
    aten.squeeze.default: _squeezed, aten.sum.default: _summed, aten.mean.default: _averaged,
    **dict.fromkeys(
        (
            aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh.default, aten.lift_fresh_copy.default,
            aten.positive.default, aten.resolve_conj.default, aten.resolve_neg.default,
        ), _itself,
    ),
    aten.copy.default: _copied, aten._to_copy.default: _converted, torch.ops.prims.convert_element_type.default: _converted,
    **dict.fromkeys((aten.full.default, aten.full_like.default, aten.fill.Scalar), _number(lambda like, number: number)),
    aten.scalar_tensor.default: _number(lambda number: number), aten.new_full.default: _number(lambda x, shape, number: number),
    **dict.fromkeys(
        (
            aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default, aten.empty.memory_format, aten.empty_like.default,
            aten.new_empty.default, aten.new_empty_strided.default, aten.empty_strided.default, aten.empty_permuted.default,
        ), _number(lambda *_: 0.0),
    ),
    **dict.fromkeys((aten.ones.default, aten.ones_like.default, aten.new_ones.default), _number(lambda *_: 1.0)),
}  # fmt: skip


def takes_complex(node: fx.Node) -> bool:
    """Returns whether a call takes or returns a complex tensor or number."""
    complex_flags = [is_complex(node.meta.get("val"))]
    fx.node.map_aggregate(
        (node.args, node.kwargs), lambda a: complex_flags.append(is_complex(a.meta.get("val") if isinstance(a, fx.Node) else a))
    )
    return any(complex_flags)
