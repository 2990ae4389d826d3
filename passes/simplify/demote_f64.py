"""lamina-demote-f64: demotes f64 that the model never asked for to f32.

A union-find groups the f64 values that flow into each other; each group is demoted as a whole or stays.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from torch_mlir import ir

from ..infra.base import Pass
from ..ir.reading import attributes_of, element_of, producer
from ..ir.rewriting import calls_of, marked_functions, replace_op, tensor_blocks
from ..ir.sizes import sizes_of, tensor_type
from .evaluate import array_of, attribute_of

_FREE = ("arith.constant", "tensor.empty")  # cloned in f32 for each use that needs it
_FROM_INT = ("arith.sitofp", "arith.uitofp")
_TO_INT = ("arith.fptosi", "arith.fptoui", "arith.cmpf", "math.isnan", "math.isinf", "math.isfinite")
_KNOWN = ("arith.", "math.", "linalg.", "tensor.")
ASKED = "graph.f64"  # on a private function: its calls return their operand, which stays f64
_TINY, _HUGE = float(np.finfo(np.float32).smallest_subnormal), float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class DemoteF64(Pass):
    """Demote f64 that the model never asked for to f32.

    torch-mlir computes variances, some means and the scalars of models in f64:

        %2 = arith.extf %in : f32 to f64
        %3 = arith.mulf %2, %cst : f64          (%cst = 1.0e-01 : f64)
        %4 = arith.truncf %3 : f64 to f32

    becomes `arith.mulf %in, %cst : f32`, the constant rounded once. The f64 values that flow into each other are demoted
    together, across generics and tensors, or not at all: they stay f64 where one is an argument or a result of the
    function or of an external call, where an integer comes in and an integer or a comparison goes out (floor division
    has to stay exact), and where a constant is out of f32's range (1.0e+300).

    For f64 that the model itself creates, the importer inserts a call, which pins it and is removed here:

        %1 = call @f64_0(%0) : (tensor<8xf64>) -> tensor<8xf64>
        func.func private @f64_0(tensor<8xf64>) -> tensor<8xf64> attributes {graph.f64}
    """

    name: ClassVar[str] = "lamina-demote-f64"

    def run(self, module: ir.Module) -> None:
        """Finds the groups of f64 values, demotes those that may be f32 and removes the pinning calls."""
        with module.context, ir.Location.unknown():
            flow = _Flow()
            for block in tensor_blocks(module):
                flow.read(block)
            if flow.values or flow.rounded:
                _Rewrite(flow).run()
            remove_calls(module)


def remove_calls(module: ir.Module) -> None:
    """Replaces the calls of functions marked ASKED by their operands, and erases the functions."""
    asked = marked_functions(module, ASKED)
    for call in calls_of(module, asked):
        replace_op(call, call.operands[0])
    for function in asked.values():
        function.erase()


@dataclass
class _Flow:
    """Groups f64 values that flow into each other (a union-find), and decides which groups must stay f64.

    parent    the value that each value was joined to; itself for the representative of a group
    pinned    values whose groups stay f64
    from_int  values that are converted from integers
    to_int    values that are converted to integers
    values    all values, in the order in which they were found
    ops       ops with values of a group, each with its representative
    free      operands of such ops that may have any type: the op, the operand's number, the representative
    rounded   conversions to f32 of values that belong to no group
    """

    parent: dict[ir.Value, ir.Value] = field(default_factory=dict)
    pinned: set[ir.Value] = field(default_factory=set)
    from_int: list[ir.Value] = field(default_factory=list)
    to_int: list[ir.Value] = field(default_factory=list)
    values: list[ir.Value] = field(default_factory=list)
    ops: list[tuple[ir.Operation, ir.Value]] = field(default_factory=list)
    free: list[tuple[ir.Operation, int, ir.Value]] = field(default_factory=list)
    rounded: list[ir.Operation] = field(default_factory=list)
    _f64: dict[ir.Type, bool] = field(default_factory=dict)

    def is_f64(self, value: ir.Value) -> bool:
        """Returns whether a value is f64, or a tensor of it."""
        type_ = value.type
        known = self._f64.get(type_)
        if known is None:
            known = self._f64[type_] = isinstance(element_of(type_), ir.F64Type)
        return known

    def find(self, value: ir.Value) -> ir.Value:
        """Returns the representative of a value's group."""
        if value not in self.parent:
            self.parent[value] = value
            self.values.append(value)
        root = value
        while self.parent[root] != root:
            root = self.parent[root]
        while self.parent[value] != root:
            self.parent[value], value = root, self.parent[value]
        return root

    def join(self, values: Iterable[ir.Value]) -> ir.Value | None:
        """Merges values into one group and returns its root."""
        first: ir.Value | None = None
        for value in values:
            root = self.find(value)
            if first is None:
                first = root
            elif root != first:
                self.parent[root] = first
        return first

    def read(self, block: ir.Block) -> None:
        """Groups the f64 values of a block of tensor ops; those of its arguments stay."""
        self.pinned.update(self.find(arg) for arg in block.arguments if self.is_f64(arg))
        for op in block.operations:
            self.visit(op.operation)

    def visit(self, op: ir.Operation) -> None:
        """Groups the f64 operands and results of an op, or marks their groups as staying."""
        if op.name in _FREE:
            return
        inner_ops = [o.operation for region in op.regions for block in region.blocks for o in block.operations]
        if op.name == "linalg.generic":
            self._generic(op, inner_ops)
        else:
            self._other(op, inner_ops)
        if op.name.startswith("linalg."):
            for inner in inner_ops:
                if inner.name != "linalg.yield":
                    self.visit(inner)

    def _other(self, op: ir.Operation, inner_ops: list[ir.Operation]) -> None:
        """Groups the f64 operands and results of an op that is no generic, whose groups stay f64 where the op is not known."""
        name, is_linalg = op.name, op.name.startswith("linalg.")
        operands = [(i, v) for i, v in enumerate(op.operands) if self.is_f64(v)]
        results = [r for r in op.results if self.is_f64(r)]
        if not operands and not results:
            return
        free = [(i, v) for i, v in operands if _is_free(v)]
        values = [v for i, v in operands if not _is_free(v)] + results
        if is_linalg and inner_ops:  # a named op's region follows its operands
            values += [a for a in op.regions[0].blocks[0].arguments if self.is_f64(a)]
        self._hold(op, values, free)
        if not values:
            if name == "arith.truncf":
                self.rounded.append(op)
        elif not name.startswith(_KNOWN) or (inner_ops and not is_linalg):
            self.pinned.add(self.find(values[0]))
        elif name in _FROM_INT and _bits(op.operands[0].type) > 1:
            self.from_int.append(values[0])
        elif name in _TO_INT:
            self.to_int.append(values[0])

    def _generic(self, op: ir.Operation, nested: list[ir.Operation]) -> None:
        block, operands = op.regions[0].blocks[0], list(op.operands)
        n_in, last = len(operands) - len(op.results), nested[-1]
        for i, (arg, tensor) in enumerate(zip(block.arguments, operands, strict=True)):
            if not self.is_f64(arg):
                continue
            ends = [arg] if i < n_in else [arg, op.results[i - n_in]]
            free = []
            if i >= n_in and not _is_free(last.operands[i - n_in]):
                ends.append(last.operands[i - n_in])
            elif i >= n_in:
                self.free.append((last, i - n_in, arg))
            if _is_free(tensor):
                free.append((i, tensor))
            else:
                ends.append(tensor)
            self._hold(op, ends, free)

    def _hold(self, op: ir.Operation, values: list[ir.Value], free: list[tuple[int, ir.Value]]) -> None:
        """Joins the values of an op, and notes its operands that may have any type: by number."""
        root = self.join(values)
        if root is None:
            return
        self.ops.append((op, root))
        for i, value in free:
            self.free.append((op, i, root))
            if not _fits(value):
                self.pinned.add(root)

    def staying(self) -> set[ir.Value]:
        """Returns the roots of the groups that stay f64."""
        exact = {self.find(v) for v in self.from_int} & {self.find(v) for v in self.to_int}
        return {self.find(v) for v in self.pinned} | exact


