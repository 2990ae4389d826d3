"""Extracts products and their reader group from a module as a program of its own, which can be compiled and timed."""

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch_mlir import ir

from lamina.core.options import Options
from lamina.core.program import Launch, Program
from lamina.core.program_needs import with_needs
from lamina.kernels.library import STRICT
from lamina.passes.families.choice import CHOICE
from lamina.passes.families.conv.calls import channels_last
from lamina.passes.families.conv.implicit_gemm import ImplicitGemm
from lamina.passes.families.problem import Problem
from lamina.passes.families.surroundings import calls, strides_of
from lamina.passes.infra.pipeline import run
from lamina.passes.ir.locations import op_word
from lamina.passes.ir.reading import producer, shape_of
from lamina.passes.plan.program import program_from
from lamina.runtime.executable import Executable
from lamina.targets import Artifact, Backend
from lamina.targets.kernel_calls.user import take
from lamina.targets.levels import pipeline

from ..revision import digest, revision

_NUMBER = re.compile(r"_\d+$")  # at the end of names: distinguishes groups that compute the same
COMPILER = threading.Lock()  # MLIR's bindings are not thread-safe
DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i1": torch.bool,
    "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2,
}  # fmt: skip


class SubgraphPart(Protocol):
    """A part of a module with its choice open.

    level   of the module `text`
    text    a module whose program takes `inputs`: (type, strides) of each
    """

    level: str
    text: str
    inputs: list[tuple[ir.Type, tuple[int, ...]]]

    @property
    def settle(self) -> "Callable[[Sequence[Tensor]], None]":
        """Fills in those of the random inputs that must have certain values."""
        ...

    def mark(self, module: ir.Module, name: str) -> None:
        """Chooses the candidate called `name`, in a module parsed from the text."""
        ...


class Subgraph:
    """The calls of a problem, their reader and the producers that only they need, as the module `text`, whose @main takes their
    operands and returns what the problem keeps, else the results of the group, else those of the calls.

    rounds  Lamina's kernels round intermediate values of half types, as eager does
    """

    level = "graph"

    def __init__(self, problem: Problem, *, rounds: bool = False) -> None:
        ops, group, before = problem.ops, problem.group, problem.before
        self.rounds, self.settle = rounds, problem.settle
        sums = [op.results[0] for op in ops]
        outside = [v for v in (group.operands if group else ()) if v not in sums]
        made = [v for op in before for v in op.results]
        read = [*(v for op in (*before, *ops) for v in op.operands if v not in made), *outside]
        operands = list(dict.fromkeys(read))
        results = list(problem.kept) or (list(group.results) if group else sums)
        callee = op_word(ir.StringAttr(ops[0].attributes["callee"]).value)
        name = plain_name(group) if group else ""
        first = "".join(f"{plain_name(op)}, then " for op in before if op.name == "graph.group")
        after = f" and {name}" if group else ""
        count = f"{len(ops)} x " if len(ops) > 1 else ""
        shapes = " by ".join("x".join(map(str, ir.RankedTensorType(v.type).shape)) for v in _factors(ops[0]))
        self.what = problem.what or f"{first}{count}{callee} {shapes}{after}"
        strides = [_strides(v, ImplicitGemm.read(ops[0]) is not None) for v in operands]
        with ops[0].context, ir.Location.unknown():
            module = ir.Module.create()
            signature = ir.FunctionType.get([v.type for v in operands], [v.type for v in results])
            given = [ir.DictAttr.get({"graph.strides": ir.DenseI64ArrayAttr.get(s)}) for s in strides]
            with ir.InsertionPoint(module.body):
                main = ir.Operation.create(
                    "func.func",
                    attributes={
                        "sym_name": ir.StringAttr.get("main"),
                        "function_type": ir.TypeAttr.get(signature),
                        "arg_attrs": ir.ArrayAttr.get(given),
                    },
                    regions=1,
                )
            block = main.regions[0].blocks.append(*signature.inputs)
            values = dict(zip(operands, block.arguments, strict=True))
            with ir.InsertionPoint(block):
                for part in (*before, *ops, group) if group else (*before, *ops):
                    _copy(part, values)
                for part in (*before, group):
                    if part is not None and part.name == "graph.group":
                        values[part.results[0]].owner.attributes["sym_name"] = ir.StringAttr.get(plain_name(part))
                ir.Operation.create("func.return", operands=[values[v] for v in results])
            for op in ops:
                if CHOICE in op.attributes:
                    del values[op.results[0]].owner.attributes[CHOICE]
            self.text: str = module.operation.get_asm(enable_debug_info=False)
        self.inputs = [(ir.RankedTensorType(v.type), s) for v, s in zip(operands, strides, strict=True)]

    def mark(self, module: ir.Module, name: str) -> None:
        """Chooses the candidate called `name` for the calls."""
        for call in calls(module):
            call.attributes[CHOICE] = ir.StringAttr.get(name)

    @property
    def key(self) -> str:
        """A key that is equal for equal computations with the same kernels."""
        return f"{self.what} {digest(self.text, str(self.rounds), revision())}"


