"""Reads and rebuilds linalg on tensors for the graph passes.

An indexing map is a tuple here: result j of the map is loop `map[j]`, or `ZERO` for the constant 0 (a broadcast unit
dimension). Maps with other expressions (strides, windows) are None, and no pass of this level looks through them.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from torch_mlir import ir

from lamina.core.sizes import SizeLike

from .reading import attributes_of, callee_of, name_of, nested, ops_in, reduced_loops, terminator
from .sizes import sizes_of

ZERO = -1
Map = tuple[int, ...]


def tensor_blocks(module: ir.Module) -> Iterator[ir.Block]:
    """Yields every block of tensor ops: function bodies, and those of the groups inside them after lamina-fuse."""
    for function in ops_in(module.body, "func.func"):
        for block in function.regions[0].blocks:
            yield block
            for group in ops_in(block, "graph.group"):
                yield from group.regions[0].blocks


def function_bodies(module: ir.Module) -> list[ir.Block]:
    """Returns the first blocks of the functions that have a body."""
    return [f.regions[0].blocks[0] for f in ops_in(module.body, "func.func") if f.regions[0].blocks]


def is_used(value: ir.Value) -> bool:
    """Returns whether a value has a use."""
    return next(iter(value.uses), None) is not None


def is_unused(op: ir.Operation) -> bool:
    """Returns whether no result of `op` has a use."""
    return not any(map(is_used, op.results))


def replace_op(op: ir.Operation, *values: ir.Value) -> None:
    """Replaces the results of an op by `values`, and erases it."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def has_effect(op: ir.Operation, externs: dict[str, ir.Operation]) -> bool:
    """Returns whether `op` is an external call that must run exactly as written (it advances a random state, or checks).

    Before lamina-extern `graph.effect` stands on the private function, after it on graph.extern.
    """
    if op.name == "graph.extern":
        return "graph.effect" in op.attributes
    if op.name == "func.call":
        callee = externs.get(callee_of(op))
        return callee is None or "graph.effect" in callee.attributes
    return False


def marked_functions(module: ir.Module, mark: str) -> dict[str, ir.Operation]:
    """Returns the private functions with the attribute `mark`, by name. Such a function stands for what its calls compute."""
    functions = [op.operation for op in module.body.operations if mark in op.operation.attributes]
    return {name_of(op): op for op in functions}


def calls_of(module: ir.Module, functions: Container[str]) -> list[ir.Operation]:
    """Returns the calls of functions with these names."""
    return [op for op in nested(module.operation, "func.call") if callee_of(op) in functions]


@dataclass
class LoopGeneric:
    """A parsed linalg.generic on tensors. `args` are the block arguments: inputs, then outs."""

    op: ir.Operation
    ins: list[ir.Value]
    outs: list[ir.Value]
    maps: list[Map | None]
    reduction: tuple[bool, ...]
    block: ir.Block
    args: list[ir.Value]
    yielded: list[ir.Value]
    added: list[tuple[ir.Value, Map, ir.Value]] = field(default_factory=list)  # inputs to add: see `rebuild`

    @property
    def parallel(self) -> bool:
        """Whether no loop is a reduction."""
        return not any(self.reduction)

    @property
    def loops(self) -> Map:
        """The identity map over all loops."""
        return tuple(range(len(self.reduction)))

    @cached_property
    def extents(self) -> dict[int, SizeLike]:
        """Loop -> number of iterations, for the loops that are a plain result of some operand's map."""
        extents: dict[int, SizeLike] = {}
        for value, map_ in zip(self.ins + self.outs, self.maps, strict=True):
            if map_ is not None:
                extents.update((d, n) for d, n in zip(map_, sizes_of(value.type), strict=True) if d != ZERO)
        return extents


