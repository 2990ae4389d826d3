"""Maps the arguments and outputs of a graph to those of its program. Cache entries keep it, so that a warm start need not normalize
the graph again."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx

from lamina.core.errors import CompileError
from lamina.core.program import ITEM_BYTES, Program, Ref

from ..fx.aliases import ConstantResult, Empty, Output, Reinterpreted, ViewResult
from ..fx.dtypes import CODES


@dataclass(frozen=True)
class Interface:
    """The calling convention of a compiled graph.

    arguments  how many the graph has
    inputs     those that its program takes, in order
    captured   inputs of the program after these: tensors that the graph's module holds, by name
    outputs    each output of the graph
    moved      those of `inputs`, by position, that the caller has on the CPU and the program on its GPU
    """

    arguments: int
    inputs: tuple[int, ...]
    captured: tuple[str, ...]
    outputs: tuple[Output, ...]
    moved: tuple[int, ...] = ()

    def views(self) -> list[ViewResult]:
        """Returns the program's results: the outputs that are tensors, or the bases that they reinterpret."""
        return [o.base if isinstance(o, Reinterpreted) else o for o in self.outputs if isinstance(o, ViewResult | Reinterpreted)]

    def numbers_of(self, outputs: Collection[int]) -> tuple[int, ...]:
        """Returns the numbers of these outputs among the program's results."""
        returned = [i for i, o in enumerate(self.outputs) if isinstance(o, ViewResult | Reinterpreted)]
        return tuple(number for number, i in enumerate(returned) if i in outputs)

    def is_programs(self) -> bool:
        """Returns whether the graph's arguments and outputs are just the program's."""
        whole = self.inputs == tuple(range(self.arguments)) and not self.captured and not self.moved
        return whole and all(isinstance(output, ViewResult) for output in self.outputs)

    def tensors(self, gm: fx.GraphModule) -> tuple[Tensor, ...]:
        """Returns the captured tensors."""
        return tuple(attrgetter(name)(gm) for name in self.captured)

    def is_storable(self) -> bool:
        """Returns whether JSON can hold the outputs' constants."""
        values = [output.value for output in self.outputs if isinstance(output, ConstantResult)]
        return all(value is None or type(value) in (bool, int, float, str) for value in values)

    def to_json(self) -> list[Any]:
        """Returns plain lists that `from_json` reads."""
        return [self.arguments, self.inputs, self.captured, [list(_output_to_json(o)) for o in self.outputs], self.moved]

    @staticmethod
    def from_json(data: list[Any]) -> "Interface":
        """Reads what `to_json` returned."""
        arguments, inputs, captured, outputs, moved = data
        return Interface(arguments, tuple(inputs), tuple(captured), tuple(_output_from_json(*o) for o in outputs), tuple(moved))


def _output_to_json(output: Output) -> Iterator[Any]:
    yield type(output).__name__
    for value in vars(output).values():
        if isinstance(value, ViewResult):
            yield list(_output_to_json(value))
        else:
            yield str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else value


def _output_from_json(kind: str, *values: Any) -> Output:
    match kind:
        case "ViewResult":
            of, index, offset, dtype, shape, strides = values
            return ViewResult(of, index, offset, getattr(torch, dtype), tuple(shape), tuple(strides))
        case "Reinterpreted":
            base, base_conj, base_neg, offset, dtype, shape, strides, *bits = values
            view: Any = _output_from_json(*base)
            return Reinterpreted(view, base_conj, base_neg, offset, getattr(torch, dtype), tuple(shape), tuple(strides), *bits)
        case "Empty":
            dtype, shape, strides, device = values
            return Empty(getattr(torch, dtype), tuple(shape), tuple(strides), device)
    return ConstantResult(*values)


def with_outputs(program: Program, interface: Interface) -> Program:
    """Returns the program with the FX graph's tensor outputs, as views of its own results and inputs. Raises CompileError where it
    has no buffer for an input."""
    refs = [_output(program, output) for output in interface.views()]
    return replace(program, outputs=tuple(refs))


def _output(program: Program, view: ViewResult) -> Ref:
    dtype, item = CODES[view.dtype], ITEM_BYTES[CODES[view.dtype]]
    if view.of == "result":
        base = program.outputs[view.index]
        return Ref(base.buffer, base.offset + view.offset * item, dtype, view.shape, view.strides)
    for index, buffer in enumerate(program.buffers):
        if buffer.kind == "input" and buffer.index == view.index:
            return Ref(index, view.offset * item, dtype, view.shape, view.strides)
    raise CompileError(f"the program has no buffer for its input {view.index}")
