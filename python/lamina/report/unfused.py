"""Estimates the cost of a graph without fusion, from the module before lamina-fuse."""

from torch_mlir import ir

from lamina.core.sizes import SizeLike, typical
from lamina.dialects.graph import CALLS
from lamina.passes.ir.reading import bytes_of, name_of, ops_in
from lamina.passes.ir.views import SINGLE_VIEWS

from .explanation import Unfused

# Ops that compute nothing: no compiler would emit a kernel for them alone.
_FREE = frozenset({"arith.constant", "tensor.empty", "linalg.fill", "func.return", *CALLS, "func.call", *SINGLE_VIEWS})


def count_unfused(module: ir.Module) -> Unfused:
    """Counts one kernel for every op of @main that computes a tensor; it reads every input once and writes every result. Sizes that
    each call decides count as in the call that was traced."""
    kernels = 0
    moved: SizeLike = 0
    for op in _main(module).regions[0].blocks[0].operations:
        results = [r for r in op.operation.results if isinstance(r.type, ir.RankedTensorType)]
        if op.operation.name in _FREE or not results:
            continue
        kernels += 1
        moved += sum(bytes_of(value) for value in (*_inputs(op.operation), *results))
    return Unfused(kernels, typical(moved))


def _main(module: ir.Module) -> ir.Operation:
    functions = ops_in(module.body, "func.func")
    return next(f for f in functions if name_of(f) == "main")


def _inputs(op: ir.Operation) -> list[ir.Value]:
    """Returns the tensors that an op reads: not the initial values of linalg ops, which are neutral elements or undefined."""
    operands = list(op.operands)
    if op.name.startswith("linalg."):
        operands = operands[: len(operands) - len(op.results)]
    return list(dict.fromkeys(v for v in operands if isinstance(v.type, ir.RankedTensorType)))
