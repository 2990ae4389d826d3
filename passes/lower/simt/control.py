"""Lowers loops, branches, and reductions over teams of threads."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import memref, scf

from .divisors import constant
from .threads import Shape, barrier
from .values import Spread, elements, has_blocks, together, vector_type

if TYPE_CHECKING:
    from .kernel import ThreadKernel

SHARED = "tile.shared"  # on a loop: its iterations are independent, and dealt out to teams of threads in turn

Join = Callable[[ir.Value, ir.Value], ir.Value]


def loop(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers scf.for. Of one marked tile.shared, each team runs every `teams`-th iteration, guarded where these do not divide
    them all."""
    low, high, step, *inits = op.operands
    bounds = [k.uniform(v) for v in (low, high, step)]
    shared = SHARED in op.attributes and k.team is not None
    if shared:
        bounds = [k.at.number(0), _turns(k, bounds[1]), k.at.number(1)]
    flat = _flatten(k, inits)
    k.exchange.meet()
    loop = scf.ForOp(*bounds, flat)
    body = op.regions[0].blocks[0]
    iteration = loop.induction_variable
    k.depth += 1
    outside = k.memory.active
    if shared:  # every team stores what it alone has computed
        k.memory.active = None
    with ir.InsertionPoint(loop.body):
        if shared:
            iteration = k.at.add(k.at.times(iteration, k.shape.teams), k.team)
        k.held[body.arguments[0]] = iteration
        _hold(k, list(body.arguments)[1:], list(loop.inner_iter_args))
        rows = constant(high)
        if shared and (rows is None or rows % k.shape.teams):
            out = _guarded(k, k.at.below(iteration, k.uniform(high)), body, list(loop.inner_iter_args))
        else:
            k.block(body)
            out = _results(k, body)
        scf.YieldOp(out)
    k.depth -= 1
    k.memory.active = outside
    _hold(k, list(op.results), list(loop.results))


def _turns(k: "ThreadKernel", rows: ir.Value) -> ir.Value:
    """Returns the iterations of each team when all teams together have `rows`."""
    teams = k.shape.teams
    return k.at.over(k.at.add(rows, teams - 1), teams)


def _results(k: "ThreadKernel", body: ir.Block) -> list[ir.Value]:
    return _flatten(k, list(list(body.operations)[-1].operands))


def _guarded(k: "ThreadKernel", condition: ir.Value, body: ir.Block, otherwise: list[ir.Value]) -> list[ir.Value]:
    """Emits the body in a branch where the condition holds, and returns its results; else `otherwise`."""
    branch = ir.Operation.create("scf.if", results=[v.type for v in otherwise], operands=[condition], regions=2)
    with ir.InsertionPoint(branch.regions[0].blocks.append()):
        k.block(body)
        ir.Operation.create("scf.yield", operands=_results(k, body))
    if otherwise:
        with ir.InsertionPoint(branch.regions[1].blocks.append()):
            ir.Operation.create("scf.yield", operands=otherwise)
    return list(branch.results)


