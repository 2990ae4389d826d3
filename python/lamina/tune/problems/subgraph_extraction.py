"""Extracts products and their reader group from a module as a program of its own, which can be compiled and timed."""

from collections.abc import Sequence

from torch_mlir import ir

from lamina.kernels.library import STRICT
from lamina.passes.families.choice import CHOICE, LIBRARY
from lamina.passes.families.conv.calls import channels_last
from lamina.passes.families.conv.implicit_gemm import ImplicitGemm
from lamina.passes.families.problem import Problem
from lamina.passes.families.surroundings import calls, strides_of
from lamina.passes.ir.locations import op_word
from lamina.passes.ir.reading import producer, shape_of

from .parts import ModulePart, plain_name


class Subgraph(ModulePart):
    """The calls of a problem, their reader and the producers that only they need, as the module `text`, whose @main takes their
    operands and returns what the problem keeps, else the results of the group, else those of the calls.

    rounds  Lamina's kernels round intermediate values of half types, as eager does
    """

    level, reference = "graph", LIBRARY

    def __init__(self, problem: Problem, rounds: bool = False) -> None:
        ops, group, before = problem.ops, problem.group, problem.before
        sums = [op.results[0] for op in ops]
        outside = [v for v in (group.operands if group else ()) if v not in sums]
        made = [v for op in before for v in op.results]
        read = [*(v for op in (*before, *ops) for v in op.operands if v not in made), *outside]
        operands = list(dict.fromkeys(read))
        results = list(problem.kept) or (list(group.results) if group else sums)
        callee = op_word(ir.StringAttr(ops[0].attributes["callee"]).value)
        name = plain_name(group) if group else ""
        first = "".join(f"{plain_name(op)}, then " for op in before if op.name == "graph.group")
        after = f" and {name}" if group else ""
        count = f"{len(ops)} x " if len(ops) > 1 else ""
        shapes = " by ".join("x".join(map(str, ir.RankedTensorType(v.type).shape)) for v in _factors(ops[0]))
        what = problem.what or f"{first}{count}{callee} {shapes}{after}"
        strides = [_strides(v, ImplicitGemm.read(ops[0]) is not None) for v in operands]
        with ops[0].context, ir.Location.unknown():
            module = ir.Module.create()
            signature = ir.FunctionType.get([v.type for v in operands], [v.type for v in results])
            given = [ir.DictAttr.get({"graph.strides": ir.DenseI64ArrayAttr.get(s)}) for s in strides]
            with ir.InsertionPoint(module.body):
                main = ir.Operation.create(
                    "func.func",
                    attributes={
                        "sym_name": ir.StringAttr.get("main"),
                        "function_type": ir.TypeAttr.get(signature),
                        "arg_attrs": ir.ArrayAttr.get(given),
                    },
                    regions=1,
                )
            block = main.regions[0].blocks.append(*signature.inputs)
            values = dict(zip(operands, block.arguments, strict=True))
            with ir.InsertionPoint(block):
                for part in (*before, *ops, group) if group else (*before, *ops):
                    _copy(part, values)
                for part in (*before, group):
                    if part is not None and part.name == "graph.group":
                        values[part.results[0]].owner.attributes["sym_name"] = ir.StringAttr.get(plain_name(part))
                ir.Operation.create("func.return", operands=[values[v] for v in results])
            for op in ops:
                if CHOICE in op.attributes:
                    del values[op.results[0]].owner.attributes[CHOICE]
        memory = [(v.type, s) for v, s in zip(operands, strides, strict=True)]
        super().__init__(problem, what, module, memory, rounds)

    def carriers(self, module: ir.Module) -> Sequence[ir.Operation]:
        """Returns the calls."""
        return calls(module)


def _factors(op: ir.Operation) -> list[ir.Value]:
    """The factors of a product, which come after its addend, or before scales and offsets; of a convolution, before its bias."""
    first = ImplicitGemm.read(op) is not None or ir.StringAttr(op.attributes["callee"]).value in STRICT
    return list(op.operands)[:2] if first else list(op.operands)[-2:]


def _strides(v: ir.Value, windows: bool) -> tuple[int, ...]:
    """The strides that an operand will have: Lamina's kernels write channels-last images where convolutions are near."""
    made = producer(v)
    images = windows and made is not None and made.name == "graph.group" and len(shape_of(v)) == 4
    return channels_last(shape_of(v)) if images else strides_of(v)


def _copy(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    """Clones an op on other values. Values that its regions use from outside are constants."""

    def renamed(inner: ir.Operation) -> ir.WalkResult:
        for i, v in enumerate(inner.operands):
            if v not in values and not isinstance(v, ir.BlockArgument) and v.owner.operation.block == op.block:
                values[v] = v.owner.operation.clone().results[0]
            if v in values:
                inner.operands[i] = values[v]
        return ir.WalkResult.ADVANCE

    copy = op.clone()
    with ir.InsertionPoint(copy):
        copy.walk(renamed)
    values.update(zip(op.results, copy.results, strict=True))
