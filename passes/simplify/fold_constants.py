"""lamina-fold-constants: constant folding of tensor ops, evaluated with numpy."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from torch_mlir import ir

from ..infra.base import Pass
from ..ir.generics import fill
from ..ir.reading import bytes_of, ops_in
from ..ir.rewriting import constant, is_unused, tensor_blocks
from ..ir.sizes import number_attribute
from .evaluate import NotEvaluable, array_of, attribute_of, bits_equal, evaluate_op, evaluate_splat

_VIEWS = {
    "linalg.transpose", "linalg.broadcast", "tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice", "tensor.cast",
}  # fmt: skip
_FOLDED = ("linalg.", "tensor.", "arith.", "math.")


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Fold constant subgraphs: aranges, fills, masks, scalars, small tensors through any known op.

    A tensor larger than max-bytes stays computed, and so do its users. A splat of any size
    folds to a splat: `linalg.fill` where it is large, a dense splat where it is small. An arange stays computed, and so does a sum
    of aranges along several axes, being cheaper than the memory it would be read from: an index that is one is known.

        %0 = linalg.generic {...} outs(%e : tensor<2x3xi1>) { %i = linalg.index 0, %j = linalg.index 1, cmpi sge ... }

    becomes `arith.constant dense<[[true, false, false], [true, true, false]]> : tensor<2x3xi1>`.

    An argument of @main with the attribute `graph.constant = dense<...>` counts as that value; results computed from
    it may be as large as it is. Values are those of IEEE arithmetic in the ops' own types; transcendental functions are
    rounded once from f64. Ops that would trap or are undefined on these values stay.

    max_bytes  bound on every folded tensor
    """

    name: ClassVar[str] = "lamina-fold-constants"
    max_bytes: int = 16384

    def run(self, module: ir.Module) -> None:
        """Folds the blocks of functions; groups are left alone."""
        with module.context, ir.Location.unknown(), np.errstate(all="ignore"):
            for block in tensor_blocks(module):
                if block.owner.operation.name == "func.func":
                    _Folder(self.max_bytes).run(block)


@dataclass
class _Folder:
    """Folds the ops of one block.

    known    values of constants, None if undefined (tensor.empty)
    allowed  bytes of dense data that a value was computed from
    folded   ops whose results are known
    """

    max_bytes: int
    known: dict[ir.Value, np.ndarray | None] = field(default_factory=dict)
    allowed: dict[ir.Value, int] = field(default_factory=dict)
    folded: list[ir.Operation] = field(default_factory=list)

    def run(self, block: ir.Block) -> None:
        """Evaluates the ops of a block and replaces those whose users cannot be folded, too."""
        self.weights(block)
        for op in ops_in(block):
            self.visit(op)
        folded = set(self.folded)
        for op in reversed(self.folded):
            for result in op.results:
                if any(user.owner.operation not in folded for user in result.uses):
                    self.materialize(op, result)
            if is_unused(op):
                op.erase()
            else:
                folded.discard(op)

    def weights(self, block: ir.Block) -> None:
        """Takes the values of arguments that are constants."""
        attributes = block.owner.operation.attributes
        if "arg_attrs" not in attributes:
            return
        for arg, given in zip(block.arguments, attributes["arg_attrs"], strict=True):
            if "graph.constant" in given and (x := array_of(given["graph.constant"])) is not None:
                self.known[arg], self.allowed[arg] = x, x.nbytes

    def visit(self, op: ir.Operation) -> None:
        """Evaluates an op if its operands are known and its results small enough."""
        operands, results = list(op.operands), list(op.results)
        name = op.name
        if not results or not name.startswith(_FOLDED) or any(v not in self.known for v in operands):
            return
        xs = [self.known[v] for v in operands]
        allowed = max((self.allowed.get(v, 0) for v in operands), default=0)
        try:
            values = self.evaluate(op, xs, max(self.max_bytes, allowed))
        except NotEvaluable:
            return
        for result, x in zip(results, values, strict=True):
            self.known[result] = x
            self.allowed[result] = x.nbytes if name == "arith.constant" and x is not None else allowed
        if name not in ("arith.constant", "tensor.empty", "linalg.fill"):
            self.folded.append(op)

    def evaluate(self, op: ir.Operation, xs: Sequence[np.ndarray | None], bound: int) -> Sequence[np.ndarray | None]:
        """Returns the results of an op on known operands. Raises NotEvaluable."""
        if op.name == "linalg.fill" or op.name in _VIEWS:
            x = xs[0]
            if x is None:
                raise NotEvaluable("a view of undefined elements")
            if _is_splat(x):
                return [_spread(x, op.results[0])]
        elif op.name == "linalg.generic" and all(x is None or _is_splat(x) for x in xs):
            try:
                return [_spread(x, r) for x, r in zip(evaluate_splat(op, xs, self.captured), op.results, strict=True)]
            except NotEvaluable:
                pass  # not a splat: element by element, if it is small
        if op.name not in ("arith.constant", "tensor.empty") and any(_bytes(r) > bound for r in op.results):
            raise NotEvaluable("larger than max-bytes")
        return evaluate_op(op, xs, self.captured)

    def captured(self, value: ir.Value) -> np.ndarray | None:
        """Returns the value of an operand that a body uses from outside. Raises NotEvaluable."""
        if value not in self.known:
            raise NotEvaluable("a body uses a value that is not constant")
        return self.known[value]

    def materialize(self, op: ir.Operation, result: ir.Value) -> None:
        """Replaces `result` by its value, unless computing it is cheaper than reading it."""
        x, type_ = self.known[result], result.type
        if x is None:
            return
        ip, tensor = ir.InsertionPoint(op), isinstance(type_, ir.RankedTensorType)
        element = type_.element_type if tensor else type_
        if tensor and not (splat := bits_equal(x)) and _is_ramp(x):
            return
        if tensor and splat and _bytes(result) > self.max_bytes:
            value = constant(number_attribute(x[(0,) * x.ndim], element), ip, op.location)
            with op.location, ip:
                new = fill(type_, value)
        else:
            attribute = attribute_of(x, element, tuple(type_.shape)) if tensor else number_attribute(x, element)
            new = constant(attribute, ip, op.location)
        result.replace_all_uses_with(new)


def _bytes(value: ir.Value) -> int:
    return bytes_of(value) if isinstance(value.type, ir.RankedTensorType) else 8


def _is_splat(x: np.ndarray) -> bool:
    """Returns whether an array is one value without memory behind it (`array_of` and np.broadcast_to make such arrays)."""
    return x.size == 1 or (x.size > 0 and all(s == 0 or n == 1 for s, n in zip(x.strides, x.shape, strict=True)))


def _spread(x: np.ndarray, like: ir.Value) -> np.ndarray:
    return np.broadcast_to(x.reshape(-1)[0] if x.size == 1 else x[(0,) * x.ndim], tuple(ir.ShapedType(like.type).shape))


def _is_ramp(x: np.ndarray) -> bool:
    """Returns whether an array is start + step * i along each axis, with steps of their own, and has three elements along one."""
    if x.dtype == np.bool_ or max(x.shape, default=0) < 3:
        return False
    first, total = x[(slice(0, 1),) * x.ndim], 0
    for axis, n in enumerate(x.shape):
        second = np.take(x, [min(1, n - 1)], axis)[tuple(slice(None) if d == axis else slice(0, 1) for d in range(x.ndim))]
        along = np.arange(n, dtype=x.dtype).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
        total = total + (second - first) * along
    return bool(np.array_equal(first + total, x))
