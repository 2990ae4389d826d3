"""Evaluates linalg.generic on numpy arrays: the body runs once, on arrays over the whole iteration space."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from torch_mlir import ir

from ...ir.reading import ops_in, reduced_loops
from .arrays import Array, NotEvaluable, array_of
from .scalars import BINARY, OF_BOOLS, evaluate_scalar

Captured = Callable[[ir.Value], Array | None]

_REDUCERS: dict[str, np.ufunc] = {
    "arith.addf": np.add, "arith.mulf": np.multiply, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum,
    "arith.addi": np.add, "arith.muli": np.multiply, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.ori": np.bitwise_or, "arith.andi": np.bitwise_and,
}  # fmt: skip
"""Ops of reductions `out = combine(x, out)` that may run in any order; see OF_BOOLS for bools."""

_PLACED = ("linalg.index", "tensor.extract")  # bodies with these may yield a different value at every point


class _Space:
    """The iteration space of one generic: extents, reduction loops, and the maps of its operands."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        self.maps = [list(a.value.results) for a in op.attributes["indexing_maps"]]
        self.reduced = reduced_loops(op)
        self.extents = [0] * len(self.reduced)
        known = [False] * len(self.reduced)
        for value, map_ in zip(op.operands, self.maps, strict=True):
            for expr, n in zip(map_, ir.ShapedType(value.type).shape, strict=True):
                if isinstance(expr, ir.AffineDimExpr):
                    self.extents[expr.position], known[expr.position] = n, True
        if not all(known):
            raise NotEvaluable("a loop whose extent no operand names")

    def axis(self, loop: int) -> Array:
        """Returns the indices of a loop, broadcastable to the whole space."""
        shape = [1] * len(self.extents)
        shape[loop] = self.extents[loop]
        return np.arange(self.extents[loop]).reshape(shape)

    def spread(self, x: Array, map_: list[ir.AffineExpr]) -> Array:
        """Reads `x` through its map, as an array over the loops (extent 1 where it does not vary)."""
        dims = [e.position if isinstance(e, ir.AffineDimExpr) else None for e in map_]
        plain = [d for d in dims if d is not None]
        zeros = all(
            d is not None or (isinstance(e, ir.AffineConstantExpr) and e.value == 0) for d, e in zip(dims, map_, strict=True)
        )
        if zeros and len(set(plain)) == len(plain):
            x = x[tuple(0 if d is None else slice(None) for d in dims)]
            x = np.transpose(x, np.argsort(plain))
            return x.reshape([n if d in plain else 1 for d, n in enumerate(self.extents)])
        return x[tuple(self.index(e) for e in map_)]

    def index(self, expr: ir.AffineExpr) -> Array:
        """Evaluates an affine expression at every point of the space."""
        if isinstance(expr, ir.AffineDimExpr):
            return self.axis(expr.position)
        if isinstance(expr, ir.AffineConstantExpr):
            return np.array(expr.value).reshape([1] * len(self.extents))
        a, b = self.index(expr.lhs), self.index(expr.rhs)
        if isinstance(expr, ir.AffineAddExpr):
            return a + b
        if isinstance(expr, ir.AffineMulExpr):
            return a * b
        if isinstance(expr, ir.AffineFloorDivExpr):
            return a // b
        if isinstance(expr, ir.AffineModExpr):
            return a % b
        raise NotEvaluable("an indexing map that is not known")

    def gather(self, x: Array, map_: list[ir.AffineExpr], shape: Sequence[int]) -> Array:
        """Inverts `spread` for a result: an array over the loops becomes the output tensor. Raises NotEvaluable."""
        full = np.broadcast_to(x, [1 if r else n for r, n in zip(self.reduced, self.extents, strict=True)])
        order = [e.position for e in map_ if isinstance(e, ir.AffineDimExpr)]
        rest = [d for d in range(len(self.extents)) if d not in order]
        if any(full.shape[d] != 1 for d in rest):
            raise NotEvaluable("a result that several iterations write")
        return np.transpose(full, order + rest).reshape(shape)


def _body(op: ir.Operation) -> list[ir.Operation]:
    return ops_in(op.regions[0].blocks[0])


