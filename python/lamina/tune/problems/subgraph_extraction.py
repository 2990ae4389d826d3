"""Extracts the calls of a problem, with what surrounds them, from a module as a program of its own, which can be compiled and
timed."""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import func

from lamina.passes.families.choice import CHOICE
from lamina.passes.families.problem import Problem
from lamina.passes.families.surroundings import calls, kernels, plain_name
from lamina.passes.ir.extern_calls import named_dtype
from lamina.passes.ir.reading import element_type
from lamina.passes.ir.rewriting import read_by, replace_operands

from .parts import ModulePart


class Subgraph(ModulePart):
    """The calls of a problem, the producers that only they need and what follows them, as the module `text`, whose @main takes
    their operands and returns what the problem keeps.

    rounds  Lamina's kernels round intermediate values of half types, as eager does
    """

    level = "graph"

    def __init__(self, problem: Problem, rounds: bool = False) -> None:
        parts = [*problem.before, *problem.ops, *problem.after]
        computed = [v for op in parts for v in op.results]
        operands = list(dict.fromkeys(v for op in parts for v in op.operands if v not in computed))
        dtypes = [named_dtype(v) for v in operands]
        memory = [
            (dtype or element_type(v), v.type.shape, list(problem.strides(v))) for v, dtype in zip(operands, dtypes, strict=True)
        ]
        with problem.ops[0].context, ir.Location.unknown():
            module = ir.Module.create()
            signature = ir.FunctionType.get([v.type for v in operands], [v.type for v in problem.results])
            given = [{"graph.strides": ir.DenseI64ArrayAttr.get(strides)} for *_, strides in memory]
            named = [{"graph.dtype": ir.StringAttr.get(dtype)} if dtype else {} for dtype in dtypes]
            main = func.FuncOp("main", signature, ip=ir.InsertionPoint(module.body))
            main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(s | d) for s, d in zip(given, named, strict=True)])
            _fill(main.add_entry_block(), operands, parts, problem.results)
        super().__init__(problem, problem.what, module, memory, rounds)

    def carriers(self, module: ir.Module) -> Sequence[ir.Operation]:
        """Returns the calls."""
        return [*calls(module), *kernels(module)]


def _fill(block: ir.Block, operands: Sequence[ir.Value], parts: Sequence[ir.Operation], results: Sequence[ir.Value]) -> None:
    """Copies ops to a block whose arguments stand for `operands`, without choices, and returns the copies of `results`."""
    values = dict(zip(operands, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for part in parts:
            copy = _copy(part, values)
            if part.name == "graph.group":
                copy.attributes["sym_name"] = ir.StringAttr.get(plain_name(part))
            elif CHOICE in copy.attributes:
                del copy.attributes[CHOICE]
        func.ReturnOp([values[v] for v in results])


def _copy(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> ir.Operation:
    """Clones an op on other values. Values that its regions use from outside are constants."""
    copy = op.clone()
    with ir.InsertionPoint(copy):
        for v in read_by(op):
            if v not in values and not isinstance(v, ir.BlockArgument) and v.owner.operation.block == op.block:
                values[v] = v.owner.operation.clone().results[0]
        replace_operands(copy, values)
    values.update(zip(op.results, copy.results, strict=True))
    return copy
