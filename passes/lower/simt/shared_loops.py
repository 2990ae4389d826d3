"""Lowers loops whose iterations teams of threads share, or run in order with the loads of several first."""

from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from lamina.core.sizes import SizeLike, at_least, at_most, upper_end

from ...ir.reading import element_of, number_of, ops_in
from ...ir.sizes import kernel_size
from .threads import emit_if_else
from .values import has_blocks

if TYPE_CHECKING:
    from .kernel import ThreadKernel

SHARED = "tile.shared"  # on a loop: its iterations are independent, and dealt out to teams of threads in turn
ORDERED = "tile.ordered"  # on a loop: each iteration takes what the one before it carries; none loads what another stores
STORES = ("vector.transfer_write", "memref.store", "tile.scatter")
IN_FLIGHT = 64  # bytes of loads in flight per thread from which on more hide no latency, also where few warps are resident
COUNTED_IN_FLIGHT = 128  # the same where the number of iterations is known at run time: LLVM unrolls other loops further
MOST_TURNS = 8  # turns of an unrolled body
ORDERED_TURNS = 32  # the same for one whose turns run in order, as then few threads run
FEWER = 2  # each loop over the iterations that the one before it leaves takes this many times fewer in a turn
SKIPPED = 64  # instructions of a turn from which on a branch around them is worth it
SERIES = SKIPPED  # of an operation of the math dialect
LONGEST = 1024  # operations on single elements in an unrolled body: longer ones do not stay in the instruction cache


def shared_loop(k: "ThreadKernel", op: ir.Operation, inits: list[ir.Value]) -> list[ir.Value]:
    """Lowers an scf.for marked tile.shared, of which team t runs iterations t, t + teams and so on, each one turn; returns the
    carried values.

    Turns that all teams have are unrolled, so that enough loads are in flight. Where only some teams have a last turn, the others
    repeat the last iteration in step with them and drop its results: a branch would keep its loads behind those before it. A body
    that checks or loops, or has no turn to overlap with, is branched around, and stores of a turn that is none are left out.
    """
    body, rows, teams = op.regions[0].blocks[0], number_of(op.operands[1]), k.shape.teams
    assert k.team is not None
    if not isinstance(rows, int):
        return _counted(k, body, k.uniform(op.operands[1]), kernel_size(op.operands[1]), inits)
    even = rows // teams
    each = min(_unrolled(k, body, IN_FLIGHT), max(even, 1))

    def turns(values: list[ir.Value], first: ir.Value, numbers: range) -> list[ir.Value]:
        """Emits iterations of a team, which are `teams` apart, by their numbers within the team."""
        return _turns(k, body, [k.index_ops.add(first, i * teams) for i in numbers], values)

    values, done = inits, even // each * each if even >= 2 * each else 0
    if done:
        loop = scf.ForOp(k.index_ops.number(0), k.index_ops.number(done), k.index_ops.number(each), values)
        with ir.InsertionPoint(loop.body):
            first = k.index_ops.add(k.index_ops.times(loop.induction_variable, teams), k.team)
            scf.YieldOp(turns(list(loop.inner_iter_args), first, range(each)))
        values = list(loop.results)
    values = turns(values, k.team, range(done, even))
    if rows % teams == 0:
        return values
    iteration = k.index_ops.add(k.team, even * teams)
    if even == 0 or _branches(body):
        return _guarded(k, k.index_ops.below(iteration, rows), body, iteration, values)
    return _turns(k, body, [iteration], values, rows)


def ordered_loop(k: "ThreadKernel", op: ir.Operation, inits: list[ir.Value]) -> list[ir.Value]:
    """Lowers an scf.for marked tile.ordered; returns the carried values. Several iterations are one turn, which has their loads in
    flight at once; those that are left over take shorter turns, in the end one by one."""
    body, rows, number = op.regions[0].blocks[0], k.uniform(op.operands[1]), k.index_ops.number
    ahead = [] if any(list(o.regions) for o in ops_in(body)) else _loads_of(body)
    wanted = COUNTED_IN_FLIGHT if number_of(op.operands[1]) is None else IN_FLIGHT
    each = _in_flight(k, body, ORDERED_TURNS, wanted) if ahead else 1
    done = number(0)
    while each > 1:
        left = k.index_ops.minus(rows, done)
        end = k.index_ops.add(done, k.index_ops.times(k.index_ops.over(left, each), each))
        loop = scf.ForOp(done, end, number(each), inits)
        with ir.InsertionPoint(loop.body):
            iterations = [k.index_ops.add(loop.induction_variable, i) for i in range(each)]
            scf.YieldOp(_turns(k, body, iterations, list(loop.inner_iter_args), ahead=ahead))
        inits, done, each = list(loop.results), end, each // FEWER
    loop = scf.ForOp(done, rows, number(1), inits)
    with ir.InsertionPoint(loop.body):
        scf.YieldOp(_turns(k, body, [loop.induction_variable], list(loop.inner_iter_args)))
    return list(loop.results)