def _is_free(value: ir.Value) -> bool:
    maker = producer(value)
    return maker is not None and maker.name in _FREE


def _fits(value: ir.Value) -> bool:
    """Returns whether a constant's values are in f32's range."""
    maker = producer(value)
    if maker is None or maker.name != "arith.constant":
        return True
    x = array_of(maker.attributes["value"])
    if x is None:
        return False
    size = np.abs(x[np.isfinite(x) & (x != 0)])
    return bool(np.all((size >= _TINY) & (size <= _HUGE)))


def _bits(type_: ir.Type) -> int:
    return type_.width if isinstance(type_, ir.IntegerType) else 64


class _Rewrite:
    """Changes the types of the demoted groups in place, and gives their ops f32 constants."""

    def __init__(self, flow: _Flow) -> None:
        self.flow, self.staying = flow, flow.staying()
        self.f32 = ir.F32Type.get()
        self.made: dict[ir.Value, ir.Value] = {}

    def goes(self, value: ir.Value) -> bool:
        """Returns whether a value becomes f32."""
        return self.flow.find(value) not in self.staying

    def run(self) -> None:
        """Changes types, casts and constants."""
        flow = self.flow
        for op, i, root in flow.free:
            if self.goes(root):
                op.operands[i] = self.single(op.operands[i])
        for value in flow.values:
            if self.goes(value):
                value.set_type(self.demoted(value.type))
        for op, root in flow.ops:
            cast = op.name in ("arith.extf", "arith.truncf") and self.goes(root)
            if cast and op.operands[0].type == op.results[0].type:
                replace_op(op, op.operands[0])
        for op in flow.rounded:
            if isinstance(op.results[0].type, ir.F32Type) and _fits(op.operands[0]):
                replace_op(op, self.single(op.operands[0]))

    def demoted(self, type_: ir.Type) -> ir.Type:
        """Returns an f64 type with f32 in its place."""
        return tensor_type(sizes_of(type_), self.f32) if isinstance(type_, ir.RankedTensorType) else self.f32

    def single(self, value: ir.Value) -> ir.Value:
        """Returns the f32 copy of a constant or tensor.empty, created once, in front of it."""
        if value not in self.made:
            op, type_ = producer(value), self.demoted(value.type)
            assert op is not None
            attributes = attributes_of(op)
            if op.name == "arith.constant":
                x = array_of(attributes["value"])
                assert x is not None
                if isinstance(type_, ir.F32Type):
                    attributes["value"] = ir.FloatAttr.get(type_, float(np.float32(x)))
                else:
                    attributes["value"] = attribute_of(x.astype(np.float32), self.f32, tuple(type_.shape))
            new = ir.Operation.create(op.name, [type_], list(op.operands), attributes, loc=op.location, ip=ir.InsertionPoint(op))
            self.made[value] = new.results[0]
        return self.made[value]
