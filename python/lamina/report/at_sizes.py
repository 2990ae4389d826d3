"""The result of `Explanation.at`: reports what a call with other sizes would do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .explanation import Graph

Outcome = Literal["known", "new", "compiled", "refused", "unknown"]
"""The effect of a call on a graph: it runs its program at sizes that it has met ("known") or not ("new": their memory is planned
first, once), has it compiled again, is an error ("refused"), or depends on what the model computes before ("unknown")."""


@dataclass(frozen=True)
class GraphAtSizes:
    """The effect of a call on one graph.

    sizes       the values of its symbols, by the names of their Dims or by place, "x, dimension 1"
    why         the reason, where it does not run the compiled program
    parts       kernels and memory at these sizes, where it does, of its forward and backward graphs
    cuda_graph  what becomes of its CUDA graph, on a GPU
    """

    name: str
    outcome: Outcome
    sizes: Mapping[str, int]
    why: str = ""
    parts: "tuple[Graph, ...]" = ()
    cuda_graph: str = ""


@dataclass(frozen=True)
class AtSizes:
    """The effect of a call with some sizes. `print()` shows it as tables."""

    graphs: tuple[GraphAtSizes, ...]

    @property
    def compiles(self) -> bool:
        """Whether a graph is compiled again."""
        return any(graph.outcome == "compiled" for graph in self.graphs)

    @property
    def arena_bytes(self) -> int:
        """The bytes of the arenas of all graphs that run, together."""
        return sum(part.memory.arena_bytes for graph in self.graphs for part in graph.parts)

    def __str__(self) -> str:
        from .sizes import at_sizes
        from .tables import text

        return text(at_sizes(self))

    def print(self) -> None:
        """Prints it as tables."""
        from .sizes import at_sizes
        from .tables import show

        show(at_sizes(self))
