"""Complex tensors of a graph as real nodes: the two parts, or one tensor whose last dimension holds both, as in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from ..decompositions.expansion import TracedCall, trace_expansions
from ..decompositions.table import table
from ..fx.aliases import is_dense
from ..fx.dtypes import REAL
from ..fx.rewriter import insert
from ..fx.sizes import exact, exact_sizes, raw_sizes
from ..fx.support import LOWERED

aten = torch.ops.aten

_VIEWS = (aten.view.default, aten._unsafe_view.default)

Part: TypeAlias = fx.Node | float
"""A part of a complex value: a node, or a number that all elements have."""


@dataclass(eq=False)
class ComplexValue:
    """A complex tensor, in one or more of these forms. The others are made where they are asked for.

    like   a tensor of its shape, dtype and strides
    parts  the real and the imaginary part, of its shape
    whole  both parts, in a last dimension of two
    node   a node of the complex dtype
    """

    like: Tensor
    parts: tuple[Part, Part] | None = None
    whole: fx.Node | None = None
    node: fx.Node | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.like.dim()

    @property
    def in_memory(self) -> bool:
        """Whether both parts exist as one tensor, rather than being computed separately."""
        return self.parts is None


def is_complex(value: Any) -> bool:
    """Returns whether a value is a complex tensor of a dtype whose parts have code, or a complex number."""
    return value.dtype in REAL if isinstance(value, Tensor) else isinstance(value, complex)


class Emitter:
    """Inserts real nodes before a node of a graph, and computes their fake values.

    at      the node
    fake    the fake mode of the graph's values
    """

    def __init__(self, before: fx.Node, fake: FakeTensorMode) -> None:
        self.before, self.fake = before, fake

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the parts that the node computes with: those of its result, or of its complex arguments."""
        value = self.before.meta["val"]
        if isinstance(value, Tensor) and value.dtype in REAL:
            return REAL[value.dtype]
        held = [n.meta.get("val") for n in self.before.all_input_nodes]
        dtypes = [REAL[v.dtype] for v in held if isinstance(v, Tensor) and v.dtype in REAL]
        return torch.float64 if torch.float64 in dtypes else torch.float32

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Inserts a call of a real op, decomposed where that is needed. Returns the node of its result."""
        if str(target) in LOWERED:
            return insert(self.before, self.run(target, args, kwargs), target, *args, **kwargs)
        return self._expanded(target, args, kwargs)

    def run(self, target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Computes the fake value of a call."""
        args, kwargs = fx.map_arg((args, kwargs), self.value)
        target = torch.reshape if target in _VIEWS else target  # values have no memory yet, whose order could stand in the way
        with torch.no_grad(), self.fake:
            return target(*args, **kwargs)

    def value(self, node: fx.Node) -> Any:
        """Returns the value of a node, in the graph's fake mode."""
        value = node.meta["val"]
        if not isinstance(value, Tensor) or (isinstance(value, FakeTensor) and value.fake_mode is self.fake):
            return value
        return self.empty(value.shape, value.dtype, value.device, value.stride())

    def empty(self, shape: Sequence[Any], dtype: torch.dtype, device: torch.device, strides: Sequence[Any] | None = None) -> Tensor:
        """Returns a fake tensor in memory of its own."""
        with self.fake:
            if strides is None:
                return torch.empty(tuple(shape), dtype=dtype, device=device)
            return torch.empty_strided(tuple(shape), tuple(strides), dtype=dtype, device=device)

    def _expanded(self, target: Any, args: Any, kwargs: Any) -> fx.Node:
        """Inserts what Lamina's decompositions make of a call on complex values."""
        inputs = tuple(dict.fromkeys(n for n in pytree.tree_leaves((args, kwargs)) if isinstance(n, fx.Node)))
        values = [n.meta["val"] for n in inputs]
        try:
            for n in inputs:
                n.meta["val"] = self.value(n)
            with raw_sizes():
                expansion = trace_expansions([TracedCall(target, args, kwargs, inputs, "")], self.fake, table())[0]
        finally:
            for n, value in zip(inputs, values, strict=True):
                n.meta["val"] = value
        new = dict(zip(expansion.inputs, inputs, strict=True))
        for one in expansion.nodes:
            inner_args = fx.map_arg((one.args, one.kwargs), new.__getitem__)
            new[one] = insert(self.before, one.meta["val"], one.target, *inner_args[0], **inner_args[1])
        return new[expansion.results]

    # -- the forms of a complex value

    def part(self, value: Any, i: int) -> Part:
        """Returns the real (0) or imaginary (1) part of a value: complex, or a real node or number."""
        if isinstance(value, ComplexValue):
            if value.parts is None:
                whole = self.whole(value)
                value.parts = self.selected(whole, 0), self.selected(whole, 1)
            return value.parts[i]
        if isinstance(value, complex):
            return value.imag if i else value.real
        return 0.0 if i else value

    def selected(self, whole: fx.Node, i: int) -> fx.Node:
        """Returns an element along the last dimension. Its value is as dense as the complex one: ops that keep the layout of what
        they take keep no gaps."""
        held = self.value(whole)
        strides = [n // 2 for n in held.stride()[:-1]] if is_dense(held) and exact(held.stride(-1)) == 1 else None
        value = self.empty(held.shape[:-1], held.dtype, held.device, strides)
        return insert(self.before, value, aten.select.int, whole, held.dim() - 1, i)

    def whole(self, value: ComplexValue) -> fx.Node:
        """Returns both parts of a value in a last dimension."""
        if value.whole is None:
            like = value.like
            if value.node is not None:
                strides = [*(2 * n for n in like.stride()), 1]
                made = self.empty([*like.shape, 2], REAL[like.dtype], like.device, strides)
                value.whole = insert(self.before, made, aten.view_as_real.default, value.node)
            else:
                parts = [self(aten.unsqueeze.default, self.filled(self.part(value, i), like), like.dim()) for i in (0, 1)]
                value.whole = self(aten.cat.default, parts, like.dim())
        return value.whole

    def complex_node(self, value: ComplexValue) -> fx.Node:
        """Returns a value as a node of the complex dtype, for calls that take such tensors."""
        if value.node is None:
            value.node = insert(self.before, value.like, aten.view_as_complex.default, self.whole(value))
        return value.node

    def filled(self, part: Part, like: Tensor) -> fx.Node:
        """Returns a part as a node of a complex tensor's shape, in its parts' dtype."""
        dtype = REAL.get(like.dtype, like.dtype)
        if not isinstance(part, fx.Node):
            return self(aten.full.default, list(like.shape), part, dtype=dtype, device=like.device)
        if part.meta["val"].dtype != dtype:
            part = self(aten._to_copy.default, part, dtype=dtype)
        if exact_sizes(part.meta["val"].shape) == exact_sizes(like.shape):
            return part
        return self(aten.expand.default, part, list(like.shape))

    def to(self, part: Part, dtype: torch.dtype) -> Part:
        """Returns a part in a dtype."""
        if not isinstance(part, fx.Node) or part.meta["val"].dtype == dtype:
            return part
        return self(aten._to_copy.default, part, dtype=dtype)

    # -- arithmetic on parts; zeros and ones of real operands cost nothing

    def add(self, a: Part, b: Part) -> Part:
        """Returns a + b."""
        if _is(a, 0.0):
            return b
        if _is(b, 0.0):
            return a
        return self._binary(aten.add.Tensor, lambda x, y: x + y, *((a, b) if isinstance(a, fx.Node) else (b, a)))

    def sub(self, a: Part, b: Part) -> Part:
        """Returns a - b."""
        if _is(b, 0.0):
            return a
        if not isinstance(a, fx.Node) and isinstance(b, fx.Node):
            return self.neg(b) if a == 0.0 else self(aten.rsub.Scalar, b, a)
        return self._binary(aten.sub.Tensor, lambda x, y: x - y, a, b)

    def mul(self, a: Part, b: Part) -> Part:
        """Returns a * b."""
        for x, y in ((a, b), (b, a)):
            if _is(x, 0.0) or _is(x, 1.0) or _is(x, -1.0):
                return 0.0 if x == 0.0 else y if x == 1.0 else self.neg(y)
        return self._binary(aten.mul.Tensor, lambda x, y: x * y, *((a, b) if isinstance(a, fx.Node) else (b, a)))

    def div(self, a: Part, b: Part) -> Part:
        """Returns a / b."""
        if _is(a, 0.0) or _is(b, 1.0):
            return a
        if not isinstance(a, fx.Node) and isinstance(b, fx.Node):
            return self.mul(self(aten.reciprocal.default, b), a)
        return self._binary(aten.div.Tensor, lambda x, y: x / y, a, b)

    def neg(self, a: Part) -> Part:
        """Returns -a."""
        return self(aten.neg.default, a) if isinstance(a, fx.Node) else -a

    def _binary(self, target: Any, on_numbers: Callable[[float, float], float], a: Part, b: Part) -> Part:
        if not isinstance(a, fx.Node) and not isinstance(b, fx.Node):
            return on_numbers(a, b)
        return self(target, a, b)


def _is(part: Part, number: float) -> bool:
    return not isinstance(part, fx.Node) and part == number
