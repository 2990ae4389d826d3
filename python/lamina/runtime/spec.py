"""Converts a Program to the input of `lamina._native.Runner`: plain tuples and dicts, with every call resolved.

A ref is (buffer, offset, dtype, shape, strides); calls name tensors by index into `tensors`, so that equal refs share one. See
native/build.cpp for the reader.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from lamina.core.errors import CompileError
from lamina.core.program import Arg, Call, Launch, Program, Ref
from lamina.core.sizes import is_symbolic
from lamina.kernels.library import writes_first

from .dispatcher import dispatcher_call
from .library import library_call
from .packing import gemm, weight_reorder
from .resolve import out_variant, overload, resolve_constant


def spec_of(
    program: Program, kernels: Mapping[str, int], messages: Sequence[str], on: str = "cpu", frozen: Collection[int] = ()
) -> dict[str, Any]:
    """Returns the runner's input. Raises CompileError for a program with symbolic sizes.

    kernels   addresses by symbol
    messages  texts for the codes in the kernels' error slot, from 1
    on        the device of the tensors, "cpu" or "cuda"
    frozen    inputs that do not change in place, whose packed copies are kept on the CPU
    """
    taken = [step.sizes for step in program.steps if isinstance(step, Launch)]
    if any(map(is_symbolic, (*(spec.shape for spec in program.inputs), *taken))) or program.sizes:
        raise CompileError(f"program {program.name} has sizes that depend on the call", remedy="bind it to the call's sizes")
    tensors, updated = _Tensors(), _updated(program)
    steps = [
        _launch(step, kernels) if isinstance(step, Launch) else _call(number, step, program, tensors, on, frozen)
        for number, step in enumerate(program.steps)
    ]
    return {
        "name": program.name,
        "arena_bytes": program.arena_bytes,
        "messages": list(messages),
        "inputs": [(i.dtype, i.shape, i.strides, i.align, n in updated) for n, i in enumerate(program.inputs)],
        "buffers": [(b.kind, b.index, b.offset, b.bytes, b.last) for b in program.buffers],
        "constants": [c.data for c in program.constants],
        "outputs": [_ref(r) for r in program.outputs],
        "steps": steps,
        "tensors": tensors.refs,
        "gpu": None,
    }


def _updated(program: Program) -> set[int]:
    """Returns the inputs that steps write to."""
    written: list[Any] = [step.args[0] for step in program.steps if isinstance(step, Call) and writes_first(step.callee)]
    written += [ref for step in program.steps if isinstance(step, Launch) for ref in step.args[len(step.args) - step.n_out :]]
    buffers = [program.buffers[ref.buffer] for ref in written if isinstance(ref, Ref)]
    return {buffer.index for buffer in buffers if buffer.kind == "input"}


class _Tensors:
    """The distinct tensors that calls name."""

    def __init__(self) -> None:
        self.refs: list[tuple[Any, ...]] = []
        self._index: dict[tuple[Any, ...], int] = {}

    def index(self, ref: Ref | None) -> int:
        """Returns a ref's number, adding it where it is new; -1 for None."""
        if ref is None:
            return -1
        plain = _ref(ref)
        if plain not in self._index:
            self._index[plain] = len(self.refs)
            self.refs.append(plain)
        return self._index[plain]


def _ref(r: Ref) -> tuple[Any, ...]:
    return (r.buffer, r.offset, r.dtype, tuple(r.shape), tuple(r.strides))


def _launch(step: Launch, kernels: Mapping[str, int]) -> dict[str, Any]:
    if step.kernel not in kernels:
        raise CompileError(f"kernel {step.kernel} is not in the object", where=", ".join(step.where), remedy="compile it again")
    return {
        "kernel": kernels[step.kernel],
        "args": [_ref(r) for r in (*step.args, *step.scratch)],
        "grid": step.grid,
        "grid_yz": step.grid_yz,
        "bytes": step.bytes,
        "flops": step.flops,
        "threads": step.threads,
        "threads_yz": step.threads_yz,
        "cluster": step.cluster,
        "shared": step.shared,
        "dependent": step.dependent,
        "name": step.name or step.kernel,
        "sizes": np.array(step.sizes, f"<i{step.size_bytes}").tobytes(),
    }


def _call(number: int, step: Call, program: Program, tensors: _Tensors, on: str, frozen: Collection[int]) -> dict[str, Any]:
    function = overload(step.callee, step.where)
    variant = out_variant(function) if step.outs else None
    library = library_call(step, on)
    on_cpu = library if program.device == "cpu" else None

    def arg(value: Arg) -> tuple[str, Any]:
        """Describes an argument: a tensor by its number, a list, or a constant."""
        if isinstance(value, Ref):
            return ("tensor", tensors.index(value))
        if isinstance(value, tuple):
            return ("list", [arg(v) for v in value])
        return ("value", resolve_constant(value))

    return {
        "name": step.name or step.callee,
        "callable": variant[0] if variant else function,
        "args": [arg(a) for a in step.args],
        "kwargs": [(name, arg(a)) for name, a in step.kwargs],
        "outs": [tensors.index(r) for r in step.outs],
        "owned": [-1 if r is None or program.buffers[r.buffer].last == number else tensors.index(r) for r in step.owned],
        "out_names": list(variant[1]) if variant else [],
        "library": library and {**library, "tensors": [tensors.index(t) for t in library["tensors"]]},
        "dispatcher": None if library else dispatcher_call(step, tensors.index),
        "gemm": gemm(step, program, frozen) if on_cpu else None,
        "reorder": weight_reorder(step, program, frozen) if on_cpu else None,
    }
