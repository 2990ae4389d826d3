"""Finds out what a call with other sizes would do with the graphs of an explanation, without making the call."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.core.sizes import LEAST
from lamina.core.sizes.facts import NamedSizes, SizeFacts, named_sizes, unknown_names, values_of
from lamina.core.target import Target
from lamina.report.at_sizes import AtSizes, GraphAtSizes, Outcome

from ..capture.open_sizes import bounds, place_text, range_text
from ..compiling.per_size import VARIANTS, PerSize
from ..compiling.sized import SizedProgram
from ..compiling.stored import Built
from ..fx.sizes import source_text, symbols_among
from .explain_backend import Captured, ExplainBackend, Part
from .export import split_inputs

Arguments = Mapping[int, tuple[str, Any]]
"""Arguments of a captured graph, by number: the name and the tensor or int."""


def at_sizes(recorder: ExplainBackend, bind: Any, inputs: Any) -> AtSizes:
    """Returns the effect of a call: see Explanation.at.

    bind    returns (positional, keyword) inputs by the names that Dynamo's sources use
    inputs  example inputs, or sizes
    """
    graphs = recorder.captured
    wanted = named_sizes(inputs)
    if wanted is None:
        scope = bind(*split_inputs(inputs))
        return AtSizes(tuple(_graph(recorder, captured, _arguments(recorder, captured, scope)) for captured in graphs))
    symbols = [_symbols(recorder, captured) for captured in graphs]
    known = [symbol for of_graph in symbols for symbol in of_graph]
    if names := unknown_names(wanted, known):
        named = sorted({symbol.written for symbol in known})
        raise CompileError(f"no size is called {names[0]!r}", remedy=f"those that calls vary are {', '.join(named)}")
    wished = [_arguments_of_sizes(recorder, captured, facts, wanted) for captured, facts in zip(graphs, symbols, strict=True)]
    return AtSizes(tuple(_graph(recorder, captured, arguments) for captured, arguments in zip(graphs, wished, strict=True)))


def _symbols(recorder: ExplainBackend, captured: Captured) -> list[SizeFacts]:
    return [recorder.named(symbol) for symbol in symbols_among(captured.values)]


def _arguments_of_sizes(
    recorder: ExplainBackend, captured: Captured, symbols: Sequence[SizeFacts], wanted: NamedSizes
) -> Arguments:
    """Returns arguments of the wanted sizes; symbols that are not named have those of the first call."""
    values = {symbol.name: symbol.typical for symbol in symbols} | values_of(wanted, symbols)

    def value(size: Any) -> int:
        """Evaluates a size."""
        if not isinstance(size, torch.SymInt):
            return int(size)
        expression = size.node.expr
        return int(expression.xreplace({s: values[str(s)] for s in expression.free_symbols if str(s) in values}))

    arguments: dict[int, tuple[str, Any]] = {}
    for i, (source, like) in enumerate(zip(captured.sources, captured.values, strict=True)):
        name = f"argument {i}" if source is None else recorder.place(source)
        if isinstance(like, Tensor):
            arguments[i] = (name, torch.empty([value(n) for n in like.shape], dtype=like.dtype, device="meta"))
        elif isinstance(like, int | torch.SymInt):
            arguments[i] = (name, value(like))
    return arguments


def _arguments(recorder: ExplainBackend, captured: Captured, scope: Mapping[str, Any]) -> Arguments | None:
    """Returns the arguments of a graph in a call with these inputs; None if the model computes one with sizes."""
    arguments: dict[int, tuple[str, Any]] = {}
    for i, (source, like) in enumerate(zip(captured.sources, captured.values, strict=True)):
        if source is None or not isinstance(like, Tensor | int | torch.SymInt):
            continue
        text = source_text(source)
        if not text.startswith("L["):
            continue
        try:
            arguments[i] = (recorder.place(source), eval(text, {}, {"L": scope}))  # as Dynamo's guards do
        except (LookupError, AttributeError, TypeError):
            if isinstance(like, Tensor):
                return None  # others are sizes of tensors that have fewer dimensions
    return arguments


def _graph(recorder: ExplainBackend, captured: Captured, arguments: Arguments | None) -> GraphAtSizes:
    """Returns what a call with these arguments would do with a captured graph."""
    if arguments is None:
        return GraphAtSizes(captured.name, "unknown", {}, "the model makes its arguments between graphs: give sizes by name")
    unguarded = captured.relations.unguarded
    fails: Outcome = "refused" if recorder.declared or unguarded else "compiled"
    if why := _other_kind(captured, arguments):
        return GraphAtSizes(captured.name, fails, {}, why)
    sizes = captured.relations.values(arguments)
    shown = {fact.called or fact.read[0]: sizes[fact.name] for fact in _symbols(recorder, captured)}
    if why := _out_of_range(recorder, arguments):
        return GraphAtSizes(captured.name, "refused", shown, why)
    if any(size < LEAST for name, size in sizes.items() if name not in unguarded):
        return GraphAtSizes(captured.name, "compiled", shown, "graphs for sizes of 0 and 1 are compiled apart")
    try:
        served = captured.relations.serve(arguments)
    except ValueError as error:
        return GraphAtSizes(captured.name, fails, shown, str(error))
    if not served:
        return GraphAtSizes(captured.name, "compiled", shown, "compiling has fixed what these sizes change")
    if captured.per_size is not None:
        outcome, why = _per_size(captured.per_size, arguments)
        return GraphAtSizes(captured.name, outcome, shown, why)
    parts = [(part, part.program) for part in recorder.parts if part.captured == captured.name and part.before is not None]
    sized = [program for _, program in parts if isinstance(program, SizedProgram)]
    known = all(tuple(sizes[name] for name in program.sources) in program.programs() for program in sized)
    bound = [(part, program.at(sizes) if isinstance(program, SizedProgram) else program) for part, program in parts]
    return GraphAtSizes(
        captured.name,
        "known" if known else "new",
        shown,
        parts=tuple(recorder.graph(part, built) for part, built in bound if isinstance(built, Built)),
        cuda_graph=_cuda_graph(recorder.options, bound) if sized else "",
    )


def _other_kind(captured: Captured, arguments: Arguments) -> str:
    """Returns how a tensor differs from the captured one in other ways than its sizes; "" if none does."""
    for i, (name, argument) in arguments.items():
        like = captured.values[i]
        for what in ("dtype", "ndim", "device") if isinstance(like, Tensor) else ():
            if getattr(argument, what) != getattr(like, what) and argument.device.type != "meta":
                return f"the {what} of {name!r} is {getattr(argument, what)}, and {getattr(like, what)} when compiled"
    return ""


def _out_of_range(recorder: ExplainBackend, arguments: Arguments) -> str:
    """Returns which size is outside of the range that dynamic_shapes declares; "" if none is."""
    for name, value in arguments.values():
        for d, size in enumerate(value.shape if isinstance(value, Tensor) else ()):
            low, high = bounds(dim) if (dim := recorder.declared.get(f"{name}, dimension {d}")) is not None else (0, None)
            if size < low or (high is not None and size > high):
                return f"{place_text(name, d)} must be {range_text(low, high)}; it is {size}"
    return ""


def _per_size(run: PerSize, arguments: Arguments) -> tuple[Outcome, str]:
    shapes = [tuple(v.shape) if isinstance(v, Tensor) else v for v in (arguments[i][1] for i in run.open)]
    known = any(shapes == [tuple(n[0]) if isinstance(n, tuple) else n for n in key[: len(shapes)]] for key in run.variants)
    kept = f"the last {VARIANTS} are kept, {len(run.variants)} now"
    return ("known" if known else "compiled"), f"once per size, as {run.reason} ({kept})"


def _cuda_graph(options: Options, bound: Sequence[tuple[Part, Any]]) -> str:
    if not options.cuda_graphs or not any(Target.parse(built.target).is_gpu for _, built in bound):
        return ""
    return f"recorded for each set of sizes; the process keeps the last {options.graph_limit}"
