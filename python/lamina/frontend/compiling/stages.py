"""Compiles an FX graph that one program holds to a callable: the stages of a compilation. `levels` stops between them and prints.

    normalize -> import -> lamina.targets.levels' pipelines -> the target's backend -> lamina.runtime.executable

A graph seen before comes out of the cache without MLIR being imported.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from lamina.core.options import Options
from lamina.core.target import Target
from lamina.runtime.cache import Cache, cache_key

from ..calls.call import adapt
from ..calls.interface import with_outputs
from ..calls.saved import note_free_strides, with_strides
from ..capture.exclusive import BUILDING, COMPILING
from ..capture.frames import in_one_chunk
from ..custom.substitute import with_users_patterns
from ..fx.aliases import ViewResult
from ..fx.destination import Destination, check_devices, destination_of
from ..fx.sizes import is_sized, unguarded
from ..rewrites.normalize import Normalized, normalize
from . import stored
from .bindable import Bindable
from .fingerprint import fingerprint
from .lowering import Lowering, Watch, launched
from .null import Null
from .scales import at_scale
from .sized import SizedProgram
from .specialized import compile_specialized
from .stored import Built
from .tuning import UNSEEN, Session, tuning_state

if TYPE_CHECKING:
    from torch_mlir import ir


ONE_BY_ONE = Options(cuda_graphs=False)


def compile_part(
    gm: fx.GraphModule,
    *,
    options: Options | None = None,
    target: str | None = None,
    listener: Callable[[Built | SizedProgram], None] | None = None,
    watch: Watch | None = None,
    frozen: Collection[int] = (),
) -> Callable[..., Any]:
    """Returns a callable for a part of a graph, or for a whole one, that one program holds: see split.compile_graph, which the
    entry points call."""
    options = options or Options()
    compiled = partial(build, gm, options=options, target=target, watch=watch)
    if is_sized(gm.graph):
        run = SizedProgram(gm, _GraphCompiler(gm, options, target, watch, destination_of(target, gm)))
        note_free_strides(gm, run.built.interface)
        compile_specialized(run, gm, options, partial(_built_on_thread, target=target, frozen=frozen))
        if listener is not None:
            listener(run)
        return run
    built = compiled()
    try:
        executable = load(built, options, frozen)
    except Exception:
        if not built.cached:
            raise
        Cache().drop(built.key)  # its code does not load: compile the entry again
        built = compiled()
        executable = load(built, options, frozen)
    note_free_strides(gm, built.interface)
    if listener is not None:
        listener(built)
    return adapt(executable, built.interface, _captured(gm, built))


@dataclass(frozen=True)
class _GraphCompiler:
    """The GraphCompiler of a graph; see compile_part."""

    gm: fx.GraphModule
    options: Options
    target: str | None
    watch: Watch | None
    destination: Destination

    def build(self, *, wide_sizes: bool = False) -> Built:
        """Compiles the graph, or finds it in the cache."""
        options = replace(self.options, wide_sizes=True) if wide_sizes else self.options
        with unguarded(self.gm.graph):
            return build(self.gm, options=options, target=self.target, watch=self.watch)

    def rescale(self, built: Built, symbols: Mapping[str, int]) -> Built | None:
        """Compiles a program again (see at_scale)."""
        return at_scale(built, symbols, gm=self.gm, options=self.options, destination=self.destination)

    def captured(self, built: Built) -> tuple[Tensor, ...]:
        """Returns the tensors that the graph holds, on the program's device."""
        return _captured(self.gm, built)

    def load(self, built: Built) -> Any:
        """Makes a program callable."""
        return load(built, self.options, ())


def _built_on_thread(gm: fx.GraphModule, options: Options, target: str | None, frozen: Collection[int]) -> Bindable:
    """Compiles a graph on another thread, while one captures."""
    with BUILDING, unset_fake_temporarily():
        built = _build(gm, options, target, None, UNSEEN)
    return Bindable(built, _captured(gm, built), lambda bound: load(bound, options, frozen if not is_sized(gm.graph) else ()))


def _captured(gm: fx.GraphModule, built: Built) -> tuple[Tensor, ...]:
    """Returns the tensors that the graph holds, on the program's device."""
    captured = built.interface.tensors(gm)
    if built.gpu is None:
        return captured
    with unset_fake_temporarily():
        return tuple(value.to(f"cuda:{built.gpu}") for value in captured)


