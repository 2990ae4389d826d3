"""Lowers programs, loops, branches, and reductions over teams of threads."""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import memref, scf

from ...ir.reading import combining_op, number_of, ops_in, terminator
from .collective.reductions import reduce_in_thread
from .shared_loops import ORDERED, SHARED, ordered_loop, shared_loop
from .threads import Shape, emit_if, emit_if_else
from .values import Join, Spread, binary_op, elements, has_blocks, vector_of

if TYPE_CHECKING:
    from .kernel import ThreadKernel

TOGETHER = ("vector.reduction", "tile.combine", "tile.exp_total", "tile.recurrence", "tile.scan", "tile.sort", "tile.transpose")
"""Ops in which threads exchange values: all of them have to arrive."""


def emit_program(k: "ThreadKernel") -> None:
    """Emits the ops of a program. Where a call decides how long rows are, most accesses of a thread may lie past the end of a short
    row: the ops then come once for all accesses, and once for each half of them, down to a single one. A row's length decides
    which run, so that all threads of a program take the same branch."""
    ops = ops_in(k.source)
    first = next((i for i, op in enumerate(ops) if has_blocks(op)), len(ops))
    k.ops(ops[:first])
    count = _length(k, ops)
    if count is None:
        k.ops(ops[first:])
    else:
        _by_length(k, ops[first:], count, 1)


