"""The backend of `lamina.explain`: compiles as Lamina's does and records what it sees."""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import fx
from torch.export import Dim

from lamina.core.options import Options
from lamina.core.sizes.facts import SizeFacts
from lamina.core.target import Target
from lamina.report.collect import eager
from lamina.report.collect import graph as graph_report
from lamina.report.explanation import Break, Graph, Guard, Peaks, Unfused
from lamina.report.gpu import gpu_peaks, graph_status, step_seconds_on_gpu
from lamina.report.measure import step_seconds
from lamina.report.roofline import peaks
from lamina.report.unfused import count_unfused
from lamina.runtime.recording.graph_status import Status

from ..capture.size_relations import SizeRelations
from ..compiling.per_size import VARIANTS, PerSize, per_size
from ..compiling.sized import BOUND, SizedProgram
from ..compiling.split import Outside, compile_graph
from ..compiling.stages import load
from ..compiling.stored import Built
from ..compiling.worker import finish
from ..fx.sizes import place_of
from .backend_error import passed_on
from .dynamo import autograd
from .specialize import for_captured

_FUSION = ("lamina-split-reductions", "lamina-fuse")
"""The passes that divide the work into kernels; the first of them sees the graph as it would run without fusion."""

Compiled = Built | SizedProgram | tuple[Outside, ...]


class Captured:
    """A graph that Dynamo has captured.

    sources    where Dynamo finds its arguments; None for one that is none of the function's
    values     fake tensors and ints
    per_size   its variants, if it is compiled for each set of sizes separately
    """

    def __init__(self, name: str, gm: fx.GraphModule) -> None:
        placeholders = gm.graph.find_nodes(op="placeholder")
        self.name = name
        self.sources = [getattr(node.meta.get("grapharg"), "source", None) for node in placeholders]
        self.values = [node.meta.get("example_value") for node in placeholders]
        self.relations = SizeRelations(self.values)
        self.per_size: PerSize | None = None


@dataclass(frozen=True)
class Part:
    """A compiled part of a captured graph's forward or backward graph.

    before  its ops before fusion
    """

    captured: str
    name: str
    program: Compiled
    before: Unfused | None


