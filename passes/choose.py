"""lamina-choose: matrix products that kernels of ours compute, with the groups that read them."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.schedules import product_cost
from lamina.schedules.contraction import Config
from lamina.schedules.product_cost import Work

from .affine import row_major
from .base import Pass
from .contraction import Contraction, Unfit, contraction_of, outside
from .expressions import Apply, Load
from .locations import fused, model_ops, op_word, where
from .products import Product
from .reading import Untraceable, element_type, producer, shape_of
from .realise import COST, bytes_of, given_strides
from .schedule import bits
from .space import find_space

CHOICE = "graph.choice"
LIBRARY = "library"
_NUMBER = re.compile(r"_\d+$")  # at the end of names: what tells groups apart that compute the same


@dataclass(frozen=True)
class Choose(Pass):
    """Turn calls of matrix products into kernels of ours where `graph.choice` on the call says so.

    Before: @main holds groups and externs. After: every product whose `graph.choice` is a schedule (schedules/contraction.py) is a
    group, together with the group that alone reads it, if any: what follows a product is computed in its registers. A call without
    the attribute stays, and so does one with "library". lamina-tile turns such a group into a program over blocks of the result.

        %0 = "graph.extern"(%x, %w) {callee = "aten.mm.default", graph.choice = "triton{m=128 n=128}", ...}
        %1 = "graph.group"(%0) ({ relu })
     -> %1 = "graph.group"(%x, %w) ({ sum of products ; relu }) {graph.choice = "triton{m=128 n=128}"}

    target    the GPU whose cost model decides on products without graph.choice that a group alone reads ("": they stay)
    schedule  for all products without graph.choice that blocks can compute ("": as the cost model has it)
    """

    name: ClassVar[str] = "lamina-choose"
    target: str = ""
    schedule: str = ""

    def run(self, module: ir.Module) -> None:
        unmeasured: dict[str, Config | None] = {}
        for op in calls(module):
            if CHOICE in op.attributes:
                _take(op)
            elif (config := self._config(op, unmeasured)) is not None:
                with suppress(Unfit):
                    joined(op).attributes[CHOICE] = ir.StringAttr.get(str(config), op.context)

    def _config(self, op: ir.Operation, unmeasured: dict[str, Config | None]) -> Config | None:
        """The schedule of a call without graph.choice. unmeasured: what was decided on others like it."""
        if Product.read(op) is None:
            return None
        if self.schedule:
            return Config.read(self.schedule)
        group = reader(op)
        if not self.target or group is None:
            return None
        types = [v.type for v in (*op.operands, *group.operands, *group.results)]
        alike = " ".join(map(str, (*types, _NUMBER.sub("", ir.StringAttr(group.attributes["sym_name"]).value))))
        if alike not in unmeasured:
            work = work_of(op)
            unmeasured[alike] = None if work is None else product_cost.unmeasured(work, Gpu.named(self.target.partition(":")[2]))
        return unmeasured[alike]


def calls(module: ir.Module) -> list[ir.Operation]:
    """The externs of a module."""
    functions = [f.operation for f in module.body.operations if f.operation.name == "func.func" and f.operation.regions[0].blocks]
    return [o.operation for f in functions for o in f.regions[0].blocks[0].operations if o.operation.name == "graph.extern"]


def _take(op: ir.Operation) -> None:
    choice = ir.StringAttr(op.attributes[CHOICE]).value
    if choice == LIBRARY:
        return
    try:
        Config.read(choice)
    except CompileError as e:
        raise CompileError(e.message, where=where(op.location), remedy=e.remedy) from None
    product = Product.read(op)
    if product is None:
        callee = ir.StringAttr(op.attributes["callee"]).value
        raise CompileError(f"{choice} on {callee}, which is no product of matrices of f16 or bf16", where=where(op.location))
    try:
        joined(op).attributes[CHOICE] = ir.StringAttr.get(choice)
    except Unfit as e:
        raise CompileError(f"{choice} cannot compute this: {e}", where=where(op.location), remedy="drop graph.choice") from None


def reader(op: ir.Operation) -> ir.Operation | None:
    """The group that alone reads the result of a call."""
    users = {use.owner for use in op.results[0].uses}
    if len(users) != 1:
        return None
    user = next(iter(users)).operation
    return user if user.name == "graph.group" else None


def joined(op: ir.Operation) -> ir.Operation:
    """The group of the product that `op` calls, with its reader, or by itself where blocks cannot compute both: these and the call
    are gone. Unfit where they cannot compute the product either, and nothing has changed."""
    group = reader(op)
    if group is not None:
        try:
            return _group(op, group)
        except Unfit:
            pass
    return _group(op, None)


def _group(op: ir.Operation, group: ir.Operation | None) -> ir.Operation:
    """See `joined`."""
    new, _ = _made(op, group)
    for old, now in zip((group or op).results, new.results, strict=True):
        old.replace_all_uses_with(now)
    if group is not None:
        group.erase()
    op.erase()
    return new


def _made(op: ir.Operation, group: ir.Operation | None) -> tuple[ir.Operation, Contraction]:
    """The group that would stand for a call and its reader, beside them, and what it computes. Unfit where blocks cannot."""
    product = Product.read(op)
    assert product is not None
    after = [] if group is None else [v for v in group.operands if v != op.results[0]]
    operands = list(dict.fromkeys([*product.operands, *after]))
    results = [product.result] if group is None else [v.type for v in group.results]
    names = [op] if group is None else [op, group]
    location = fused([o.location for o in names])
    words = dict.fromkeys(op_word(name) for name in model_ops(location))
    with location, ir.InsertionPoint(group or op):
        name = {"sym_name": ir.StringAttr.get("_".join(list(words)[:5]) or "product")}
        new = ir.Operation.create("graph.group", results=results, operands=operands, attributes=name, regions=1)
        block = new.regions[0].blocks.append(*[v.type for v in operands])
        values = dict(zip(operands, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            made = product.emit([values[v] for v in product.operands])
            if group is None:
                ir.Operation.create("graph.yield", operands=[made])
            else:
                values[op.results[0]] = made
                _copy_body(group, values)
    try:
        return new, product_in(new)
    except (Unfit, Untraceable) as e:
        new.erase()
        raise Unfit(str(e)) from None


def _copy_body(group: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    """The ops of a group, with its yield, on other values for its operands."""
    inner = group.regions[0].blocks[0]
    here = {a: values[v] for a, v in zip(inner.arguments, group.operands, strict=True)}

    def renamed(op: ir.Operation) -> ir.WalkResult:
        for i, v in enumerate(op.operands):
            if v in here:
                op.operands[i] = here[v]
        return ir.WalkResult.ADVANCE

    for o in inner.operations:
        copy = o.operation.clone()
        copy.walk(renamed)
        here.update(zip(o.operation.results, copy.results, strict=True))


def work_of(op: ir.Operation) -> Work | None:
    """What a kernel of the product that `op` calls would do, with its reader where blocks can compute both; None where they cannot
    compute the product."""
    for group in (reader(op), None):
        with suppress(Unfit), op.context:
            new, product = _made(op, group)
            work = _work(product, group is not None)
            new.erase()
            return work
    return None


def _work(product: Contraction, follows: bool) -> Work:
    m, n, k = product.sizes
    reads: dict[ir.Value, int] = {}
    ops = 0
    for e in dict.fromkeys(x for r in product.results for x in outside(r.expr, product.product)):
        if isinstance(e, Apply):
            ops += COST.get(e.op, 1)
        elif isinstance(e, Load):
            reads[e.tensor] = bytes_of(e.tensor)
    writes = sum(product.batches * m * n * bits(r.dtype) // 8 for r in product.results)
    return Work(product.batches, m, n, k, ops, sum(reads.values()), writes, follows)


def strides_of(v: ir.Value) -> tuple[int, ...]:
    """Of a value of @main, in elements, as far as they are known before memory is planned."""
    block = v.owner if isinstance(v, ir.BlockArgument) else v.owner.operation.block
    return _strides(v, given_strides(block))


def _strides(v: ir.Value, given: dict[ir.Value, tuple[int, ...]]) -> tuple[int, ...]:
    op = producer(v)
    if v in given:
        return given[v]
    if op is not None and op.name == "graph.extern":
        return tuple(ir.DenseI64ArrayAttr(op.attributes["strides"][ir.OpResult(v).result_number]))
    if op is not None and op.name == "linalg.transpose":
        source = _strides(op.operands[0], given)
        return tuple(source[d] for d in ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    return row_major(shape_of(v))


def product_in(group: ir.Operation) -> Contraction:
    """What a group with a product computes. Unfit or Untraceable where blocks cannot."""
    given = given_strides(group.operation.block)
    return product_on(group, [_strides(v, given) for v in group.operands], [row_major(shape_of(v)) for v in group.results])


def product_on(group: ir.Operation, ins: Sequence[tuple[int, ...]], outs: Sequence[tuple[int, ...]]) -> Contraction:
    """The same on operands and results with these strides."""
    block = group.regions[0].blocks[0]
    space = find_space(block, dict(zip(block.arguments, ins, strict=True)), list(outs), divide=True)
    return contraction_of(space, {a: element_type(a) for a in block.arguments})
