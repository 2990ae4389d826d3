"""The executable of the target `null:TARGET`: stands in for that of a machine that is not there, and launches nothing."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lamina.core.program import Program, Ref

from ..calls.interface import unboxed
from ..fx.dtypes import DTYPES


class Null:
    """Takes the arguments of the program's Executable, launches nothing, and returns zeros in the layouts of the program's results.

    Results that view an argument are views of it. Values that a model writes, such as buffers, become zeros too. Raises ValueError
    for arguments of another number, shape or dtype.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._boxed_call = True  # of the instance: torch._dynamo.disable copies its attributes, not the class's

    def __call__(self, *args: Any) -> tuple[Tensor, ...]:
        """Checks the arguments and returns the results. args: one by one, or in one list, which is emptied."""
        arguments = unboxed(args)
        self._check(arguments)
        return tuple(self._result(ref, arguments) for ref in self.program.outputs)

    def status(self) -> None:
        """Returns None: there are no CUDA graphs."""

    def _check(self, arguments: Sequence[Any]) -> None:
        if len(arguments) != len(self.program.inputs):
            raise ValueError(f"the program takes {len(self.program.inputs)} tensors, not {len(arguments)}")
        for number, (x, spec) in enumerate(zip(arguments, self.program.inputs, strict=True)):
            if tuple(x.shape) != spec.shape or x.dtype != DTYPES[spec.dtype]:
                raise ValueError(f"argument {number} is {x.dtype} {list(x.shape)}, not {spec.dtype} {list(spec.shape)}")

    def _result(self, ref: Ref, arguments: Sequence[Tensor]) -> Tensor:
        shape, strides = tuple(map(int, ref.shape)), tuple(map(int, ref.strides))  # type: ignore[arg-type]
        dtype = DTYPES[ref.dtype]
        buffer = self.program.buffers[ref.buffer]
        if buffer.kind != "input":
            device = arguments[0].device if arguments else torch.device("cpu")
            return torch.empty_strided(shape, strides, dtype=dtype, device=device).zero_()
        x = arguments[buffer.index]
        return x.as_strided(shape, strides, x.storage_offset() + int(ref.offset) // dtype.itemsize)  # type: ignore[arg-type]