class ExplainBackend:
    """A backend that compiles as Lamina's does and records what it sees."""

    def __init__(self, options: Options, target: str | None) -> None:
        self.options = options
        self.target = target
        self.parts: list[Part] = []
        self.positional: list[str] = []  # parameters of the model, where Dynamo captures a wrapper of (*args, **kwargs)
        self.declared: dict[str, Any] = {}  # dimensions in dynamic_shapes, "x, dimension 0"
        self.captured: list[Captured] = []
        self.breaks: list[Break] = []
        self.guards: list[Guard] = []

    def __call__(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles a graph that Dynamo has captured, and notes the graph break before it."""
        reason = getattr(gm, "compile_subgraph_reason", None)
        if reason is not None and reason.graph_break:
            lines = [f"{frame.filename}:{frame.lineno}" for frame in reason.user_stack]
            self.breaks.append(Break(reason.reason, tuple(dict.fromkeys(reversed(lines)))))
        name = f"graph {len(self.captured)}"
        captured = Captured(name, gm)
        self.captured.append(captured)
        compile_one = functools.partial(self.compile, name)
        trace = functools.partial(
            autograd, options=for_captured(self.options, gm, self.named), target=self.target, compile=compile_one
        )
        with passed_on():
            run = per_size(gm, trace, inputs)
        if isinstance(run, PerSize) and run.reason:
            captured.per_size = run
            self.parts = [part for part in self.parts if part.captured != name]
        return run

    def compile(self, name: str, gm: fx.GraphModule, *, options: Options, **_: Any) -> Callable[..., Any]:
        """Compiles a forward or a backward graph, and keeps its parts with their ops before fusion."""
        parts: list[Compiled] = []
        before: dict[int, Unfused] = {}

        def watch(path: str, module: Any) -> None:
            """Counts the ops of a part before they are fused."""
            if len(parts) not in before and path.startswith(_FUSION):
                before[len(parts)] = count_unfused(module)

        def listen(part: Compiled | None) -> None:
            """Collects the compiled parts; None means that all are compiled again."""
            if part is not None:
                return parts.append(part)
            parts.clear()
            before.clear()

        run = compile_graph(gm, options=options, target=self.target, listener=listen, watch=watch)
        whole = name + (" backward" if any(n.op == "placeholder" and n.name.startswith("tangents") for n in gm.graph.nodes) else "")
        for i, part in enumerate(parts):
            named = f"{whole}, part {i + 1} of {len(parts)}" if len(parts) > 1 else whole
            self.parts.append(Part(name, named, part, before.get(i)))
        return run

    def guard(self, guards: Any) -> None:
        """Takes the guards of a compilation; Dynamo calls it as `guard_export_fn`."""
        for guard in guards:
            kind = guard.create_fn_name() if callable(getattr(guard, "create_fn_name", None)) else str(guard.source)
            frame = guard.user_stack[-1] if guard.user_stack else None
            where = f"{frame.filename}:{frame.lineno}" if frame else ""
            self.guards.append(Guard(kind, guard.name, tuple(guard.code_list or ()), where))

    def peaks(self, measure: bool) -> Peaks:
        """Returns the peak rates of the device that the first graph runs on."""
        built = [p.program.built if isinstance(p.program, SizedProgram) else p.program for p in self.parts]
        gpu = next((part.gpu for part in built if isinstance(part, Built)), None)
        return peaks(again=measure) if gpu is None else gpu_peaks(gpu, again=measure)

    def graphs(self, measure: bool) -> Iterator[Graph]:
        """Yields the report of each part."""
        finish()
        for part in self.parts:
            program = part.program
            built = program.typical() if isinstance(program, SizedProgram) else program
            if not isinstance(built, Built) or part.before is None:
                calls = built if isinstance(built, tuple) else ()
                yield eager(part.name, [(call.callee, call.why, call.where) for call in calls])
                continue
            times: Sequence[float] = ()
            status = None
            timed = measure and not Target.parse(built.target).null
            if timed and built.gpu is None:
                times = step_seconds(load(built), built.program)
            elif timed and built.gpu is not None:
                times = step_seconds_on_gpu(load(built), built.program, built.gpu)
                status = graph_status(load(built, self.options), built.gpu)
            elif built.gpu is not None:
                status = load(built, self.options).status()
            yield self.graph(part, built, times, status)

    def graph(self, part: "Part", built: Built, times: Sequence[float] = (), status: Status | None = None) -> Graph:
        """Returns the report of a part, at the sizes for which its program was bound."""
        sized = part.program if isinstance(part.program, SizedProgram) else None
        assert part.before is not None
        tune, all_sizes = self.options.tune, None if sized is None else sized.variant_of(built).program
        compiled = part.name, built.program, part.before, built.seconds
        report = graph_report(*compiled, times, status, built.choices, tune, all_sizes)
        captured = next(c for c in self.captured if c.name == part.captured)
        report = replace(report, conditions=captured.relations.conditions(self.place))
        if sized is not None:
            symbols = {symbol.name: self.named(symbol) for symbol in sized.symbols}
            named = tuple({symbols[name].written: size for name, size in sorted(sizes)} for sizes in sized.specialized)
            return replace(report, symbols=tuple(symbols.values()), bound=len(sized.programs()), kept=BOUND, specialized=named)
        if captured.per_size is not None:
            run = captured.per_size
            return replace(report, per_size=run.reason, bound=len(run.variants), kept=VARIANTS)
        return report

    def place(self, source: Any) -> str:
        """Returns where a source of Dynamo is found among the model's arguments: "x, dimension 0"."""
        return re.sub(r"^args\[(\d+)\]", self._parameter, place_of(source))

    def _parameter(self, position: re.Match[str]) -> str:
        i = int(position[1])
        return self.positional[i] if i < len(self.positional) else position[0]

    def named(self, symbol: SizeFacts) -> SizeFacts:
        """Returns the facts about a symbol, with the names of parameters and of its Dim."""
        read = tuple(re.sub(r"^args\[(\d+)\]", self._parameter, place) for place in symbol.read)
        dims = [dim for place in read if isinstance(dim := self.declared.get(place), Dim)]
        return replace(symbol, read=read, called=dims[0].__name__ if dims else "")
