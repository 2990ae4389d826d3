"""The result of `lamina.explain`: plain data with a JSON form. Bytes are bytes, times are seconds."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lamina.core.sizes.facts import SizeCondition, SizeFacts
from lamina.runtime.recording.graph_status import Status
from lamina.tune.choice import TunedChoice

from .at_sizes import AtSizes


@dataclass(frozen=True)
class Peaks:
    """Peak rates of the device, both with `threads` of `unit`.

    bandwidth  read + written bytes a second, of a copy too large for its caches
    flops      f32 operations a second, in fused multiply-adds
    """

    device: str
    threads: int
    bandwidth: float
    flops: float
    unit: str = "threads"

    def attainable(self, intensity: float) -> float:
        """Returns operations a second that the roofline allows at `intensity` operations a byte."""
        return min(self.flops, intensity * self.bandwidth)

    def least(self, nbytes: int, flops: int) -> float:
        """Returns the least seconds that a kernel with this memory traffic and these operations can take."""
        return max(nbytes / self.bandwidth, flops / self.flops)


@dataclass(frozen=True)
class KernelStep:
    """One launch of a Lamina kernel.

    step      its index among the steps of the program
    kernel    symbol in the object; launches with equal bodies share it
    name      describes what it computes
    ops       ops it fused, "aten.add.Tensor"
    where     their source lines, "model.py:12"
    programs  independent programs in its grid
    bytes     moved in all; flops: operations in all
    seconds   the least of several runs, None when not measured
    programs_by_size, bytes_by_size  these for all sizes, "4*s0*s1", where they depend on the call
    ranges    where several kernels compute this, for ranges of sizes: each with its range, "mm_to_64 where s0 <= 64"
    """

    step: int
    kernel: str
    name: str
    ops: tuple[str, ...]
    where: tuple[str, ...]
    programs: int
    bytes: int
    flops: int
    seconds: float | None = None
    programs_by_size: str = ""
    bytes_by_size: str = ""
    ranges: tuple[str, ...] = ()

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class External:
    """One call of a routine outside Lamina.

    reason    "library" or "fallback"
    in_place  it writes its result into the program's memory
    why       the reason that it ran eagerly, between compiled parts of the graph; "" for a call by a program
    """

    step: int
    callee: str
    reason: str
    where: tuple[str, ...]
    in_place: bool
    seconds: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Unfused:
    """The cost of the same graph with one kernel for every op, each reading its inputs from memory and writing its results
    there."""

    kernels: int
    bytes: int


@dataclass(frozen=True)
class Place:
    """One buffer of the memory plan. It is alive from step `first` to step `last`; last -1: as long as the call's results.

    kind    "arena", "output", "input", "constant" or "owned" (memory of the library that made it)
    name    the step that fills it, or "argument 3"
    offset  in the arena
    """

    buffer: int
    kind: str
    name: str
    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Memory:
    """The memory plan.

    arena_bytes  size of the arena
    sum_bytes    size of its values without reuse
    lower_bound  most bytes alive at one step
    """

    arena_bytes: int
    sum_bytes: int
    lower_bound: int
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Graph:
    """One compiled graph.

    before      the same graph without fusion
    seconds     time of every stage and pass, in order
    cuda_graph  whether its steps run as a CUDA graph, on a GPU
    choices     tuning's answers for its hot ops and large row reductions
    products    how these are computed where tuning has no answer, and how to tune; "" without any
    symbols     the sizes that each call decides
    bound       for how many sets of sizes it has been called, of which the last `kept` are kept
    per_size    why it is compiled for each set of sizes separately; "" if it is not
    conditions  on sizes, which it rests on
    specialized  the sets of sizes, by their names, that have programs of their own (Options.specialize)
    """

    name: str
    kernels: tuple[KernelStep, ...]
    externals: tuple[External, ...]
    before: Unfused
    memory: Memory
    seconds: dict[str, float]
    cuda_graph: Status | None = None
    choices: tuple[TunedChoice, ...] = ()
    products: str = ""
    symbols: tuple[SizeFacts, ...] = ()
    bound: int = 0
    kept: int = 0
    per_size: str = ""
    conditions: tuple[SizeCondition, ...] = ()
    specialized: tuple[dict[str, int], ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes that all kernels move."""
        return sum(k.bytes for k in self.kernels)

    @property
    def is_eager(self) -> bool:
        """Whether it is a part of a graph that runs eagerly, between compiled parts."""
        return bool(self.externals) and all(e.why for e in self.externals)

    @property
    def fallbacks(self) -> tuple[External, ...]:
        """The external calls of ops that have no lowering."""
        return tuple(e for e in self.externals if e.reason == "fallback")


@dataclass(frozen=True)
class Break:
    """A place where Dynamo ended a graph although the function went on."""

    reason: str
    where: tuple[str, ...]


@dataclass(frozen=True)
class Guard:
    """A condition that Dynamo checks at every call: `kind` ("TENSOR_MATCH") of `source` ("L['x']"), and the condition as code."""

    kind: str
    source: str
    code: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Recompile:
    """A function that Dynamo compiled again, and the guard that failed."""

    function: str
    where: str
    reason: str


@dataclass(frozen=True)
class Explanation:
    """Everything that `lamina.explain` found. `print()` shows it as tables, `to_json()` returns it as JSON."""

    graphs: tuple[Graph, ...]
    breaks: tuple[Break, ...]
    guards: tuple[Guard, ...]
    recompiles: tuple[Recompile, ...]
    peaks: Peaks
    forecast: Callable[[Any], AtSizes] | None = field(default=None, repr=False, compare=False)

    def at(self, inputs: Any) -> AtSizes:
        """Returns the effect that a call with other sizes would have, without making it: whether it compiles, and which kernels
        run.

        inputs  example inputs as lamina.explain takes them; or sizes by the names of their Dims, or by argument and dimension:
                `{"batch": 4, "x": {1: 100}}`. Sizes that are not named are those of the first call

        Raises CompileError for a name that is not a size's, ValueError for two values of one size.
        """
        if self.forecast is None:
            raise TypeError("only what lamina.explain returned in this process tells of other sizes")
        return self.forecast(inputs)

    @property
    def kernels(self) -> tuple[KernelStep, ...]:
        """The kernels of all graphs."""
        return tuple(k for g in self.graphs for k in g.kernels)

    @property
    def externals(self) -> tuple[External, ...]:
        """The external calls of all graphs."""
        return tuple(e for g in self.graphs for e in g.externals)

    def to_json(self) -> str:
        """Returns the explanation as JSON text."""
        return json.dumps(self.to_dict(), indent=1)

    def to_dict(self) -> dict[str, Any]:
        """Returns the explanation as dicts and lists that JSON can hold."""
        fields = dataclasses.asdict(dataclasses.replace(self, forecast=None))
        del fields["forecast"]
        for written, graph in zip(fields["graphs"], self.graphs, strict=True):
            written["choices"] = [choice.to_json() for choice in graph.choices]
        return fields

    def __str__(self) -> str:
        from .tables import render, text

        return text(render(self))

    def print(self) -> None:
        """Prints the explanation as tables."""
        from .tables import render, show

        show(render(self))