def _counted(k: "ThreadKernel", body: ir.Block, rows: ir.Value, size: SizeLike | None, inits: list[ir.Value]) -> list[ir.Value]:
    """Emits the turns of a number of iterations that is known at run time: a loop over those that all teams have, unrolled, and one
    over the rest, in which teams without a turn repeat the loads of the last iteration and drop its results. Where there is an
    iteration and no team can have more turns than one unrolled body, there is no loop: so two passes over the same rows load them
    once.

    size  the number of iterations, if it is a symbolic size
    """
    assert k.team is not None
    strided = any(
        op.name == "tile.gather" for op in ops_in(body)
    )  # each access of a warp is many: more are not worth their registers
    teams, each = k.shape.teams, _unrolled(k, body, IN_FLIGHT if strided else COUNTED_IN_FLIGHT)
    number, index_ops = k.index_ops.number, k.index_ops
    if size is not None and at_least(size) and at_most(size, each * teams) and not _branches(body):
        turns = -(-int(upper_end(size)) // teams)
        return _turns(k, body, [index_ops.add(k.team, i * teams) for i in range(turns)], inits, rows)
    whole = number(0)
    if not _branches(body):
        whole = index_ops.times(index_ops.over(rows, teams * each), each)
        loop = scf.ForOp(number(0), whole, number(each), inits)
        with ir.InsertionPoint(loop.body):
            first = index_ops.add(index_ops.times(loop.induction_variable, teams), k.team)
            iterations = [index_ops.add(first, i * teams) for i in range(each)]
            scf.YieldOp(_turns(k, body, iterations, list(loop.inner_iter_args)))
        inits = list(loop.results)
    each = _unrolled(k, body, IN_FLIGHT)
    loop = scf.ForOp(whole, index_ops.over(index_ops.add(rows, teams - 1), teams), number(each), inits)
    with ir.InsertionPoint(loop.body):
        first, carried = index_ops.add(index_ops.times(loop.induction_variable, teams), k.team), list(loop.inner_iter_args)
        if _branches(body):
            scf.YieldOp(_guarded(k, index_ops.below(first, rows), body, first, carried))
        else:
            iterations = [index_ops.add(first, i * teams) for i in range(each)]
            scf.YieldOp(_turns(k, body, iterations, carried, rows))
    return list(loop.results)


def _turns(
    k: "ThreadKernel",
    body: ir.Block,
    iterations: list[ir.Value],
    values: list[ir.Value],
    rows: ir.Value | int | None = None,
    ahead: list[ir.Operation] | None = None,
) -> list[ir.Value]:
    """Emits the body for each of some iterations, the loads of all of them first, and returns what the last one yields.

    values  what the first one carries
    rows    iterations that there are: the last one runs in the place of those after it, and its results are dropped
    ahead   what loads, and what that is computed from; found where it is left out
    """
    inside = [k.index_ops.below(i, rows) for i in iterations] if rows is not None else []
    if rows is not None:
        last = k.index_ops.number(rows - 1) if isinstance(rows, int) else k.index_ops.minus(rows, 1)
        iterations = [arith.minui(i, last) for i in iterations]
    ops = ops_in(body)
    ahead = ahead or (_loads(body) if len(iterations) > 1 else [])
    rest = [op for op in ops if op not in ahead]
    loaded = []
    for iteration in iterations:
        k.values[body.arguments[0]] = iteration
        k.ops(ahead)
        read = [v for op in ahead for v in op.results]
        masks = {v: k.groups.masks[v] for v in read if v in k.groups.masks}
        loaded.append(({v: k.values[v] for v in (body.arguments[0], *read)}, masks))
    skips = isinstance(rows, ir.Value) and _worth_skipping(k, rest)
    if skips and any(read for read, _ in loaded):
        _keep_in_front()

    def computed(number: int, carried: list[ir.Value]) -> list[ir.Value]:
        """Emits what the turns from `number` on compute, and returns what the last one yields. The first that is no turn skips
        those after it."""
        if number == len(loaded):
            return carried
        if skips:
            makes = (lambda: computed(number + 1, turn(number, carried)), lambda: carried)
            return emit_if_else(inside[number], [v.type for v in carried], *makes)
        results = turn(number, carried)
        if inside:
            results = [arith.select(inside[number], *both) for both in zip(results, carried, strict=True)]
        return computed(number + 1, results)

    def turn(number: int, carried: list[ir.Value]) -> list[ir.Value]:
        """Emits what one turn computes from its loads."""
        first_values, masks = loaded[number]
        k.values.update(first_values)
        k.groups.masks.update(masks)
        k.bind(list(body.arguments)[1:], carried)
        outside = k.memory.active
        if inside and not skips:
            k.memory.active = inside[number]  # of all teams' programs: a loop that teams share has no other condition
        k.ops(rest)
        k.memory.active = outside
        return k.flatten(list(ops[-1].operands))

    return computed(0, values)


def _keep_in_front() -> None:
    """Keeps the loads before this point in front of the branches after it: as far as InstCombine knows, this intrinsic writes
    memory. Else it moves a load into the branch that reads it, from where a second pass over the rows loads it again."""
    empty = ir.DenseI32ArrayAttr.get([])
    attributes = {
        "intrin": ir.StringAttr.get("llvm.sideeffect"),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]),
        "op_bundle_sizes": empty,
    }
    ir.Operation.create("llvm.call_intrinsic", attributes=attributes)


