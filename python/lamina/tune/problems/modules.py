"""Tunes the problems of kernel families in a module: calls at the graph level, programs that reduce rows at the plan level."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor
from torch_mlir import ir

from lamina.core.options import Options
from lamina.passes.families.choice import CHOICE, Choice
from lamina.passes.families.select import FAMILIES, candidates, default
from lamina.passes.families.surroundings import has_symbolic_sizes
from lamina.passes.families.vendor.routine import VendorSchedule
from lamina.passes.tile.row_programs import row_problems
from lamina.targets import Backend

from ..question import Question
from ..store.store import Store
from ..tuner import Heard, Seen, ignore, may_answer, tune
from .inputs import dtype_of
from .parts import BuiltCandidate, ModulePart, random_inputs
from .row_programs import RowPart
from .subgraph_extraction import Subgraph


def annotate(
    module: ir.Module, backend: Backend, index: int, options: Options, store: Store, heard: Heard = ignore, **seen: Unpack[Seen]
) -> None:
    """Writes tuning's choices on the calls of a module at the graph level that a kernel family reads; at the plan level, on the
    kernel functions that reduce rows.

    index  of the GPU that measures, where options.tune allows it
    heard  is told every answer once
    """
    if may_answer(index, options, store):
        with module.context, ir.Location.unknown():
            found = list(_open_problems(module, backend, options))
        tune(found, index, options.tune, store, heard, **seen)


@dataclass(frozen=True)
class _OpenProblem:
    """A problem without a choice; implements Tunable. choices: the candidates, by name."""

    part: ModulePart
    question: Question
    choices: Mapping[str, Choice]
    backend: Backend
    options: Options
    context: ir.Context

    def inputs(self, device: torch.device) -> list[Tensor]:
        """Returns random inputs of the part."""
        return random_inputs(self.part, device)

    def build(self, name: str, inputs: list[Tensor]) -> BuiltCandidate:
        """Returns a candidate on these inputs, not compiled yet."""
        return BuiltCandidate(self.part, self.choices[name], self.backend, self.options, self.context, inputs)

    def take(self, name: str) -> None:
        """Writes the choice of this name on the calls."""
        for op in self.part.problem.ops:
            self.choices[name].write(op)


def _open_problems(module: ir.Module, backend: Backend, options: Options) -> Iterator[_OpenProblem]:
    """Yields the problems without a choice that have candidates."""
    asked: dict[str, tuple[Question, Mapping[str, Choice]] | None] = {}  # layers repeat
    gpu, rounds = backend.target.gpu, options.round_intermediates
    planned = any(op.operation.name == "plan.program" for op in module.body.operations)
    extract: Callable[..., ModulePart] = RowPart if planned else Subgraph
    for problem in row_problems(module, gpu, rounds) if planned else (p for f in FAMILIES for p in f.problems(module)):
        if CHOICE in problem.ops[0].attributes or any(map(has_symbolic_sizes, (*problem.before, *problem.ops, *problem.after))):
            continue  # chosen already, or without sizes to measure at
        part = extract(problem, rounds)
        if part.key not in asked:
            listed = problem.candidates(gpu) if planned else candidates(problem, backend.target, rounds)
            usual = problem.default(gpu) if planned else default(problem, backend.target, rounds)
            asked[part.key] = _question(part, usual, listed)
        if (known := asked[part.key]) is not None:
            yield _OpenProblem(part, *known, backend, options, module.context)


def _question(part: ModulePart, usual: Choice, listed: Sequence[Choice]) -> tuple[Question, Mapping[str, Choice]] | None:
    """Returns the question which candidate is fastest: first what is used if nothing is measured, then the reference, then the most
    promising. None without candidates, or where there are no random numbers for the inputs. A vendor's routine that is used if
    nothing is measured is the reference, too."""
    if not listed or any(dtype_of(element) is None for element, *_ in part.memory):
        return None
    library = part.problem.reference
    reference = usual if isinstance(usual.kernel, VendorSchedule) else library
    choices = {str(c): c for c in (usual, reference, *listed, library)}
    return Question(part.key, part.what, tuple(choices), str(reference)), choices