def _run(
    space: _Space, body: Sequence[ir.Operation], known: dict[ir.Value, Array | None], captured: Captured, fixed: dict[int, int]
) -> None:
    """Evaluates the body's ops into `known`. `fixed`: loops that are held at one iteration. Raises NotEvaluable."""

    def value(v: ir.Value) -> Array:
        """Returns the array that a value of the body is."""
        return _defined(known[v] if v in known else captured(v))

    for op in body:
        name = op.name
        if name == "linalg.index":
            loop = op.attributes["dim"].value
            known[op.results[0]] = np.full([1] * len(space.extents), fixed[loop]) if loop in fixed else space.axis(loop)
        elif name == "tensor.extract":
            tensor, *index = [value(v) for v in op.operands]
            if any(np.any((i < 0) | (i >= n)) for i, n in zip(index, tensor.shape, strict=True)):
                raise NotEvaluable("tensor.extract outside the tensor")
            known[op.results[0]] = tensor[tuple(index)]
        elif name == "cf.assert":
            if not np.all(value(op.operands[0])):
                raise NotEvaluable("a check of the program fails")
        elif name == "arith.constant":
            known[op.results[0]] = array_of(op.attributes["value"])
        else:
            out = evaluate_scalar(op, [value(v) for v in op.operands]) if len(op.results) == 1 else None
            if out is None:
                raise NotEvaluable(f"{name} is not known to the evaluator, or undefined here")
            known[op.results[0]] = np.asarray(out)


def evaluate_generic(op: ir.Operation, xs: Sequence[Array | None], captured: Captured) -> Iterator[Array]:
    """Yields the results of a linalg.generic on the operands `xs` (None: undefined); `captured` gives values from outside the body.

    Raises NotEvaluable.
    """
    space, body = _Space(op), _body(op)
    args, n_in = list(op.regions[0].blocks[0].arguments), len(xs) - len(op.results)
    yielded = list(body.pop().operands)
    known: dict[ir.Value, Array | None] = {}
    for arg, x, map_ in zip(args, xs, space.maps, strict=True):
        known[arg] = None if x is None else space.spread(x, map_)
    if not any(space.reduced):
        _run(space, body, known, captured, {})
        out = [known[v] if v in known else captured(v) for v in yielded]
    else:
        out = _reduce(space, body, known, captured, args[n_in:], yielded)
    for x, map_, result in zip(out, space.maps[n_in:], op.results, strict=True):
        yield space.gather(_defined(x), map_, ir.ShapedType(result.type).shape)


def evaluate_splat(op: ir.Operation, xs: Sequence[Array | None], captured: Captured) -> list[Array]:
    """Returns one element per result of a parallel generic whose operands are splats, of any size. Raises NotEvaluable."""
    body, ones = _body(op), [1] * len(op.attributes["iterator_types"])
    yielded = list(body.pop().operands)
    if any(reduced_loops(op)) or any(o.name in _PLACED for o in body):
        raise NotEvaluable("not a splat")
    known: dict[ir.Value, Array | None] = {}
    for arg, x in zip(op.regions[0].blocks[0].arguments, xs, strict=True):
        known[arg] = None if x is None else x[(0,) * x.ndim].reshape(ones)
    _run(_Space(op), body, known, captured, {})
    out = [known[v] if v in known else captured(v) for v in yielded]
    return [np.reshape(_defined(x), ()) for x in out]


def _defined(x: Array | None) -> Array:
    if x is None:
        raise NotEvaluable("an undefined value is read")
    return np.asarray(x)


def _reduce(
    space: _Space,
    body: list[ir.Operation],
    known: dict[ir.Value, Array | None],
    captured: Captured,
    accumulators: list[ir.Value],
    yielded: list[ir.Value],
) -> list[Array | None]:
    """Returns what a generic with reductions yields: by numpy's own reduction of the terms, or iteration by iteration."""
    axes = tuple(d for d, r in enumerate(space.reduced) if r)
    last = yielded[0].owner
    if len(yielded) == 1 and not isinstance(last, ir.Block) and last.operation.name in _REDUCERS and last.operation == body[-1]:
        name, operands, acc = last.operation.name, list(last.operands), accumulators[0]
        term = operands[1] if operands[0] == acc else operands[0]
        start = known[acc]
        if acc in operands and len(list(acc.uses)) == 1 and start is not None:
            _run(space, body[:-1], known, captured, {})
            x = np.asarray(known[term] if term in known else captured(term))
            full = np.broadcast_to(x, space.extents)
            reducer = (OF_BOOLS if full.dtype == np.bool_ else _REDUCERS).get(name, _REDUCERS[name])
            reduced = reducer.reduce(full, axis=axes, keepdims=True, dtype=full.dtype)
            return [BINARY[name](reduced, start)]
    inputs = {v: x for v, x in known.items() if v not in accumulators}
    state = [known[v] for v in accumulators]
    for point in np.ndindex(*(space.extents[d] for d in axes)):
        at = dict(zip(axes, point, strict=True))
        step: dict[ir.Value, Array | None] = {v: _slice(x, at) for v, x in inputs.items()}
        step.update(zip(accumulators, state, strict=True))
        _run(space, body, step, captured, at)
        state = [step[v] if v in step else captured(v) for v in yielded]
    return state


def _slice(x: Array | None, fixed: dict[int, int]) -> Array | None:
    if x is None:
        return None
    index: list[slice] = [slice(None)] * x.ndim
    for d, i in fixed.items():
        if x.shape[d] != 1:
            index[d] = slice(i, i + 1)
    return x[tuple(index)]
