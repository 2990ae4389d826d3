"""What `lamina.explain` returns: plain data with a JSON form. Bytes are bytes, times are seconds."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from lamina.runtime.graph_status import Status
from lamina.tune.choice import Choice


@dataclass(frozen=True)
class Peaks:
    """What the device reaches: `bandwidth` of a copy too large for its caches (read + written bytes a second), and `flops` a
    second in f32 fused multiply-adds, both with `threads` of `unit`."""

    device: str
    threads: int
    bandwidth: float
    flops: float
    unit: str = "threads"

    def attainable(self, intensity: float) -> float:
        """Operations a second that the roof allows at `intensity` operations a byte."""
        return min(self.flops, intensity * self.bandwidth)

    def least(self, nbytes: int, flops: int) -> float:
        """Seconds below which no kernel with this traffic to memory and these operations gets."""
        return max(nbytes / self.bandwidth, flops / self.flops)


@dataclass(frozen=True)
class Kernel:
    """One launch of a kernel of ours.

    step      its place among the steps of the program
    kernel    symbol in the object; launches with equal bodies share it
    name      what it computes
    ops       ops it fused, "aten.add.Tensor"
    where     their source lines, "model.py:12"
    programs  independent programs it is divided into
    bytes     moved in all; flops: operations in all
    seconds   the least of several runs, None when not measured
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

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class External:
    """One call of a routine that is not ours, and why: "library" or "fallback".

    why  what kept it out of the program: it ran eagerly, between compiled parts of the graph; "" for a call by a program
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
    """The same graph with one kernel for every op, each reading its inputs from memory and writing its results there."""

    kernels: int
    bytes: int


@dataclass(frozen=True)
class Place:
    """One buffer of the memory plan. It is alive from step `first` to step `last`; last -1: as long as the call's results.

    kind    "arena", "output", "input", "constant" or "owned" (memory of the library that made it)
    name    what fills it, or "argument 3"
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
    """The memory plan: what the arena takes, what its values would take without reuse, the most of them alive at one step."""

    arena_bytes: int
    sum_bytes: int
    lower_bound: int
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Graph:
    """One compiled graph.

    seconds     time of every stage and pass, in order
    cuda_graph  whether its steps run as a CUDA graph, on a GPU
    choices     how its matrix products, attention and large rows are computed, by what tuning knows of them
    products    what became of them where tuning knows nothing, and how to tune; "" without any
    """

    name: str
    kernels: tuple[Kernel, ...]
    externals: tuple[External, ...]
    before: Unfused
    memory: Memory
    seconds: dict[str, float]
    cuda_graph: Status | None = None
    choices: tuple[Choice, ...] = ()
    products: str = ""

    @property
    def bytes(self) -> int:
        return sum(k.bytes for k in self.kernels)

    @property
    def is_eager(self) -> bool:
        """Whether it is a part of a graph that runs eagerly, between compiled parts."""
        return bool(self.externals) and all(e.why for e in self.externals)

    @property
    def fallbacks(self) -> tuple[External, ...]:
        return tuple(e for e in self.externals if e.reason == "fallback")


@dataclass(frozen=True)
class Break:
    """Where Dynamo ended a graph although the function went on."""

    reason: str
    where: tuple[str, ...]


@dataclass(frozen=True)
class Guard:
    """What Dynamo checks at every call: `kind` ("TENSOR_MATCH") of `source` ("L['x']"), and the condition as code."""

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
    """All of it. `print()` shows it as tables, `to_json()` gives it as JSON."""

    graphs: tuple[Graph, ...]
    breaks: tuple[Break, ...]
    guards: tuple[Guard, ...]
    recompiles: tuple[Recompile, ...]
    peaks: Peaks

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(k for g in self.graphs for k in g.kernels)

    @property
    def externals(self) -> tuple[External, ...]:
        return tuple(e for g in self.graphs for e in g.externals)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def to_dict(self) -> dict[str, Any]:
        made = dataclasses.asdict(self)
        for written, graph in zip(made["graphs"], self.graphs, strict=True):
            written["choices"] = [choice.to_json() for choice in graph.choices]
        return made

    def __str__(self) -> str:
        from .tables import text

        return text(self)

    def print(self) -> None:
        from .tables import show

        show(self)