@dataclass
class Reader:
    """Parses generics and maps, with a cache. Call `forget` on an op after changing it."""

    _maps: dict[ir.Attribute, Map | None] = field(default_factory=dict)
    _kinds: dict[ir.Attribute, tuple[bool, ...]] = field(default_factory=dict)
    _generics: dict[ir.Operation, LoopGeneric] = field(default_factory=dict)

    def generic(self, op: ir.Operation) -> LoopGeneric:
        """Parses a linalg.generic, or returns the cached result."""
        known = self._generics.get(op)
        if known is None:
            known = self._generics[op] = self._read(op)
        return known

    def forget(self, op: ir.Operation) -> None:
        """Drops an op from the cache."""
        self._generics.pop(op, None)

    def map(self, attribute: ir.Attribute) -> Map | None:
        """Parses an indexing map; None if a result is neither a loop nor 0."""
        if attribute not in self._maps:
            results = [_result(expr) for expr in attribute.value.results]
            self._maps[attribute] = None if None in results else tuple(r for r in results if r is not None)
        return self._maps[attribute]

    def _read(self, op: ir.Operation) -> LoopGeneric:
        attributes, operands = op.attributes, list(op.operands)
        inputs = len(operands) - len(op.results)
        kinds = attributes["iterator_types"]
        if kinds not in self._kinds:
            self._kinds[kinds] = reduced_loops(op)
        block = op.regions[0].blocks[0]
        maps, yielded = [self.map(a) for a in attributes["indexing_maps"]], list(terminator(block).operands)
        ins, outs = operands[:inputs], operands[inputs:]
        return LoopGeneric(op, ins, outs, maps, self._kinds[kinds], block, list(block.arguments), yielded)


def _result(expr: ir.AffineExpr) -> int | None:
    if isinstance(expr, ir.AffineDimExpr):
        return int(expr.position)
    return ZERO if isinstance(expr, ir.AffineConstantExpr) and expr.value == 0 else None


def map_attribute(map_: Map, loops: int, context: ir.Context) -> ir.Attribute:
    """Builds the AffineMapAttr of a map over `loops` loops."""
    zero = ir.AffineExpr.get_constant(0, context)
    results = [zero if d == ZERO else ir.AffineExpr.get_dim(d, context) for d in map_]
    return ir.AffineMapAttr.get(ir.AffineMap.get(loops, 0, results, context))


def covers_loops(maps: Sequence[Map | None], loops: int) -> bool:
    """Returns whether every loop is a plain result of some map, so that linalg can infer its extent."""
    named = {d for map_ in maps if map_ is not None for d in map_}
    return all(d in named for d in range(loops))


def rebuild(
    reader: Reader,
    generic: LoopGeneric,
    inputs: Sequence[int],
    added: Sequence[tuple[ir.Value, Map, ir.Value]] = (),
    results: Sequence[int] | None = None,
    inits: dict[int, ir.Value] | None = None,
    loc: ir.Location | None = None,
) -> ir.Operation:
    """Replaces a generic by one with fewer or more operands; its body moves to the new op.

    inputs   positions of the inputs to keep; the others must be unused in the body
    added    new inputs after them: (tensor, map, block argument appended at the end of the block)
    results  positions of the results to keep (default all); the others and their block arguments must be unused
    inits    result position -> replacement of its outs operand
    loc      the new op's location (default: the old op's)
    """
    old, block, n_in = generic.op, generic.block, len(generic.ins)
    numbers = list(range(len(generic.outs))) if results is None else list(results)
    with old.context:
        if len(numbers) < len(generic.outs):
            _yield_only(block, numbers)
            erase_dead(block)
        _move_outs_last(block, generic.args[n_in:], set(numbers), drop=set(range(n_in)) - set(inputs), n_in=n_in)
        maps, loops = list(old.attributes["indexing_maps"]), len(generic.reduction)
        outs = [(inits or {}).get(i, generic.outs[i]) for i in numbers]
        operands = [generic.ins[i] for i in inputs] + [tensor for tensor, _, _ in added] + outs
        attributes = attributes_of(old)
        attributes["indexing_maps"] = ir.ArrayAttr.get(
            [maps[i] for i in inputs]
            + [map_attribute(m, loops, old.context) for _, m, _ in added]
            + [maps[n_in + i] for i in numbers]
        )
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(operands) - len(outs), len(outs)])
        types, ip = [old.results[i].type for i in numbers], ir.InsertionPoint(old)
        new = ir.Operation.create("linalg.generic", types, operands, attributes, regions=1, loc=loc or old.location, ip=ip)
    block.append_to(new.regions[0])
    for i, after in zip(numbers, new.results, strict=True):
        old.results[i].replace_all_uses_with(after)
    reader.forget(old)
    old.erase()
    return new


