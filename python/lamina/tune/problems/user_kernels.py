"""Tunes the config that a user's kernel is compiled with: asks tuning for each launch of a program, and writes the answer into
it."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch
from torch import Tensor
from torch_mlir import ir

from lamina.core.options import Tune
from lamina.core.program import ITEM_BYTES, Buffer, Call, Program, Ref, TensorSpec
from lamina.core.program_needs import fixed, with_needs
from lamina.dialects import context
from lamina.targets import Artifact, Backend
from lamina.targets.kernel_calls.user import REASON, alignment, refs_of, take

from ..clocks import Clock
from ..question import Question
from ..revision import digest
from ..store.store import Store
from ..tuner import Heard, Seen, tune
from .inputs import DTYPES, random_tensors
from .parts import COMPILER, BuiltProgram


def chosen(
    program: Program,
    functions: Mapping[str, Any],
    backend: Backend,
    index: int,
    policy: Tune,
    store: Store,
    heard: Heard,
    *,
    clock: Clock | None = None,
    **seen: Unpack[Seen],
) -> Program:
    """Returns the program with the configs that tuning chose.

    functions  users' kernels, by key
    index      of the GPU that measures, where the policy allows it
    heard      is told every answer once
    """
    found = {
        i: _OpenConfig(step, functions, backend)
        for i, step in enumerate(program.steps)
        if isinstance(step, Call) and alternatives(step)
    }
    tune(list(found.values()), index, policy, store, heard, clock=clock, **seen)
    return replace(program, steps=tuple(found[i].step if i in found else step for i, step in enumerate(program.steps)))


@dataclass
class _OpenConfig:
    """A call of a user's kernel that may have several configs; implements Tunable."""

    step: Call
    functions: Mapping[str, Any]
    backend: Backend

    @property
    def question(self) -> Question:
        return question_of(self.step)

    def inputs(self, device: torch.device) -> list[Tensor]:
        return random_inputs(self.step, device)

    def build(self, name: str, inputs: list[Tensor]) -> "BuiltKernel":
        return BuiltKernel(with_config(self.step, name), self.functions, self.backend, inputs)

    def take(self, name: str) -> None:
        self.step = with_config(self.step, name)


def alternatives(step: Call) -> dict[str, dict[str, Any]]:
    """Returns the configs that tuning may choose from for a step, by name."""
    text = dict(step.kwargs).get("alternatives") if step.reason == REASON else ""
    found: dict[str, dict[str, Any]] = json.loads(str(text)) if text else {}
    return found


def question_of(step: Call) -> Question:
    """Returns the question of which config is fastest for a call of a user's kernel."""
    said = dict(step.kwargs)
    refs = refs_of(step)
    what = f"{said['name']} {', '.join(f'{r.dtype} ' + 'x'.join(map(str, r.shape)) for r in refs)}"
    follows = [said["epilogue"]] if "epilogue" in said else []
    depends = (said["key"], said["alternatives"], *follows, [(r.dtype, r.shape, r.strides, alignment(r)) for r in refs])
    return Question(f"{what} {digest(repr(depends))}", what, tuple(alternatives(step)))


def with_config(step: Call, name: str) -> Call:
    """Returns the call with the config called `name`."""
    config = {key: tuple(v) if isinstance(v, list) else v for key, v in alternatives(step)[name].items()}
    return replace(step, kwargs=tuple((key, config.get(key, value)) for key, value in step.kwargs))


class BuiltKernel(BuiltProgram):
    """One config of a kernel."""

    def __init__(self, step: Call, functions: Mapping[str, Any], backend: Backend, inputs: Sequence[Tensor]) -> None:
        super().__init__(inputs)
        self.step, self.functions, self.backend = step, functions, backend

    def compile(self) -> None:
        """Compiles and loads a program with this step alone."""
        self.load(*self.program())

    def program(self) -> tuple[Program, Artifact]:
        """Returns a program with this step alone, and its code."""
        with COMPILER, context(), ir.Location.unknown():
            gpu = self.backend.target.gpu
            program, ready = take(alone(self.step), self.functions, gpu)
            artifact = self.backend.compile(ir.Module.create(), ready)
        return with_needs(program, artifact.needs), artifact


def alone(step: Call) -> Program:
    """Returns a program with this step alone. Its inputs are flat memory, in which each tensor begins with the alignment that is
    known of it."""
    taken, outs = refs_of(step)[: -len(step.outs)], step.outs
    inputs = tuple(TensorSpec(ref.dtype, (_elements(ref),), (1,)) for ref in taken)
    given = tuple(replace(ref, buffer=i, offset=_start(ref)) for i, ref in enumerate(taken))
    made = tuple(replace(ref, buffer=len(taken) + i, offset=0) for i, ref in enumerate(outs))
    buffers = (
        *(Buffer("input", i, 0, _elements(ref) * ITEM_BYTES[ref.dtype], 0) for i, ref in enumerate(taken)),
        *(Buffer("output", i, 0, _span(ref) * ITEM_BYTES[ref.dtype], -1) for i, ref in enumerate(outs)),
    )
    return Program(0, 0, 0, inputs, buffers, (), (replace(step, args=given, outs=made),), made, device="cuda")


def random_inputs(step: Call, device: torch.device) -> list[Tensor]:
    """Returns random memory for `alone`."""
    flat = [(DTYPES[ref.dtype], (_elements(ref),), (1,)) for ref in refs_of(step)[: -len(step.outs)]]
    return random_tensors(flat, device)


def _start(ref: Ref) -> int:
    """The byte offset of a tensor in its input: 0 where its full alignment is known."""
    return alignment(ref) % 16


def _elements(ref: Ref) -> int:
    return _start(ref) // ITEM_BYTES[ref.dtype] + _span(ref)


def _span(ref: Ref) -> int:
    sizes = [fixed(n, "a tensor") for n in ref.shape]
    reach = sum((n - 1) * fixed(s, "a tensor") for n, s in zip(sizes, ref.strides, strict=True))
    return 1 + reach if math.prod(sizes) else 0
