"""Collects the data of an explanation from a compiled program, at the sizes of one call."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from lamina.core.options import Tune
from lamina.core.program import Call, Launch, Program, Ref, Step, by_computation, refs_of
from lamina.core.sizes import Size, SizeLike, evaluate, readable
from lamina.runtime.recording.graph_status import Status
from lamina.tune.choice import TunedChoice

from .choices import untuned_note
from .explanation import External, Graph, KernelStep, Memory, Place, Unfused


def graph(
    name: str,
    program: Program,
    before: Unfused,
    seconds: Mapping[str, float],
    times: Sequence[float] = (),
    cuda_graph: Status | None = None,
    choices: tuple[TunedChoice, ...] = (),
    tune: Tune = "cached",
    sized: Program | None = None,
) -> Graph:
    """Returns the explanation of one program.

    times       measured seconds of its steps, if they were measured
    cuda_graph  for a GPU
    choices     tuning's answers, asked by the policy `tune`
    sized       the program for all sizes, where `program` is what one call makes of it
    """
    all_sizes = by_computation((sized or program).steps)
    steps = [_step(i, step, kernels) for i, (step, kernels) in enumerate(zip(program.steps, all_sizes, strict=True))]
    if times:
        steps = [replace(step, seconds=time) for step, time in zip(steps, times, strict=True)]
    return Graph(
        name=name,
        kernels=tuple(s for s in steps if isinstance(s, KernelStep)),
        externals=tuple(s for s in steps if isinstance(s, External)),
        before=before,
        memory=memory(program),
        seconds=dict(seconds),
        cuda_graph=cuda_graph,
        choices=choices,
        products=untuned_note(program, tune) if all(choice.of_rows for choice in choices) else "",
    )


def eager(name: str, calls: Sequence[tuple[str, str, str]]) -> Graph:
    """Returns the explanation of a part of a graph that runs eagerly. calls: (callee, why, line) of each."""
    externals = tuple(
        External(i, callee, "fallback", (line,) if line else (), False, why=why) for i, (callee, why, line) in enumerate(calls)
    )
    return Graph(name, (), externals, Unfused(0, 0), Memory(0, 0, 0, ()), {})


def _step(index: int, step: Step, all_sizes: Sequence[Step]) -> KernelStep | External:
    """Explains a step. all_sizes: it, and what other calls make in its place."""
    if isinstance(step, Launch):
        launches = [other for other in all_sizes if isinstance(other, Launch)]
        by_size = next(other for other in launches if other.kernel == step.kernel)
        return KernelStep(
            step=index,
            kernel=step.kernel,
            name=step.name or step.kernel,
            ops=step.ops,
            where=step.where,
            programs=evaluate(step.grid, {}) * prod(step.grid_yz),
            bytes=evaluate(step.bytes, {}),
            flops=evaluate(step.flops, {}),
            programs_by_size=_expression(by_size.grid * prod(step.grid_yz)),
            bytes_by_size=_expression(by_size.bytes),
            ranges=tuple(_ranges(launches)),
        )
    return External(index, step.callee, step.reason, step.where, bool(step.outs))


def _ranges(launches: Sequence[Launch]) -> Iterator[str]:
    """Yields kernels of which a call takes the first that is for its sizes, each with what these are."""
    for launch in launches if len(launches) > 1 else ():
        conditions = [f"{readable(when.size)} <= {when.limit}" for when in launch.when]
        yield f"{launch.kernel} where {' and '.join(conditions)}" if conditions else f"{launch.kernel} otherwise"


def _expression(size: SizeLike) -> str:
    """Returns a size that depends on the call as an expression of symbols' names; "" for any other."""
    return readable(size) if isinstance(size, Size) else ""


def memory(program: Program) -> Memory:
    """Returns the memory plan, with the live range of every buffer."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    filled: dict[int, str] = {}
    for index, step in enumerate(program.steps):
        reads, writes = _uses(step)
        for ref in (*reads, *writes):
            first.setdefault(ref.buffer, index)
            last[ref.buffer] = index
        for ref in writes:
            filled.setdefault(ref.buffer, step.name)
    for ref in program.outputs:
        last[ref.buffer] = -1
    names = {"input": "argument {}", "constant": "constant {}"}
    places = [
        Place(
            buffer=i,
            kind=b.kind,
            name=names[b.kind].format(b.index) if b.kind in names else filled.get(i, ""),
            offset=evaluate(b.offset, {}),
            bytes=evaluate(b.bytes, {}),
            first=first.get(i, 0),
            last=last.get(i, 0),
        )
        for i, b in enumerate(program.buffers)
    ]
    return Memory(
        evaluate(program.arena_bytes, {}), evaluate(program.sum_bytes, {}), evaluate(program.lower_bound, {}), tuple(places)
    )


def _uses(step: Launch | Call) -> tuple[list[Ref], list[Ref]]:
    """Returns (refs read, refs written)."""
    if isinstance(step, Launch):
        return list(step.args[: len(step.args) - step.n_out]), list(step.args[len(step.args) - step.n_out :])
    return list(refs_of((step.args, step.kwargs))), [*step.outs, *(ref for ref in step.owned if ref is not None)]
