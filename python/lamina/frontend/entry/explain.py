"""Implements `lamina.explain`: compiles a model through the torch.compile entry point, recording what it became."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from lamina.core.options import Options
from lamina.core.sizes import LEAST
from lamina.core.target import Target
from lamina.report.collect import eager
from lamina.report.collect import graph as graph_report
from lamina.report.explanation import Break, Explanation, Graph, Guard, Peaks, Recompile, Unfused
from lamina.report.gpu import gpu_peaks, graph_status, step_seconds_on_gpu
from lamina.report.measure import step_seconds
from lamina.report.roofline import peaks
from lamina.report.unfused import count

from ..capture.as_module import closed_over, signature_of
from ..capture.open_sizes import bounds, is_automatic
from ..compiling.per_size import PerSize, per_size
from ..compiling.sized import SizedProgram
from ..compiling.split import Outside, compile_graph
from ..compiling.stages import Built, load
from ..custom.substitute import with_registered
from ..fx.destination import check_name
from .arguments import Arguments
from .backend_error import passed_on
from .dynamo import autograd
from .export import split_inputs
from .model import CompiledModel, given

_FUSION = ("lamina-split-reductions", "lamina-fuse")
"""The passes that divide the work into kernels; the first of them sees the graph as it would run without fusion."""

Part = Built | SizedProgram | tuple[Outside, ...]


def explain(
    model: Callable[..., Any],
    example_inputs: Any,
    *,
    more: Sequence[Any] = (),
    target: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    training: bool = False,
    measure: bool = False,
    show: bool = True,
    dynamic_shapes: Any = None,
) -> Explanation:
    """Compiles and runs the model once and reports what was compiled: see lamina.report.explanation.

    more      further inputs to call it with, to see what recompiles
    training  with gradients: forward and backward graphs (of the sum of the results)
    measure   time every kernel and call, on random inputs
    show      print the report, too
    dynamic_shapes  the sizes that are symbols, as in lamina.compile; all of them for a model that torch.compile(dynamic=True) or
              lamina.compile(dynamic_shapes=...) has returned

    The model's state stays as it is. As with torch._dynamo.explain, functions compiled by torch.compile recompile at their next
    call.
    """
    if not callable(model):
        raise TypeError(f"model must be a module or a function, not {type(model).__name__}")
    check_name(target)
    recorder = _Recorder(with_registered(replace(Options.of(options), cache=False)), target)
    torch._dynamo.reset()
    earlier = _metrics()  # compared by identity below: torch keeps only the last few, so their count may not grow
    dynamic = _is_dynamic(model)
    if isinstance(model, CompiledModel):
        model, sizes = given(model)
        dynamic_shapes = sizes if dynamic_shapes is None else dynamic_shapes
    try:
        with _unchanged(model := _plain(model)):
            run = torch._dynamo.optimize(recorder.backend, guard_export_fn=recorder.guard, dynamic=dynamic)(model)
            for inputs in (example_inputs, *more):
                _call(run, model, inputs, training, dynamic_shapes)
        recompiles = tuple(_recompile(m) for m in _metrics() if m.recompile_reason and not any(m is e for e in earlier))
    finally:
        torch._dynamo.reset()
    found = Explanation(
        graphs=tuple(recorder.graphs(measure)),
        breaks=tuple(recorder.breaks),
        guards=tuple(recorder.guards),
        recompiles=recompiles,
        peaks=recorder.peaks(measure),
    )
    if show:
        found.print()
    return found


class _Recorder:
    """A backend that compiles as Lamina's does and records what it sees."""

    def __init__(self, options: Options, target: str | None) -> None:
        self.options = options
        self.target = target
        self.parts: list[tuple[str, Part, Unfused | None]] = []
        self.per_size: dict[str, str] = {}  # why a graph is compiled for each set of sizes apart
        self.breaks: list[Break] = []
        self.guards: list[Guard] = []
        self._captured = 0

    def backend(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles a graph that Dynamo has captured, and notes the graph break before it."""
        reason = getattr(gm, "compile_subgraph_reason", None)
        if reason is not None and reason.graph_break:
            lines = [f"{frame.filename}:{frame.lineno}" for frame in reason.user_stack]
            self.breaks.append(Break(reason.reason, tuple(dict.fromkeys(reversed(lines)))))
        name = f"graph {self._captured}"
        self._captured += 1
        compile_one = functools.partial(self.compile, name)
        trace = functools.partial(autograd, options=self.options, target=self.target, compile=compile_one)
        with passed_on():
            run = per_size(gm, trace, inputs)
        if isinstance(run, PerSize) and run.reason:
            self.per_size[name] = run.reason
            self.parts = [part for part in self.parts if part[0].split(",")[0].removesuffix(" backward") != name]
        return run

    def compile(self, name: str, gm: fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        """Compiles a forward or a backward graph, and keeps its parts with their ops before fusion."""
        parts: list[Part] = []
        before: dict[int, Unfused] = {}

        def watch(path: str, module: Any) -> None:
            if len(parts) not in before and path.startswith(_FUSION):
                before[len(parts)] = count(module)

        run = compile_graph(gm, inputs, options=self.options, target=self.target, listener=parts.append, watch=watch)
        name += " backward" if any(n.op == "placeholder" and n.name.startswith("tangents") for n in gm.graph.nodes) else ""
        for i, part in enumerate(parts):
            named = f"{name}, part {i + 1} of {len(parts)}" if len(parts) > 1 else name
            self.parts.append((named, part, before.get(i)))
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
        built = [part.built if isinstance(part, SizedProgram) else part for _, part, _ in self.parts]
        gpu = next((part.gpu for part in built if isinstance(part, Built)), None)
        return peaks(again=measure) if gpu is None else gpu_peaks(gpu, again=measure)

    def graphs(self, measure: bool) -> Iterator[Graph]:
        """Yields the report of each part."""
        for name, part, before in self.parts:
            built = part.typical() if isinstance(part, SizedProgram) else part
            if not isinstance(built, Built) or before is None:
                yield eager(name, [(call.callee, call.why, call.where) for call in built] if isinstance(built, tuple) else [])
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
            found = graph_report(
                name,
                built.program,
                before,
                built.seconds,
                times,
                status,
                choices=built.choices,
                tune=self.options.tune,
                sized=part.built.program if isinstance(part, SizedProgram) else None,
            )
            if isinstance(part, SizedProgram):
                found = replace(found, symbols=part.symbols, bound=len(part.programs()))
            yield replace(found, per_size=self.per_size.get(name.split(",")[0].removesuffix(" backward"), ""))


def _plain(model: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the model or function that the user wrote, where a compiled one is given."""
    for name in ("_orig_mod", "_torchdynamo_orig_callable", "module"):
        inner = getattr(model, name, None)
        if callable(inner) and (not isinstance(model, nn.Module) or name == "_orig_mod"):
            return _plain(inner)
    return model


def _is_dynamic(model: Callable[..., Any]) -> bool | None:
    """Returns what torch.compile was told of dynamic sizes."""
    context = getattr(model, "dynamo_ctx", None)  # of a module; a function's configuration is made by one
    if context is None and (config := getattr(model, "get_compiler_config", None)) is not None:
        context = closed_over(config).get("self")
    found: bool | None = getattr(context, "_dynamic", None)
    return found


def _mark(model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any) -> None:
    """Tells Dynamo which dimensions of the inputs are symbols. Sizes of 0 and 1 stay constants."""
    form = Arguments(signature_of(model), args, kwargs, dynamic_shapes)
    leaves = form.flatten(*form.bind(args, kwargs))
    for i, dims in form.checked(leaves).items():
        for d, dim in dims.items():
            low, high = bounds(dim)
            if is_automatic(dim):
                torch._dynamo.maybe_mark_dynamic(leaves[i], d)
            else:
                torch._dynamo.mark_dynamic(leaves[i], d, min=max(low, LEAST), max=high)


def _call(run: Callable[..., Any], model: Callable[..., Any], inputs: Any, training: bool, dynamic_shapes: Any) -> None:
    args, kwargs = pytree.tree_map_only(Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), split_inputs(inputs))
    if dynamic_shapes is not None:
        _mark(model, args, kwargs, dynamic_shapes)
    with torch.set_grad_enabled(training):
        results = run(*args, **kwargs)
        if not training:
            return
        loss = sum(t.sum() for t in pytree.tree_leaves(results) if isinstance(t, Tensor) and t.requires_grad)
        own = list(model.parameters()) if isinstance(model, nn.Module) else []
        leaves = [t for t in (*own, *pytree.tree_leaves((args, kwargs))) if isinstance(t, Tensor) and t.requires_grad]
        if isinstance(loss, Tensor) and leaves:
            torch.autograd.grad(loss, leaves, allow_unused=True)


@contextmanager
def _unchanged(model: Callable[..., Any]) -> Iterator[None]:
    """Restores buffers and random number generators after its body."""
    buffers = [(b, b.clone()) for b in model.buffers()] if isinstance(model, nn.Module) else []
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, saved in buffers:
                    buffer.copy_(saved)


def _metrics() -> list[Any]:
    return list(torch._dynamo.utils.get_compilation_metrics())


def _recompile(metric: Any) -> Recompile:
    return Recompile(metric.co_name or "", f"{metric.co_filename}:{metric.co_firstlineno}", str(metric.recompile_reason))