def _by_length(k: "ThreadKernel", ops: list[ir.Operation], count: ir.Value, chunks: int) -> tuple[()]:
    """Emits ops for `chunks` accesses of a thread, where these reach the end of a row, else for twice as many."""
    if chunks >= k.shape.chunks:
        _emit(k, ops, k.shape.chunks, chunks // 2)
    else:
        short = k.index_ops.below(count, chunks * k.shape.threads * k.shape.vec + 1)
        halves = partial(_emit, k, ops, chunks, chunks // 2), partial(_by_length, k, ops, count, 2 * chunks)
        emit_if_else(short, (), *halves)
    return ()


def _emit(k: "ThreadKernel", ops: list[ir.Operation], chunks: int, whole: int) -> tuple[()]:
    """Emits ops for the first accesses of a thread, of which `whole` lie in the row."""
    with k.narrowed(chunks, whole):
        k.ops(ops)
    return ()


def _length(k: "ThreadKernel", ops: list[ir.Operation]) -> ir.Value | None:
    """Returns how many lanes of a program lie in its row, if the call decides that; None where programs have no parts of rows, or
    threads exchange values."""
    shape = k.shape
    if shape.chunks == 1 or shape.cluster > 1 or shape.teams > 1 or any(list(op.regions) or op.name in TOGETHER for op in ops):
        return None
    masks = [op for op in ops if op.name == "vector.create_mask" and ir.VectorType(op.results[0].type).shape[0] == shape.lanes]
    bounds = {op.operands[0] for op in masks}
    if len(bounds) != 1:
        return None
    (bound,) = bounds
    within = number_of(bound) is None and bound in k.values and _is_of_row(bound)
    return k.uniform(bound) if within else None


def _is_of_row(bound: ir.Value) -> bool:
    """Returns whether a number of lanes is what is left of one of several rows: it depends on which part of a row a program has."""
    found, stack = False, [bound]
    while stack:
        value = stack.pop()
        if isinstance(value, ir.BlockArgument) or not value.owner.name.startswith("arith."):
            continue
        op = value.owner
        found = found or (op.name == "arith.remui" and number_of(op.operands[1]) is None)
        stack.extend(op.operands)
    return found


def loop(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers scf.for; teams of threads share the iterations of one marked tile.shared, and one marked tile.ordered has the loads of
    several iterations in flight."""
    low, high, step, *inits = op.operands
    flat = k.flatten(inits)
    k.exchange.meet()
    k.exchange.depth += 1
    if SHARED in op.attributes and k.team is not None:
        outside, k.memory.active = k.memory.active, None  # every team stores what it alone has computed
        out = shared_loop(k, op, flat)
        k.memory.active = outside
    elif ORDERED in op.attributes:
        out = ordered_loop(k, op, flat)
    else:
        loop = scf.ForOp(*map(k.uniform, (low, high, step)), flat)
        body = op.regions[0].blocks[0]
        with ir.InsertionPoint(loop.body):
            k.values[body.arguments[0]] = loop.induction_variable
            k.bind(list(body.arguments)[1:], list(loop.inner_iter_args))
            k.block(body)
            scf.YieldOp(k.flatten(list(terminator(body).operands)))
        out = list(loop.results)
    k.exchange.depth -= 1
    k.bind(list(op.results), out)


def combine(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.combine: joins the teams' partial results by shuffles among the teams of a warp, then in shared memory, which
    every thread reads."""
    name = ir.StringAttr(op.attributes["combine"]).value
    join = binary_op(name)
    if not has_blocks(op):
        values = [k.uniform(op.operands[0])]
    elif _is_reduced(op, name):
        values = [reduce_in_thread(k.spread(op.operands[0]), join)]
    else:
        values = [e for p in k.spread(op.operands[0]).parts for e in elements(p)]
    groups = k.shape.teams
    if (together_in_warp := _teams_of_warp(k.shape)) > 1:
        groups //= together_in_warp
        values = [k.exchange.among_lanes(e, join, k.shape.warp, k.shape.threads) for e in values]
    totals = values if groups == 1 else _among_groups(k, values, groups, join)
    if not has_blocks(op):
        k.values[op.results[0]] = totals[0]
        return
    n = k.shape.vec
    k.values[op.results[0]] = Spread(tuple(vector_of(totals[i : i + n]) for i in range(0, len(totals), n)))


def _is_reduced(op: ir.Operation, name: str) -> bool:
    """Returns whether nothing but the block's reduction by the same op reads a result: a thread may then join its own elements
    before those of teams are joined."""
    return all(
        (user := use.owner).name == "vector.reduction" and len(user.operands) == 1 and combining_op(user) == name
        for use in op.results[0].uses
    )


def _teams_of_warp(shape: Shape) -> int:
    """Returns how many teams a warp has, where all warps have the same number of whole ones; otherwise 1."""
    inside = shape.warp // shape.threads if shape.warp % shape.threads == 0 else 1
    return inside if shape.teams % inside == 0 else 1


def _among_groups(k: "ThreadKernel", values: list[ir.Value], groups: int, join: Join) -> list[ir.Value]:
    """Joins values over groups of threads in order, in every thread. A group is a team, or the teams of a warp, which all know
    their common value."""
    slots, room, again = k.exchange.team_slots(groups * k.shape.threads, len(values), values[0].type)
    totals = []
    for first in range(0, len(values), room):
        totals += _through(k, slots, values[first : first + room], groups, join, again or first > 0)
    return totals


def _through(k: "ThreadKernel", slots: ir.Value, values: list[ir.Value], groups: int, join: Join, again: bool) -> list[ir.Value]:
    """Joins values over groups of threads through a buffer; `again`: which was read before."""
    shape, index_ops = k.shape, k.index_ops
    width = shape.cta // groups
    lane, group = index_ops.modulo(k.thread, shape.threads), index_ops.over(k.thread, width)
    each = groups * shape.threads

    def share() -> None:
        """Stores this group's values where the others read them."""
        place = index_ops.add(index_ops.times(group, shape.threads), lane)

        def store() -> None:
            """Stores the values of one thread."""
            for i, e in enumerate(values):
                memref.store(e, slots, [index_ops.add(place, i * each)])

        if width == shape.threads:
            store()
        else:
            emit_if(index_ops.below(index_ops.modulo(k.thread, width), shape.threads), store)

    k.exchange.share(share, again)
    totals = []
    for i in range(len(values)):
        total, *rest = (memref.load(slots, [index_ops.add(lane, i * each + g * shape.threads)]) for g in range(groups))
        for part in rest:
            total = join(total, part)
        totals.append(total)
    return totals


def branch(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers scf.if on a scalar condition."""

    def make(block: ir.Block) -> list[ir.Value]:
        """Emits a branch and returns its results."""
        k.block(block)
        return k.flatten(list(terminator(block).operands))

    types = [t for r in op.results for t in k.types_of(r.type)]
    makes = [partial(make, region.blocks[0]) for region in op.regions if region.blocks]
    k.bind(list(op.results), emit_if_else(k.uniform(op.operands[0]), types, *makes))


def choose(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers scf.index_switch, a choice among buffers; the result is aligned as all of them are."""
    which = k.uniform(op.operands[0])
    types, cases = [r.type for r in op.results], {"cases": op.attributes["cases"]}
    switch = ir.Operation.create(op.name, results=types, operands=[which], attributes=cases, regions=len(op.regions))
    for old, new in zip(op.regions, switch.regions, strict=True):
        chosen = [k.uniform(v) for v in terminator(old.blocks[0]).operands]
        with ir.InsertionPoint(new.blocks.append()):
            ir.Operation.create("scf.yield", operands=chosen)
        for result, buffer in zip(switch.results, chosen, strict=True):
            k.aligned[result] = math.gcd(k.aligned.get(result, 0), k.aligned[buffer])
    k.values.update(zip(op.results, switch.results, strict=True))


def end(k: "ThreadKernel", op: ir.Operation) -> None:
    """Does nothing for a terminator: the op that it ends writes its own."""


HANDLERS: dict[str, Callable[["ThreadKernel", ir.Operation], None]] = {
    "scf.for": loop, "scf.if": branch, "scf.index_switch": choose, "scf.yield": end, "func.return": end,
}  # fmt: skip
