"""Runs functions at the linalg level on numpy arrays, by the evaluator of lamina-fold-constants: a reference for graph passes."""

from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from lamina.passes.simplify.evaluate import NotEvaluable, evaluate_op
from lamina.passes.simplify.evaluate.arrays import Array, dtype_of


def evaluate(function: ir.Operation, inputs: Sequence[Array]) -> list[Array]:
    """The results of a function on arrays. bf16 arrays are f32 arrays of bf16 numbers. Raises NotEvaluable."""
    block = function.regions[0].blocks[0]
    known: dict[ir.Value, Array | None] = {}
    for arg, x in zip(block.arguments, inputs, strict=True):
        known[arg] = np.asarray(x, dtype_of(ir.ShapedType(arg.type).element_type))
    for op in block.operations:
        xs = [known[v] for v in op.operands]
        if op.operation.name == "func.return":
            if any(x is None for x in xs):
                raise NotEvaluable("a result is undefined")
            return [x for x in xs if x is not None]
        known.update(zip(op.results, evaluate_op(op.operation, xs, known.__getitem__), strict=True))
    raise NotEvaluable("a function without a return")
