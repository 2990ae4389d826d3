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
from lamina.core.target import Target
from lamina.report.collect import eager
from lamina.report.collect import graph as graph_report
from lamina.report.explanation import Break, Explanation, Graph, Guard, Peaks, Recompile, Unfused
from lamina.report.gpu import gpu_peaks, graph_status, step_seconds_on_gpu
from lamina.report.measure import step_seconds
from lamina.report.roofline import peaks
from lamina.report.unfused import count

from ..compiling.per_size import per_size
from ..compiling.split import Outside, compile_graph
from ..compiling.stages import Built, load
from ..custom.substitute import with_registered
from ..fx.destination import check_name
from .backend_error import passed_on
from .dynamo import autograd
from .export import split_inputs

_FUSION = ("lamina-split-reductions", "lamina-fuse")
"""The passes that divide the work into kernels; the first of them sees the graph as it would run without fusion."""


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
) -> Explanation:
    """Compiles and runs the model once and reports what was compiled: see lamina.report.explanation.

    more      further inputs to call it with, to see what recompiles
    training  with gradients: forward and backward graphs (of the sum of the results)
    measure   time every kernel and call, on random inputs
    show      print the report, too

    The model's state stays as it is. As with torch._dynamo.explain, functions compiled by torch.compile recompile at their next
    call.
    """
    if not callable(model):
        raise TypeError(f"model must be a module or a function, not {type(model).__name__}")
    check_name(target)
    recorder = _Recorder(with_registered(replace(Options.of(options), cache=False)), target)
    torch._dynamo.reset()
    earlier = _metrics()  # compared by identity below: torch keeps only the last few, so their count may not grow
    try:
        with _unchanged(model := _plain(model)):
            run = torch._dynamo.optimize(recorder.backend, guard_export_fn=recorder.guard)(model)
            for inputs in (example_inputs, *more):
                _call(run, model, inputs, training)
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
        self.parts: list[tuple[str, Built | tuple[Outside, ...], Unfused | None]] = []
        self.breaks: list[Break] = []
        self.guards: list[Guard] = []
        self._captured = 0

    def backend(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        reason = getattr(gm, "compile_subgraph_reason", None)
        if reason is not None and reason.graph_break:
            lines = [f"{frame.filename}:{frame.lineno}" for frame in reason.user_stack]
            self.breaks.append(Break(reason.reason, tuple(dict.fromkeys(reversed(lines)))))
        name = f"graph {self._captured}"
        self._captured += 1
        compile_one = functools.partial(self.compile, name)
        trace = functools.partial(autograd, options=self.options, target=self.target, compile=compile_one)
        with passed_on():
            return per_size(gm, trace, inputs)

    def compile(self, name: str, gm: fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        parts: list[Built | tuple[Outside, ...]] = []
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
        for guard in guards:
            kind = guard.create_fn_name() if callable(getattr(guard, "create_fn_name", None)) else str(guard.source)
            frame = guard.user_stack[-1] if guard.user_stack else None
            where = f"{frame.filename}:{frame.lineno}" if frame else ""
            self.guards.append(Guard(kind, guard.name, tuple(guard.code_list or ()), where))

    def peaks(self, measure: bool) -> Peaks:
        """Returns the peak rates of the device that the first graph runs on."""
        gpu = next((part.gpu for _, part, _ in self.parts if isinstance(part, Built)), None)
        return peaks(again=measure) if gpu is None else gpu_peaks(gpu, again=measure)

    def graphs(self, measure: bool) -> Iterator[Graph]:
        for name, built, before in self.parts:
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
            yield graph_report(
                name, built.program, before, built.seconds, times, status, choices=built.choices, tune=self.options.tune
            )


def _plain(model: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the model or function that the user wrote, where a compiled one is given."""
    for name in ("_orig_mod", "_torchdynamo_orig_callable", "module"):
        inner = getattr(model, name, None)
        if callable(inner) and (not isinstance(model, nn.Module) or name == "_orig_mod"):
            return _plain(inner)
    return model


def _call(run: Callable[..., Any], model: Callable[..., Any], inputs: Any, training: bool) -> None:
    args, kwargs = pytree.tree_map_only(Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), split_inputs(inputs))
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
