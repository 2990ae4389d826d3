"""lamina-dce: dead code elimination on tensor ops, and on results, operands and inits of generics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from lamina.core.walks import reachable
from lamina.dialects.graph import CALLS

from ..infra.base import Pass
from ..ir.generics import empty
from ..ir.reading import SCAN, SORT, ops_in, producer
from ..ir.rewriting import (
    LoopGeneric,
    Reader,
    covers_loops,
    erase_dead,
    has_effect,
    is_unused,
    is_used,
    marked_functions,
    rebuild,
    tensor_blocks,
    trim,
)

_REMOVABLE = ("linalg.", "tensor.", "arith.", "math.", "complex.", SCAN, SORT, "graph.size")
_CALLS = ("func.call", *CALLS)


@dataclass(frozen=True)
class Dce(Pass):
    """Remove what no result needs: unused ops; results, operands and initial values of generics; private functions.

    torch-mlir computes amax together with argmax. When only the maximum is used

        %m:2 = linalg.generic {...} ins(%x) outs(%low, %zero) { ... linalg.yield %max, %index } -> (tensor<3xf32>, tensor<3xi64>)

    becomes

        %m = linalg.generic {...} ins(%x) outs(%lowest) { ... linalg.yield %max } -> tensor<3xf32>

    External calls with `graph.effect` (they advance a random state) and generics that check indices (cf.assert) stay.
    Upstream's canonicalize and symbol-dce do not handle these three: results of a generic, its inputs that the body does not
    read, and calls of external functions.
    """

    name: ClassVar[str] = "lamina-dce"

    def run(self, module: ir.Module) -> None:
        """Erases dead ops bottom-up, trims generics, then runs symbol-dce."""
        externs, reader = marked_functions(module, "graph.callee"), Reader()
        for block in list(tensor_blocks(module)):
            for op in reversed(ops_in(block)):
                if is_unused(op) and _removable(op, externs):
                    op.erase()
                elif op.name == "linalg.generic":
                    _trim(reader, op)
        if len(module.body.operations) > 1:
            PassManager.parse("builtin.module(symbol-dce)", module.context).run(module.operation)


def _removable(op: ir.Operation, externs: dict[str, ir.Operation]) -> bool:
    if op.name == "linalg.generic":
        return not _checks(op)
    if op.name in _CALLS:
        return not has_effect(op, externs)
    return op.name == "graph.group" or op.name.startswith(_REMOVABLE)


def _checks(op: ir.Operation) -> bool:
    return any(inner.operation.name == "cf.assert" for inner in op.regions[0].blocks[0].operations)


def _trim(reader: Reader, op: ir.Operation) -> None:
    """Drops unused results, body ops, inputs and inits of a generic."""
    generic = reader.generic(op)
    results = list(range(len(generic.outs)))
    if len(results) > 1:
        results = _needed_results(generic)
        if not covers_loops(
            generic.maps[: len(generic.ins)] + [generic.maps[len(generic.ins) + i] for i in results], len(generic.reduction)
        ):
            results = list(range(len(generic.outs)))
    if len(results) < len(generic.outs):
        op = rebuild(reader, generic, range(len(generic.ins)), results=results)
        generic = reader.generic(op)
    erase_dead(generic.block)
    n_in, inits = len(generic.ins), {}
    for i, (arg, value) in enumerate(zip(generic.args[n_in:], generic.outs, strict=True)):
        maker = producer(value)
        if not is_used(arg) and (maker is None or maker.name != "tensor.empty"):
            with op.location, ir.InsertionPoint(op):
                inits[i] = empty(value.type)
    trim(reader, generic, inits)


def _needed_results(generic: LoopGeneric) -> list[int]:
    """Returns the positions of used results, and of results whose accumulator a used one reads."""
    accumulators = {arg: i for i, arg in enumerate(generic.args[len(generic.ins) :])}
    wanted = [i for i, result in enumerate(generic.op.results) if is_used(result)]
    if len(wanted) == len(accumulators) or _checks(generic.op):
        return list(accumulators.values())

    def read(value: ir.Value) -> Sequence[ir.Value]:
        """Returns the values that a value of the body is computed from; for an accumulator, its next value."""
        if value in accumulators:
            return [generic.yielded[accumulators[value]]]
        op = producer(value)
        return op.operands if op is not None and op.block == generic.block else ()

    needed = reachable((generic.yielded[i] for i in wanted), read)
    return sorted({*wanted, *(accumulators[value] for value in needed if value in accumulators)})