def combine(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.combine: joins the teams' partial results by shuffles among the teams of a warp, then in shared memory, which
    every thread reads."""
    name = ir.StringAttr(op.attributes["combine"]).value
    mine = k.operand(op.operands[0]).parts if has_blocks(op) else (k.uniform(op.operands[0]),)
    found = [e for p in mine for e in (elements(p) if has_blocks(op) else [p])]

    def join(a: ir.Value, b: ir.Value) -> ir.Value:
        return ir.Operation.create(name, results=[a.type], operands=[a, b]).results[0]

    groups = k.shape.teams
    if (together_in_warp := _teams_of_warp(k.shape)) > 1:
        groups //= together_in_warp
        found = [_among_teams(k, e, join) for e in found]
    totals = found if groups == 1 else _among_groups(k, found, groups, join)
    if not has_blocks(op):
        k.held[op.results[0]] = totals[0]
        return
    n = k.shape.vec
    k.held[op.results[0]] = Spread(tuple(together(totals[i : i + n]) for i in range(0, len(totals), n)))


def _teams_of_warp(shape: Shape) -> int:
    """Returns how many teams a warp has, where all warps have the same number of whole ones; otherwise 1."""
    inside = shape.warp // shape.threads if shape.warp % shape.threads == 0 else 1
    return inside if shape.teams % inside == 0 else 1


def _among_teams(k: "ThreadKernel", value: ir.Value, join: Join) -> ir.Value:
    """Joins a value over the teams of a warp by butterfly shuffles: every lane gets the total of its place in a team."""
    step = k.shape.warp // 2
    while step >= k.shape.threads:
        value = join(value, k.exchange.from_lane(value, step))
        step //= 2
    return value


def _among_groups(k: "ThreadKernel", found: list[ir.Value], groups: int, join: Join) -> list[ir.Value]:
    """Joins values over groups of threads in order, in every thread. A group is a team, or the teams of a warp, which all know
    their common value."""
    shape, at = k.shape, k.at
    width = shape.cta // groups
    lane, group = at.modulo(k.thread, shape.threads), at.over(k.thread, width)
    each = groups * shape.threads
    slot = k.shared(each * len(found), found[0].type)
    if k.depth:
        barrier()
    place = at.add(at.times(group, shape.threads), lane)

    def store() -> None:
        for i, e in enumerate(found):
            memref.store(e, slot, [at.add(place, i * each)])

    if width == shape.threads:
        store()
    else:
        k.exchange.where(at.below(at.modulo(k.thread, width), shape.threads), store)
    barrier()
    totals = []
    for i in range(len(found)):
        total, *rest = (memref.load(slot, [at.add(lane, i * each + g * shape.threads)]) for g in range(groups))
        for part in rest:
            total = join(total, part)
        totals.append(total)
    return totals


def branch(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers scf.if on a scalar condition."""
    condition = k.uniform(op.operands[0])
    yields = [list(list(r.blocks[0].operations)[-1].operands) if r.blocks else [] for r in op.regions]
    types = [t for r in op.results for t in _types(k, r.type)]
    branch = ir.Operation.create("scf.if", results=types, operands=[condition], regions=2)
    for old, new, out in zip(op.regions, branch.regions, yields, strict=True):
        if old.blocks:
            with ir.InsertionPoint(new.blocks.append()):
                k.block(old.blocks[0])
                ir.Operation.create("scf.yield", operands=_flatten(k, out))
    _hold(k, list(op.results), list(branch.results))


def choose(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers scf.index_switch, a choice among buffers; the result is aligned as all of them are."""
    which = k.uniform(op.operands[0])
    types, cases = [r.type for r in op.results], {"cases": op.attributes["cases"]}
    choice = ir.Operation.create(op.name, results=types, operands=[which], attributes=cases, regions=len(op.regions))
    for old, new in zip(op.regions, choice.regions, strict=True):
        chosen = [k.uniform(v) for v in list(old.blocks[0].operations)[-1].operands]
        with ir.InsertionPoint(new.blocks.append()):
            ir.Operation.create("scf.yield", operands=chosen)
        for result, buffer in zip(choice.results, chosen, strict=True):
            k.aligned[result] = math.gcd(k.aligned.get(result, 0), k.aligned[buffer])
    k.held.update(zip(op.results, choice.results, strict=True))


def end(k: "ThreadKernel", op: ir.Operation) -> None:
    """Does nothing for a terminator: the op that it ends writes its own."""


def _types(k: "ThreadKernel", type_: ir.Type) -> list[ir.Type]:
    if not isinstance(type_, ir.VectorType):
        return [type_]
    parts, vec = k.parts_of(type_)
    return [vector_type(vec, type_.element_type)] * parts


def _flatten(k: "ThreadKernel", values: list[ir.Value]) -> list[ir.Value]:
    """Returns the parts of all values in one list."""
    flat: list[ir.Value] = []
    for v in values:
        flat += k.spread(v).parts if isinstance(v.type, ir.VectorType) else [k.uniform(v)]
    return flat


def _hold(k: "ThreadKernel", olds: list[ir.Value], news: list[ir.Value]) -> None:
    """Records new values, flattened as by `_flatten`, as those of `olds`."""
    for old in olds:
        block = isinstance(old.type, ir.VectorType)
        n = k.parts_of(old.type)[0] if block else 1
        mine, news = news[:n], news[n:]
        k.held[old] = Spread(tuple(mine)) if block else mine[0]


HANDLERS: dict[str, Callable[["ThreadKernel", ir.Operation], None]] = {
    "scf.for": loop, "scf.if": branch, "scf.index_switch": choose, "scf.yield": end, "func.return": end, "tile.combine": combine,
}  # fmt: skip
