"""Maps the arguments and outputs of a graph to those of its program. Cache entries keep it, so that a warm start need not normalize
the graph again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from torch import Tensor, fx

from lamina.core.errors import CompileError
from lamina.core.program import ITEM_BYTES, Program, Ref
from lamina.core.sizes import Size

from ..fx.aliases import ConstantResult, Output, Reinterpreted, ViewResult
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

    def is_identity(self) -> bool:
        """Returns whether the graph's arguments and outputs are just the program's."""
        return self.inputs == tuple(range(self.arguments)) and self.is_selection()

    def is_selection(self) -> bool:
        """Returns whether the program takes some of the graph's arguments, and the graph's outputs are just the program's."""
        return not self.captured and not self.moved and all(isinstance(output, ViewResult) for output in self.outputs)

    def tensors(self, gm: fx.GraphModule) -> tuple[Tensor, ...]:
        """Returns the captured tensors."""
        return tuple(attrgetter(name)(gm) for name in self.captured)

    def is_storable(self) -> bool:
        """Returns whether JSON can hold the outputs' constants."""
        values = [output.value for output in self.outputs if isinstance(output, ConstantResult)]
        return all(value is None or type(value) in (bool, int, float, str, Size) for value in values)


def unboxed(args: tuple[Any, ...]) -> Sequence[Any]:
    """Returns a graph's arguments, given one by one or in one list, which is emptied: AOTAutograd's boxed convention."""
    if len(args) != 1 or type(args[0]) is not list:
        return args
    given = tuple(args[0])
    args[0].clear()
    return given


def with_outputs(program: Program, interface: Interface) -> Program:
    """Returns the program with the FX graph's tensor outputs, as views of its own results and inputs. Raises CompileError if it
    has no buffer for an input."""
    refs = [_output(program, output) for output in interface.views()]
    return replace(program, outputs=tuple(refs))


def _output(program: Program, view: ViewResult) -> Ref:
    dtype, item = CODES[view.dtype], ITEM_BYTES[CODES[view.dtype]]
    if view.source == "result":
        base = program.outputs[view.index]
        return Ref(base.buffer, base.offset + view.offset * item, dtype, view.shape, view.strides)
    for index, buffer in enumerate(program.buffers):
        if buffer.kind == "input" and buffer.index == view.index:
            return Ref(index, view.offset * item, dtype, view.shape, view.strides)
    raise CompileError(f"the program has no buffer for its input {view.index}")
