"""The family of users' kernels: each computes what the user declared it for, and competes in the configs that the user lists."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.layout import Layout
from lamina.core.target import Target
from lamina.schedules.text import KernelSchedule

from ...ir.extern_calls import encoded, memory_strides
from ...ir.reading import element_type, producer, shape_of
from ...ir.sizes import read_sizes
from ...ir.views import layout_through, through_views
from ...space.contraction import Unfit
from ..choice import CHOICE, Choice
from ..problem import CallProblem, Family, describe_with_groups
from ..surroundings import has_symbolic_sizes, kernels
from .epilogue import epilogue_of

_ALTERNATIVES = "alternatives"  # the argument of a graph.kernel that lists its configs (frontend/fx/ops/kernel_op.py)


@dataclass(frozen=True)
class CustomConfig(KernelSchedule):
    """A config of a user's kernel. config: its text, such as "BLOCK=128 num_warps=4"."""

    kind: ClassVar[str] = "custom"
    config: str = "NAME=VALUE"

    def __str__(self) -> str:
        """Returns the config's text."""
        return self.config


@dataclass(frozen=True)
class CustomProblem(CallProblem):
    """A call of a user's kernel, with the epilogue that it can compute.

    op       the graph.kernel
    configs  what a launch with each depends on, by text
    read     the value that the epilogue reads, and the group; None without an epilogue
    """

    configs: Mapping[str, Mapping[str, Any]]
    read: tuple[ir.Value, ir.Operation] | None

    @property
    def group(self) -> ir.Operation | None:
        """The epilogue."""
        return self.read[1] if self.read is not None else None

    @property
    def before(self) -> Sequence[ir.Operation]:
        """The views that place operands in memory: the kernel is compiled for the alignment that follows."""
        chains = (_views(v, self.strides(v)) for v in dict.fromkeys(self.op.operands))
        return list(dict.fromkeys(op for chain in chains for op in chain))

    @property
    def after(self) -> Sequence[ir.Operation]:
        """The reshapes of the result that the epilogue reads, and the epilogue."""
        if self.read is None:
            return ()
        value, group = self.read
        reshapes = []
        while value != self.op.results[0]:
            reshapes.append(value.owner.operation)
            value = value.owner.operands[0]
        return (*reversed(reshapes), group)

    @property
    def results(self) -> Sequence[ir.Value]:
        """The results of the group, and the kernel's own where others read that; without a group, all of the kernel's."""
        if self.read is None:
            return list(self.op.results)
        value, group = self.read
        return [*group.results, *([value] if any(use.owner.operation != group for use in value.uses) else [])]

    @property
    def what(self) -> str:
        """The kernel's name, with its operands and results."""
        tensors = (f"{element_type(v)} {'x'.join(map(str, shape_of(v)))}" for v in (*self.op.operands, *self.op.results))
        return describe_with_groups(self, f"{self.op.attributes['kwargs']['name'].value} {', '.join(tensors)}")

    @property
    def reference(self) -> Choice:
        """The first config."""
        return self.default(None)

    def strides(self, operand: ir.Value) -> Sequence[int]:
        """Returns the strides that the kernel is written for."""
        needs = dict(zip(self.op.operands, self.op.attributes["needs"], strict=True))
        return read_sizes(needs[operand]) if operand in needs else super().strides(operand)

    def default(self, gpu: Gpu | None) -> Choice:
        """Returns the first config."""
        return Choice(CustomConfig(next(iter(self.configs))))

    def candidates(self, gpu: Gpu) -> Sequence[Choice]:
        """Returns the configs, in the user's order."""
        return [Choice(CustomConfig(config)) for config in self.configs]

    def take(self, choice: Choice, target: Target | None) -> None:
        """Writes the config into the call. Raises Unfit for one that the user does not list."""
        if not isinstance(choice.kernel, CustomConfig) or choice.kernel.config not in self.configs or choice.cover:
            raise Unfit(f"it has the configs {', '.join(self.configs)}")
        kwargs = {named.name: named.attr for named in self.op.attributes["kwargs"] if named.name != _ALTERNATIVES}
        kwargs |= {name: encoded(value) for name, value in self.configs[choice.kernel.config].items()}
        self.op.attributes["kwargs"] = ir.DictAttr.get(kwargs, self.op.context)
        if CHOICE in self.op.attributes:
            del self.op.attributes[CHOICE]


class CustomFamily(Family):
    """Users' kernels that have configs."""

    computes = "users' kernels in the configs that these list"
    schedules = (CustomConfig,)

    def reads(self, op: ir.Operation) -> bool:
        """Returns whether this is a call of a user's kernel with configs."""
        return bool(_configs(op))

    def problems(self, module: ir.Module) -> Iterator[CustomProblem]:
        """Yields a problem for each call. A group is the epilogue of the last of the kernels that it reads."""
        problems, covered = [], list[ir.Operation]()
        for op in reversed(kernels(module)):
            read = epilogue_of(op)
            read = None if read is None or read[1] in covered else read
            covered += () if read is None else read[1:]
            if configs := _configs(op):
                problems.append(CustomProblem(op, configs, read))
        yield from reversed(problems)


def _configs(op: ir.Operation) -> Mapping[str, Mapping[str, Any]]:
    """Returns the configs of a call of a user's kernel; empty for other ops."""
    given = op.attributes["kwargs"] if op.name == "graph.kernel" else {}
    text = given[_ALTERNATIVES].value if _ALTERNATIVES in given else ""
    return dict(json.loads(text)) if text else {}


def _views(value: ir.Value, strides: Sequence[int]) -> list[ir.Operation]:
    """Returns the views, with their empty tensors, that give a value these strides in memory; [] if there are none, or they are
    of a symbolic size."""
    chain, base = through_views(value)
    if any(map(has_symbolic_sizes, chain)):
        return []
    layout = layout_through(chain, Layout.of(shape_of(base), memory_strides(base)))
    if layout is None or layout.strides != Layout.of(shape_of(value), tuple(strides)).strides:
        return []
    empties = [o for op in reversed(chain) for v in op.operands if (o := producer(v)) is not None and o.name == "tensor.empty"]
    return [*empties, *reversed(chain)]
