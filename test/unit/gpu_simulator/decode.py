"""A gpu.func as a list of steps: Python functions of the batch, one an op, so that loops do not look at the IR again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from .batch import Array, Batch
from .choices import each, switch
from .elementwise import constant, elementwise, spread
from .gpu_ops import GPU_OPS, is_fence
from .memory_ops import MEMORY_OPS
from .pointers import POINTER_OPS
from .vectors import vector
from .wrapping import wraps

Step = Callable[[Batch], None]


@dataclass
class Body:
    """A block: where its arguments are stored, its steps, and where its terminator's operands are found."""

    arguments: list[int]
    steps: list[Step]
    yields: list[int]

    def run(self, batch: Batch, *arguments: object) -> list:
        for slot, value in zip(self.arguments, arguments, strict=True):
            batch.env[slot] = value
        for step in self.steps:
            step(batch)
        return [batch.env[slot] for slot in self.yields]


class Decoder:
    """Assigns a slot to every value, and a step to every op."""

    def __init__(self) -> None:
        self.slots: dict[ir.Value, int] = {}

    def slot(self, value: ir.Value) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def body(self, block: ir.Block) -> Body:
        arguments = [self.slot(a) for a in block.arguments]
        *ops, last = [o.operation for o in block.operations]
        if last.name not in ("scf.yield", "scf.condition", "gpu.return"):
            raise NotImplementedError(f"{last.name} at {last.location}")
        return Body(arguments, [self.step(op) for op in ops], [self.slot(v) for v in last.operands])

    def step(self, op: ir.Operation) -> Step:
        bodies = [self.body(r.blocks[0]) if len(r.blocks) else None for r in op.regions]
        ins, outs = [self.slot(v) for v in op.operands], [self.slot(r) for r in op.results]
        if op.name == "arith.constant":
            value = constant(op)
            return lambda b: b.env.__setitem__(outs[0], value)
        if op.name in _CONTROL:
            return _storing(_CONTROL[op.name](op, bodies), ins, outs)
        if is_fence(op):
            return lambda b: None
        if op.name == "scf.index_switch":
            return _storing(switch(op, lambda b, i: bodies[i].run(b)), ins, outs)
        for table in (GPU_OPS, MEMORY_OPS, POINTER_OPS):
            if op.name in table:
                run = table[op.name](op)
                return _storing(each(run) if table is MEMORY_OPS else run, ins, outs)
        pure = elementwise(op) or vector(op)
        if pure is None:
            raise NotImplementedError(f"the simulator does not know {op.name} at {op.location}")
        return _storing(_checked(op, pure), ins, outs)


def _storing(run: Callable, ins: Sequence[int], outs: Sequence[int]) -> Step:
    """Returns a step that stores the results of `run(batch, *values)`: one value, or as many as there are results."""

    def step(batch: Batch) -> None:
        env = batch.env
        found = run(batch, *[env[i] for i in ins])
        if len(outs) == 1:
            env[outs[0]] = found
        else:
            for slot, value in zip(outs, found or (), strict=True):
                env[slot] = value

    return step


_DIVISIONS = {f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")}


def _checked(op: ir.Operation, pure: Callable) -> Callable:
    """Returns `pure` with checks for division by zero, and for overflow that the op's flags exclude, which are undefined in
    active threads."""
    flags = str(op.attributes["overflowFlags"]) if "overflowFlags" in op.attributes else ""
    if op.name not in _DIVISIONS and not ("nsw" in flags or "nuw" in flags):
        return lambda _batch, *xs: pure(*xs)

    def run(batch: Batch, a: Array, b: Array) -> Array:
        result = pure(a, b)
        if op.name in _DIVISIONS:
            wrong, why = b == 0, "division by zero"
        else:
            wrong, why = wraps(op.name, flags, a, b, result), f"{op.name} wraps around, which its flags rule out"
        if wrong.any():
            first = batch.active(wrong).reshape(len(batch.lanes), -1).any(1)
            if first.any():
                batch.fault(op, batch.lanes[np.argmax(first)], why)
        return result

    return run


def _merge(condition: Array, yes: list, no: list) -> list:
    """Merges values lane by lane; equal objects stay as they are."""
    return [a if a is b else np.where(spread(condition, max(a.ndim, b.ndim)), a, b) for a, b in zip(yes, no, strict=True)]


def _result(values: list) -> object:
    return values[0] if len(values) == 1 else values


def _if(op: ir.Operation, bodies: list[Body | None]) -> Callable:
    def branch(batch: Batch, body: Body | None, mask: Array) -> list | None:
        if body is None or not mask.any():
            return None
        with batch.only(mask):
            return body.run(batch)

    def run(batch: Batch, condition: Array) -> object:
        condition = batch.wide(condition)
        yes = branch(batch, bodies[0], batch.mask & condition)
        no = branch(batch, bodies[1] if len(bodies) > 1 else None, batch.mask & ~condition)
        if not len(op.results):
            return None
        if yes is None or no is None:
            return _result(yes or no or [])
        return _result(_merge(condition, yes, no))

    return run


def _for(op: ir.Operation, bodies: list[Body | None]) -> Callable:
    body = bodies[0]
    assert body is not None
    unsigned = "unsignedCmp" in op.attributes
    key = (lambda x: x.view(f"u{x.itemsize}")) if unsigned else (lambda x: x)

    def run(batch: Batch, low: Array, high: Array, step: Array, *carried: Array) -> object:
        if not (batch.active(step) > 0).all():
            batch.fault(op, batch.lanes[np.argmin(batch.active(step) > 0)], "a loop's step is not positive")
        values, i = list(carried), low
        while True:
            inside = batch.mask & batch.wide(key(i) < key(high))
            if not inside.any():
                return _result(values)
            with batch.only(inside):
                new = body.run(batch, i, *values)
            values = new if (inside == batch.mask).all() else _merge(inside, new, values)
            i = i + step

    return run


def _while(op: ir.Operation, bodies: list[Body | None]) -> Callable:
    before, after = bodies
    assert before is not None and after is not None

    def run(batch: Batch, *carried: Array) -> object:
        values, running, results = list(carried), batch.mask, None
        while True:
            with batch.only(running):
                condition, *passed = before.run(batch, *values)
                results = passed if results is None else _merge(running, passed, results)
            running = running & batch.wide(condition)
            if not running.any():
                return _result(results)
            with batch.only(running):
                values = after.run(batch, *passed)

    return run


_CONTROL = {"scf.if": _if, "scf.for": _for, "scf.while": _while}
