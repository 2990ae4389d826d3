"""Serializes compiled graphs as cache entries, and reads them back: an entry counts only where it fits the graph that it was found
for."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from lamina.core import program_json
from lamina.core.program import Program
from lamina.core.program_check import fault
from lamina.runtime.cache import Entry
from lamina.tune.choice import TunedChoice

from ..calls.interface import Interface
from ..fx.aliases import ConstantResult, ViewResult


class Stored(NamedTuple):
    """The contents of an entry; see stages.Built."""

    program: Program
    code: bytes
    kernels: tuple[str, ...]
    messages: tuple[str, ...]
    target: str
    interface: Interface
    choices: tuple[TunedChoice, ...]


def entry_of(stored: Stored) -> Entry:
    """Returns the cache entry of a compiled graph."""
    meta = {
        "kernels": stored.kernels,
        "messages": stored.messages,
        "target": stored.target,
        "interface": stored.interface.to_json(),
        "choices": [choice.to_json() for choice in stored.choices],
    }
    return Entry(program_json.dumps(stored.program), stored.code, meta)


def read(entry: Entry, gm: fx.GraphModule) -> Stored | None:
    """Returns what `entry_of` was given for this graph; None for any other entry, whatever is wrong with it."""
    try:
        return _read(entry, gm)
    except Exception:  # fields of a file may have any type, and compiling again is right for all errors
        return None


def _read(entry: Entry, gm: fx.GraphModule) -> Stored | None:
    meta = entry.meta
    kernels, messages = _texts(meta["kernels"]), _texts(meta["messages"])
    interface = Interface.from_json(meta["interface"])
    choices = tuple(map(TunedChoice.from_json, meta["choices"]))
    program = program_json.loads(entry.program_json)
    if not isinstance(meta["target"], str) or fault(program, kernels) or not _fits(interface, program, gm):
        return None
    return Stored(program, entry.object, kernels, messages, meta["target"], interface, choices)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, str) for v in value):
        raise TypeError("no texts")
    return tuple(value)


def _fits(interface: Interface, program: Program, gm: fx.GraphModule) -> bool:
    """Returns whether arguments, results and captured tensors are those of the graph, as far as its nodes tell."""
    arguments = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if not all(type(i) is int and 0 <= i < len(interface.inputs) for i in interface.moved):
        return False
    if interface.moved and program.device != "cuda":
        return False
    (results,) = (node.args[0] for node in gm.graph.nodes if node.op == "output")
    results = list(results) if isinstance(results, list | tuple) else [results]
    if interface.arguments != len(arguments) or len(interface.outputs) != len(results):
        return False
    given = [_shape(arguments[i]) for i in interface.inputs if _is_count(i)] + [tuple(t.shape) for t in interface.tensors(gm)]
    if len(given) != len(program.inputs) or len(given) != len(interface.inputs) + len(interface.captured):
        return False
    if any(shape is not None and shape != spec.shape for shape, spec in zip(given, program.inputs, strict=True)):
        return False
    views = [(output.shape, output.strides) for output in interface.outputs if isinstance(output, ViewResult)]
    if views != [(ref.shape, ref.strides) for ref in program.outputs]:
        return False
    return all(_is_result(output, result) for output, result in zip(interface.outputs, results, strict=True))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _shape(node: Any) -> tuple[int, ...] | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return tuple(value.shape) if isinstance(value, Tensor) else None


def _is_result(output: Any, result: Any) -> bool:
    if isinstance(output, ConstantResult):
        value = result.meta.get("val") if isinstance(result, fx.Node) else result
        return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) or repr(output.value) == repr(value)
    shape = _shape(result)
    dtype_of = result.meta["val"].dtype if shape is not None else output.dtype
    return isinstance(output.dtype, torch.dtype) and shape in (None, output.shape) and dtype_of == output.dtype