@in_one_chunk
def build(
    gm: fx.GraphModule,
    *,
    options: Options | None = None,
    target: str | None = None,
    watch: Watch | None = None,
    session: Session = UNSEEN,
) -> Built:
    """Returns the program and code of a graph, from the cache or by compiling it. session: of tuning, where there is something to
    tune."""
    with COMPILING, BUILDING, unset_fake_temporarily():
        return _build(gm, options or Options(), target, watch, session)


def _build(gm: fx.GraphModule, options: Options, target: str | None, watch: Watch | None, session: Session) -> Built:
    start = time.perf_counter()
    destination = destination_of(target, gm)
    gm = with_users_patterns(gm, options, destination)
    if not options.cache:
        return _compile(normalize(gm), options, destination, watch, session)
    graph = fingerprint(gm)
    found = stored.take(_key(graph, options, destination), gm, destination.gpu)
    if found is not None:
        return replace(found, seconds={"cache": time.perf_counter() - start})
    built = _compile(normalize(gm), options, destination, watch, session)
    return stored.keep(built, _key(graph, options, destination)) if built.interface.is_storable() else built


def _key(graph: bytes, options: Options, destination: Destination) -> str:
    """Returns the key of the cache's entry for the current state of the tuning store: compiling may have added to it. Deterministic
    programs have entries of their own, as they call other kernels."""
    mode = " deterministic" if torch.are_deterministic_algorithms_enabled() else ""
    return cache_key(
        graph=graph, options=repr(options), target=destination.identity + tuning_state(options, destination.gpu) + mode
    )


def load(built: Built, options: Options = ONE_BY_ONE, frozen: Collection[int] = ()) -> Any:
    """Returns the program as an Executable, with its code in this process; a Null for a null target. `options`: whether runs on a
    GPU are recorded as CUDA graphs; `frozen`: as in compile_part."""
    if Target.parse(built.target).null:
        return Null(built.program)
    from lamina.runtime.executable import Executable
    from lamina.runtime.recording.graphs import recorder_for

    inputs = {i for i, argument in enumerate(built.interface.inputs) if argument in frozen}
    with unset_fake_temporarily():  # Dynamo calls its backends under a fake mode, and constants go to the GPU now
        executable = Executable(built.program, built, recorder=recorder_for(options), frozen=inputs)
        if built.gpu is not None:
            executable.load(built.gpu)  # not at the first call, which may be one that torch captures as a CUDA graph
    return executable


def _compile(graph: Normalized, options: Options, destination: Destination, watch: Watch | None, session: Session) -> Built:
    from lamina.targets.clock import Stopwatch

    clock = Stopwatch()
    check_devices(graph.gm)
    with clock.stage("import"):
        module = import_linalg(graph, options)
    symbolic = is_sized(graph.gm.graph)
    lowering = Lowering(options, destination, symbolic, session, clock, watch)
    source = module.operation.get_asm(enable_debug_info=True) if symbolic and destination.device == "cuda" else ""
    lowered = lowering.lower(module)
    interface = with_strides(graph.interface, lowered.program, (*graph.free, *graph.room))
    program = replace(with_outputs(lowered.program, interface), saved=interface.numbers_of(graph.saved))
    return lowering.build(lowered, program, interface, source)


def source_kernels(module: "ir.Module", graph: Normalized, options: Options, destination: Destination) -> Sequence[Any]:
    """Returns the compiled kernels in source that the program of a module at the tile level calls."""
    from lamina.passes.plan.program import program_from

    with module.context:
        program = with_outputs(program_from(module, destination.device), graph.interface)
    return launched(program, options, destination)[1]


def import_linalg(graph: Normalized, options: Options) -> "ir.Module":
    """Returns the annotated module at the linalg level of a normalized graph."""
    from ..importing.importer import import_graph
    from ..importing.layouts import annotate

    module = import_graph(graph.gm, options=options)
    results = {i: view.index for i, view in enumerate(graph.interface.outputs) if isinstance(view, ViewResult)}
    shares = {results[i]: results[j] for i, j in graph.shares.items()}
    updates = {results[i]: argument for i, argument in graph.updates.items()}
    annotate(module, graph.gm, [results[i] for i in graph.free], shares, [results[i] for i in graph.room], updates)
    return module