def _worth_skipping(k: "ThreadKernel", ops: list[ir.Operation]) -> bool:
    """Returns whether what a turn computes may be branched around, as threads exchange nothing in it, and is long enough for
    that."""
    alone = all(op.name.startswith(("arith.", "math.", "llvm.", "vector.broadcast", "scf.yield", *STORES)) for op in ops)
    instructions = sum(SERIES if op.name.startswith("math.") else 1 for op in ops if has_blocks(op) and op.name != "scf.yield")
    return alone and instructions * k.shape.vec * k.shape.chunks >= SKIPPED


def _loads(body: ir.Block) -> list[ir.Operation]:
    """Returns the loads of a body and what they are computed from, unless a load depends on what the loop carries or the body
    does anything but compute."""
    return [] if _branches(body) else _loads_of(body)


def _loads_of(body: ir.Block) -> list[ir.Operation]:
    """Returns the loads of a body and what they are computed from, unless a load depends on what the loop carries."""
    ops = ops_in(body)
    carried = set(list(body.arguments)[1:])
    wanted: set[ir.Value] = set()
    for op in reversed(ops):
        if _reads(op) or any(v in wanted for v in op.results):
            wanted.update(op.operands)
    return [] if wanted & carried else [op for op in ops if _reads(op) or any(v in wanted for v in op.results)]


def _reads(op: ir.Operation) -> bool:
    return bool(list(op.results)) and any(isinstance(v.type, ir.MemRefType) for v in op.operands)


def _guarded(
    k: "ThreadKernel", condition: ir.Value, body: ir.Block, iteration: ir.Value, otherwise: list[ir.Value]
) -> list[ir.Value]:
    """Emits the body in a branch where the condition holds, and returns its results; else `otherwise`."""
    makes = [lambda: _turns(k, body, [iteration], otherwise), *([lambda: otherwise] if otherwise else [])]
    return emit_if_else(condition, [v.type for v in otherwise], *makes)


def _branches(body: ir.Block) -> bool:
    """Returns whether a body checks or loops, or loads what it may have stored."""
    ops = ops_in(body)
    stored = [i for i, op in enumerate(ops) if op.name in STORES]
    again = bool(stored) and any(map(_reads, ops[stored[0] :]))
    return again or any(list(op.regions) or not (list(op.results) or op.name in (*STORES, "scf.yield")) for op in ops)


def _unrolled(k: "ThreadKernel", body: ir.Block, wanted: int) -> int:
    """Returns the turns to unroll, so that a thread has `wanted` bytes of loads in flight."""
    return 1 if _branches(body) else _in_flight(k, body, MOST_TURNS, wanted)


def _in_flight(k: "ThreadKernel", body: ir.Block, limit: int, wanted: int) -> int:
    """Returns how many turns, at most `limit`, have `wanted` bytes of loads."""
    ops, each = ops_in(body), k.shape.vec * k.shape.chunks
    reads = [op for op in ops if has_blocks(op) and _reads(op)]
    loaded = sum(each * max(element_of(op.results[0].type).width // 8, 1) for op in reads)
    length = sum(each if has_blocks(op) else 1 for op in ops)
    return max(min(wanted // loaded, limit, LONGEST // length), 1) if loaded else 1
