"""Decides whether a program may be recorded as a CUDA graph, and which steps (draws of seeds) run before each replay."""

from dataclasses import replace
from math import prod

from lamina.core.program import Call, Launch, Program, Ref, refs_of

from ..library import library_call
from ..resolve import arguments_of, overload

_DEPENDS_ON_MORE = {"data_dependent_output", "dynamic_output_shape"}
"""torch's tags of operators whose output size depends on data, so that the host has to wait for it."""


def draws_first(program: Program) -> Program:
    """Moves the draws of a program ahead of all other steps. A draw is a call that reads no memory and allocates its results, such
    as seeds from torch's generator. The graph is recorded from the steps after them."""
    order = sorted(range(len(program.steps)), key=lambda i: not _is_draw(program.steps[i]))
    place = {old: new for new, old in enumerate(order)}
    buffers = tuple(replace(b, last=place[b.last]) if b.last in place else b for b in program.buffers)
    return replace(program, steps=tuple(program.steps[i] for i in order), buffers=buffers)


def leading_draws(program: Program) -> int:
    """Returns how many draws lead the program."""
    return next((i for i, step in enumerate(program.steps) if not _is_draw(step)), len(program.steps))


def drawn_buffers(program: Program) -> list[int]:
    """Returns the buffers that the leading draws fill."""
    leading = program.steps[: leading_draws(program)]
    return [ref.buffer for step in leading if isinstance(step, Call) for ref in step.owned if ref is not None]


def _is_draw(step: Call | Launch) -> bool:
    if isinstance(step, Launch) or not step.callee.startswith("aten.") or step.outs or None in step.owned:
        return False
    return not _read(step)


def _read(step: Call | Launch) -> set[int]:
    """Returns the buffers that a step takes as arguments."""
    if isinstance(step, Launch):
        return {ref.buffer for ref in step.args}
    return {ref.buffer for ref in refs_of((step.args, step.kwargs))}


def _named(step: Call | Launch) -> set[int]:
    """Returns the buffers that a step reads or writes."""
    return _read(step) | ({ref.buffer for ref in step.outs} if isinstance(step, Call) else set())


def why_not_recorded(program: Program, tensors: str = "cuda") -> str:
    """Returns why a program with its draws first cannot be recorded, "" if it can. `tensors` is the device of its tensors."""
    if len(program.steps) - leading_draws(program) < 2:
        return "a single step gains nothing by it"
    for step in program.steps[leading_draws(program) :]:
        if isinstance(step, Call) and library_call(step, tensors) is None:
            found = _why_not(step)
            if found:
                return found
    by_calls = set().union(*(_named(step) - _seeds(step) for step in program.steps if isinstance(step, Call)))
    by_kernels = set().union(*(_named(step) for step in program.steps if isinstance(step, Launch)))
    for index, given in enumerate(program.inputs):
        buffer = next(i for i, b in enumerate(program.buffers) if b.kind == "input" and b.index == index)
        if given.dtype in ("i64", "u64") and prod(given.shape) <= 2 and buffer in by_calls - by_kernels:
            return f"argument {index} may lie on the CPU, where a replay would not look again"
    return ""


def _why_not(step: Call) -> str:
    namespace = step.callee.partition(".")[0]
    tags = {tag.name for tag in overload(step.callee, step.where).tags}
    if namespace not in ("aten", "prims"):
        return f"{step.callee} may do in Python what a replay would leave out"
    if tags & {"nondeterministic_seeded"} and not _drops_nothing(step):
        return f"{step.callee} draws random numbers, which a replay would repeat"
    if tags & _DEPENDS_ON_MORE:
        return f"{step.callee} makes the host wait for the GPU"
    return ""


def _drops_nothing(step: Call) -> bool:
    """Returns whether the call draws random numbers for dropout only, and its dropout is 0."""
    return arguments_of(step).get("dropout_p") in (0, 0.0)


def _seeds(step: Call) -> set[int]:
    """Returns the buffers of random seeds that a call takes but, as it drops nothing, does not read."""
    if not step.callee.startswith("aten.") or not _drops_nothing(step):
        return set()
    return {ref.buffer for name, ref in arguments_of(step).items() if name.startswith("philox_") and isinstance(ref, Ref)}
