"""Serializes compiled graphs as cache entries, and reads them back: an entry is used only if it fits the graph that it was found
for."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

import torch
from torch import Tensor, fx

from lamina.core import program_json
from lamina.core.binding.later import LaterKernel
from lamina.core.program import Program, When
from lamina.core.program_check import first_fault
from lamina.core.program_json import codec
from lamina.core.sizes import SizeLike, without_hints
from lamina.runtime.cache import Cache, Entry
from lamina.tune.choice import TunedChoice

from ..calls.interface import Interface
from ..fx.aliases import ConstantResult
from ..fx.sizes import exact_sizes


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The entry of a compiled graph in the cache.

    program    what the runtime runs, with the FX graph's outputs (those that are tensors)
    code       the object file or cubin; kernels, messages and target are those of targets.base.Artifact
    interface  how the graph's arguments and outputs map to the program's
    choices    tuning's answers for the graph's hot ops
    later      kernels for ranges of sizes that no call has met yet
    to_tile    the passes that tile them, as pipeline text
    source     the graph at the linalg level, where calls of another scale may need another program; else ""
    outgrown   groups of conditions: a call for which all of a group hold is of another scale than the one that was traced
    """

    program: Program
    code: bytes
    kernels: tuple[str, ...]
    messages: tuple[str, ...]
    target: str
    interface: Interface
    choices: tuple[TunedChoice, ...] = ()
    later: tuple[LaterKernel, ...] = ()
    to_tile: str = ""
    source: str = ""
    outgrown: tuple[tuple[When, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Built(Stored):
    """One compiled graph.

    gpu      the number of the GPU that the graph's tensors are on; None if they are on the CPU
    cached   it came out of the cache
    key      its name in the cache, if it is there
    seconds  time of each stage and pass
    """

    gpu: int | None = None
    cached: bool = False
    key: str = ""
    seconds: dict[str, float] = field(default_factory=dict)


_META = {name: codec(hint) for name, hint in get_type_hints(Stored).items() if name not in ("program", "code")}


def take(key: str, gm: fx.GraphModule, gpu: int | None) -> Built | None:
    """Returns the compiled graph that the cache has under a key. Returns None if there is none, or one that does not fit the graph,
    which is dropped. gpu: see Built"""
    cache = Cache()
    if (entry := cache.get(key)) is None:
        return None
    if (found := read(entry, gm)) is None:
        cache.drop(key)
        return None
    return Built(**vars(found), gpu=gpu, cached=True, key=key)


def keep(built: Built, key: str) -> Built:
    """Stores a compiled graph in the cache, and returns it with its key."""
    Cache().put(key, entry_of(built))
    return replace(built, key=key)


def entry_of(stored: Stored) -> Entry:
    """Returns the cache entry of a compiled graph."""
    meta = {name: one.write(getattr(stored, name)) for name, one in _META.items()}
    return Entry(program_json.dumps(stored.program), stored.code, meta)


def read(entry: Entry, gm: fx.GraphModule) -> Stored | None:
    """Returns the arguments that `entry_of` was called with for this graph; None for any other entry, whatever is wrong with it."""
    try:
        meta = {name: one.read(entry.meta[name]) for name, one in _META.items()}
        stored = Stored(program=program_json.loads(entry.program_json), code=entry.object, **meta)
        return (
            None
            if first_fault(stored.program, (*stored.kernels, *(kernel.name for kernel in stored.later)))
            or not _fits(stored.interface, stored.program, gm)
            else stored
        )
    except Exception:  # a file may hold anything, and compiling again is right for all errors
        return None


def _fits(interface: Interface, program: Program, gm: fx.GraphModule) -> bool:
    """Returns whether arguments, results and captured tensors are those of the graph, as far as its nodes tell."""
    arguments = gm.graph.find_nodes(op="placeholder")
    results = gm.graph.output_node().args[0]
    results = list(results) if isinstance(results, list | tuple) else [results]
    if (interface.arguments, len(interface.outputs)) != (len(arguments), len(results)):
        return False
    if min((*interface.inputs, *interface.moved), default=0) < 0 or max(interface.moved, default=-1) >= len(interface.inputs):
        return False
    if interface.moved and program.device != "cuda":
        return False
    given = [_shape(arguments[i]) for i in interface.inputs] + [_sizes(t.shape) for t in interface.tensors(gm)]
    if len(given) != len(program.inputs):
        return False
    if any(shape is not None and shape != _sizes(spec.shape) for shape, spec in zip(given, program.inputs, strict=True)):
        return False
    if [(view.shape, view.strides) for view in interface.views()] != [(ref.shape, ref.strides) for ref in program.outputs]:
        return False
    return all(_is_result(output, result) for output, result in zip(interface.outputs, results, strict=True))


def _shape(node: Any) -> tuple[SizeLike, ...] | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return _sizes(exact_sizes(value.shape)) if isinstance(value, Tensor) else None


def _sizes(shape: Iterable[SizeLike]) -> tuple[SizeLike, ...]:
    return tuple(map(without_hints, shape))


def _is_result(output: Any, result: Any) -> bool:
    if isinstance(output, ConstantResult):
        value = result.meta.get("val") if isinstance(result, fx.Node) else result
        return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) or repr(output.value) == repr(value)
    shape = _shape(result)
    return shape is None or (shape, result.meta["val"].dtype) == (_sizes(output.shape), output.dtype)
