"""Runs a Program with torch tensors, and Python callables instead of kernels. It is slow and independent of the native runtime,
and it checks memory: memory starts as garbage, forbidden overlaps are errors, and freed memory is overwritten."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from lamina.core.layout import Layout
from lamina.core.program import ITEM_BYTES, Arg, Call, Launch, Program, Ref

DTYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i32": torch.int32, "bool": torch.bool}

Kernel = Callable[..., Sequence[torch.Tensor]]


def run(
    program: Program, inputs: Sequence[torch.Tensor], kernels: Mapping[str, Kernel], calls: Mapping[str, Any]
) -> list[torch.Tensor]:
    """The program's outputs. `kernels` and `calls` compute results from their inputs, by kernel and by callee."""
    return _Run(program, inputs, kernels, calls).run()


class _Run:
    def __init__(
        self, program: Program, inputs: Sequence[torch.Tensor], kernels: Mapping[str, Kernel], calls: Mapping[str, Any]
    ) -> None:
        self.program, self.inputs, self.kernels, self.calls = program, inputs, kernels, calls
        self.arena = torch.full((int(program.arena_bytes),), 0xA5, dtype=torch.uint8)
        self.memory: dict[int, tuple[torch.Tensor, int]] = {}
        for number, buffer in enumerate(program.buffers):
            match buffer.kind:
                case "input":
                    given = inputs[buffer.index]
                    self.memory[number] = (_bytes(given), given.storage_offset() * given.element_size())
                case "arena":
                    assert buffer.offset % 64 == 0 and buffer.offset + buffer.bytes <= program.arena_bytes
                    self.memory[number] = (self.arena, buffer.offset)
                case "output":
                    self.memory[number] = (torch.full((buffer.bytes,), 0x5A, dtype=torch.uint8), 0)
                case "constant":
                    data = program.constants[buffer.index].data
                    self.memory[number] = (torch.frombuffer(bytearray(data), dtype=torch.uint8), 0)

    def run(self) -> list[torch.Tensor]:
        for number, step in enumerate(self.program.steps):
            self._launch(step) if isinstance(step, Launch) else self._call(step)
            for index, buffer in enumerate(self.program.buffers):
                if buffer.kind == "owned" and buffer.last == number:
                    del self.memory[index]
        return [self.tensor(ref).clone() for ref in self.program.outputs]

    def tensor(self, ref: Ref) -> torch.Tensor:
        memory, start = self.memory[ref.buffer]
        first = (start + ref.offset) // ITEM_BYTES[ref.dtype]
        return torch.as_strided(memory.view(DTYPES[ref.dtype]), ref.shape, ref.strides, first)

    def _launch(self, step: Launch) -> None:
        ins, outs = step.args[: -step.n_out], step.args[-step.n_out :]
        for i, out in enumerate(outs):
            for other in (*ins, *outs[:i]):
                position = step.args.index(other), len(ins) + i
                assert position in step.inplace or not self._overlap(out, other), f"{step.kernel} overwrites what it reads"
        for row in range(max(out.shape[0] for out in outs) if step.inplace else 1):
            values = self.kernels[step.kernel](*[self.tensor(r) for r in ins])
            for out, value in zip(outs, values, strict=True):
                if not step.inplace:
                    self.tensor(out).copy_(value)
                elif row < out.shape[0]:  # in place: row by row, reading again what is in memory by then
                    self.tensor(out)[row] = value[row]

    def _call(self, step: Call) -> None:
        values = self.calls[step.callee](*[self._arg(a) for a in step.args], **{name: self._arg(a) for name, a in step.kwargs})
        results = list(values) if isinstance(values, list | tuple) else [values]
        for ref, value in zip(step.outs, results, strict=True) if step.outs else ():
            self.tensor(ref).copy_(value)
        for owned, value in zip(step.owned, results, strict=True) if step.owned else ():
            if owned is not None:
                assert value.shape == owned.shape
                if Layout.of(value.shape, value.stride()).strides != owned.strides:
                    value = torch.empty_strided(owned.shape, owned.strides, dtype=value.dtype).copy_(value)
                self.memory[owned.buffer] = (_bytes(value), value.storage_offset() * value.element_size())

    def _arg(self, a: Arg) -> Any:
        if isinstance(a, Ref):
            return self.tensor(a)
        return [self._arg(x) for x in a] if isinstance(a, tuple) else a

    def _overlap(self, a: Ref, b: Ref) -> bool:
        """Returns whether the spans of two refs meet."""
        if 0 in a.shape or 0 in b.shape:
            return False
        (first, first_end), (second, second_end) = self._span(a), self._span(b)
        return first < second_end and second < first_end

    def _span(self, ref: Ref) -> tuple[int, int]:
        memory, start = self.memory[ref.buffer]
        begin = memory.data_ptr() + start + ref.offset
        reach = 1 + sum((n - 1) * s for n, s in zip(ref.shape, ref.strides, strict=True))
        return begin, begin + reach * ITEM_BYTES[ref.dtype]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor's storage as bytes."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