def _move_outs_last(block: ir.Block, outs: Sequence[ir.Value], numbers: set[int], drop: set[int], n_in: int) -> None:
    for i, arg in enumerate(outs):
        if i in numbers:
            arg.replace_all_uses_with(block.add_argument(arg.type, arg.location))
    for position in range(n_in + len(outs) - 1, -1, -1):
        if position >= n_in or position in drop:
            block.erase_argument(position)


def _yield_only(block: ir.Block, positions: Sequence[int]) -> None:
    last = terminator(block)
    values = [last.operands[i] for i in positions]
    ir.Operation.create("linalg.yield", operands=values, loc=last.location, ip=ir.InsertionPoint(last))
    last.erase()


def trim(
    reader: Reader, generic: LoopGeneric, inits: dict[int, ir.Value] | None = None, loc: ir.Location | None = None
) -> ir.Operation:
    """Erases dead body ops, drops inputs that the body does not read, and adds those of `generic.added` that it reads.

    inits, loc  as in `rebuild`, which a generic that needs no change is spared
    """
    erase_dead(generic.block)
    n_in, loops = len(generic.ins), len(generic.reduction)
    added = [entry for entry in generic.added if is_used(entry[2])]
    for _, _, arg in reversed(generic.added):
        if not is_used(arg):
            generic.block.erase_argument(arg.arg_number)
    generic.added = []
    read_inputs = [i for i in range(n_in) if is_used(generic.args[i])]
    if not covers_loops([*(generic.maps[i] for i in read_inputs), *generic.maps[n_in:], *(map_ for _, map_, _ in added)], loops):
        read_inputs = list(range(n_in))
    if len(read_inputs) < n_in or added or inits or loc is not None:
        return rebuild(reader, generic, read_inputs, added, inits=inits, loc=loc)
    reader.forget(generic.op)
    return generic.op


def erase_dead(block: ir.Block) -> None:
    """Erases body ops whose results have no uses; checks, which have no results, stay."""
    for op in reversed(ops_in(block)):
        if len(op.results) and is_unused(op):
            op.erase()


def constant(attribute: ir.Attribute, ip: ir.InsertionPoint, loc: ir.Location) -> ir.Value:
    """Creates an arith.constant, scalar or tensor, from a typed attribute."""
    return ir.Operation.create("arith.constant", [attribute.type], attributes={"value": attribute}, loc=loc, ip=ip).results[0]


def copy_ops(ops: Iterable[ir.Operation], values: dict[ir.Value, ir.Value]) -> None:
    """Clones ops at the current insertion point, as C++ code does with an IRMapping.

    values  maps old operands to new ones; gets the results of the clones
    """
    for op in ops:
        copy = op.operation.clone()
        replace_operands(copy.operation, values)
        values.update(zip(op.operation.results, copy.results, strict=True))


def replace_operands(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    """Replaces operands of an op and of the ops in its regions by the values that they map to."""
    for inner in nested(op):
        for i, v in enumerate(inner.operands):
            if v in values:
                inner.operands[i] = values[v]


def read_by(op: ir.Operation) -> list[ir.Value]:
    """Returns the values that an op and the ops in its regions use as operands, with repeats."""
    return [v for inner in nested(op) for v in inner.operands]