def plain_name(group: ir.Operation) -> str:
    """Returns the group's name without the number at its end."""
    return _NUMBER.sub("", ir.StringAttr(group.attributes["sym_name"]).value)


def _factors(op: ir.Operation) -> list[ir.Value]:
    """The factors of a product, which come after its addend, or before scales and offsets; of a convolution, before its bias."""
    first = ImplicitGemm.read(op) is not None or ir.StringAttr(op.attributes["callee"]).value in STRICT
    return list(op.operands)[:2] if first else list(op.operands)[-2:]


def _strides(v: ir.Value, windows: bool) -> tuple[int, ...]:
    """The strides that an operand will have: Lamina's kernels write channels-last images where convolutions are near."""
    made = producer(v)
    images = windows and made is not None and made.name == "graph.group" and len(shape_of(v)) == 4
    return channels_last(shape_of(v)) if images else strides_of(v)


def _copy(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    """Clones an op on other values. Values that its regions use from outside are constants."""

    def renamed(inner: ir.Operation) -> ir.WalkResult:
        for i, v in enumerate(inner.operands):
            if v not in values and not isinstance(v, ir.BlockArgument) and v.owner.operation.block == op.block:
                values[v] = v.owner.operation.clone().results[0]
            if v in values:
                inner.operands[i] = values[v]
        return ir.WalkResult.ADVANCE

    copy = op.clone()
    with ir.InsertionPoint(copy):
        copy.walk(renamed)
    values.update(zip(op.results, copy.results, strict=True))


class BuiltProgram:
    """A compiled program on its inputs, as lamina.tune.trial.Candidate."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self.inputs = inputs
        self._run: Any = None

    def load(self, program: Program, artifact: Artifact) -> None:
        """Makes the program ready to run."""
        self._run = Executable(program, artifact)
        self._run.load(self.inputs[0].device.index)

    def run(self) -> Sequence[Tensor]:
        """Runs the program on the inputs."""
        found: Sequence[Tensor] = self._run(*self.inputs)
        return found


class BuiltCandidate(BuiltProgram):
    """One way to compute a cut."""

    def __init__(
        self, cut: SubgraphPart, name: str, backend: Backend, options: Options, context: ir.Context, inputs: Sequence[Tensor]
    ) -> None:
        super().__init__(inputs)
        self.cut, self.name, self.backend, self.options, self.context = cut, name, backend, options, context

    def compile(self) -> None:
        """Compiles the cut with the candidate chosen, and loads it."""
        with COMPILER, self.context, ir.Location.unknown():
            module = ir.Module.parse(self.cut.text)
            self.cut.mark(module, self.name)
            rounds = self.options.round_intermediates
            run(pipeline(self.cut.level, "tile", target=self.backend.target, round_intermediates=rounds), module)
            program = program_from(module, "cuda")
            for op in list(module.body.operations):
                if op.operation.name == "plan.program":
                    op.operation.erase()
            program, ready = take(program, {}, self.backend.target.gpu)
            launched = any(isinstance(step, Launch) for step in program.steps)
            artifact = self.backend.compile(module, ready) if launched else Artifact(str(self.backend.target), b"", ())
        self.load(with_needs(program, artifact.needs), artifact)


def _memory(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory for a tensor of these strides, which may have gaps."""
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return torch.empty(0 if 0 in shape else last + 1, dtype=dtype, device=device)


def random_inputs(cut: SubgraphPart, device: torch.device) -> list[Tensor]:
    """Returns normal random numbers, bool masks that are half true, bytes like those of quantized numbers, and zeros for other
    integers, which may be indices. The state of torch's generators is left unchanged."""
    bounds = {torch.bool: (0, 2), torch.int8: (-127, 128)}
    out = []
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        for type_, strides in cut.inputs:
            dtype = DTYPES[str(type_.element_type)]
            flat = _memory(type_.shape, strides, dtype, device)
            low, high = bounds.get(dtype, (0, 1))
            if dtype.is_floating_point and dtype.itemsize == 1:
                flat.copy_(torch.randn(len(flat), device=device))  # f8 has no normal_
            elif dtype.is_floating_point:
                flat.normal_()
            else:
                flat.random_(low, high)
            out.append(flat.as_strided(tuple(type_.shape), strides))
        cut.settle(out)
    return out
