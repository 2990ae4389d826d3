"""Compiles functions for a GPU and runs their kernels in the simulator, or by Triton's interpreter, without a GPU."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from gpu_simulator import Result, poison, simulate, storage
from torch import Tensor, nn
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir import ir
from triton_interpreter import interpret

from lamina.core.options import Options
from lamina.core.program import ITEM_BYTES, Arg, Call, Launch, Program, Ref
from lamina.frontend.calls.interface import with_outputs
from lamina.frontend.calls.saved import with_room, with_strides
from lamina.frontend.compiling import stages
from lamina.frontend.decompositions.table import table
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.infra.pipeline import run
from lamina.passes.plan.program import program_from
from lamina.runtime.dtypes import DTYPES
from lamina.targets.levels import pipeline
from lamina.targets.module import keep_kernels
from lamina.targets.triton.printing.printed import Printed

TARGET = "nvvm:sm_90a"
FLOAT8 = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}  # whose bits memory has
STORED = {"f16": torch.float16, "bf16": torch.bfloat16}


def tiled(
    fn: Callable[..., Any], inputs: Sequence[Tensor], options: Options | None = None, products: str = "", last: str = ""
) -> tuple[ir.Module, Program]:
    """The kernels of `fn` as block programs, and the program that launches them. products: by which schedule they are Lamina's, "model" for
    the cost model's choices; last: a pass at the tile level."""

    def flat(*tensors: Tensor) -> list[Tensor]:
        out = fn(*tensors)
        return list(out) if isinstance(out, tuple | list) else [out]

    with torch.no_grad(), patch("lamina.frontend.decompositions.ops.moments.on_cpu", return_value=False):
        gm = make_fx(functionalize(flat), decomposition_table=table(), tracing_mode="fake")(*inputs)
    graph = normalize(with_room(gm))
    module = stages.import_linalg(graph, options or Options(strict=True))
    usual = f"lamina-select-kernels{{target={TARGET}}}"
    given = f"lamina-select-kernels{{target={TARGET} schedule='{products}'}}" if products else "lamina-select-kernels"
    run(pipeline("linalg", "tile", target=TARGET).replace(usual, usual if products == "model" else given), module)
    if last:
        run(f"builtin.module({last})", module)
    with module.context:
        program = program_from(module, "cuda")
        program = with_outputs(program, with_strides(graph.interface, program, graph.room))
    keep_kernels(module)
    return module, program


def distributed(
    fn: Callable[..., Any], inputs: Sequence[Tensor], options: Options | None = None, lanes: int = 32, products: str = ""
) -> tuple[ir.Module, Program]:
    """Returns the same with the kernels as the code of one thread."""
    module, program = tiled(fn, inputs, options, products)
    distribute(module, lanes)
    return module, program


def distribute(module: ir.Module, lanes: int = 32) -> None:
    spread = f"lamina-distribute{{lanes={lanes}}}"
    run(f"builtin.module(lamina-expand-math{{target=nvvm}},{spread},lamina-expand-math{{target=nvvm}})", module)
    module.operation.verify()


@contextmanager
def as_stored(arguments: Sequence[tuple[str, int]], arrays: Sequence[np.ndarray]) -> Iterator[list[Tensor]]:
    """Half types are f32 in this memory; a kernel that rounds what it multiplies has to find them as they are. arguments: of the
    kernel, each with its dtype first."""
    types = [dtype for dtype, _ in arguments]
    whole = [torch.from_numpy(a) for a in arrays]
    whole = [x.view(FLOAT8[dtype]) if dtype in FLOAT8 else x for x, dtype in zip(whole, types, strict=True)]
    stored = [x.to(STORED.get(dtype, x.dtype)) for x, dtype in zip(whole, types, strict=True)]
    before = [x.clone() for x in stored]
    yield stored
    for x, now, then in zip(whole, stored, before, strict=True):
        if now.dtype != x.dtype:
            changed = now.view(torch.int16) != then.view(torch.int16)  # others share this memory
            x[changed] = now[changed].to(x.dtype)


class Simulated:
    """Runs the steps of a program one after the other: kernels in the simulator, calls by torch on the CPU. `results` are what each
    launch did. lanes: threads that run in step."""

    counts_traffic = True

    def __init__(self, module: ir.Module, program: Program, printed: Sequence[Printed] = (), lanes: int = 32) -> None:
        self.module, self.program, self.lanes = module, program, lanes
        self.printed = {kernel.name: kernel for kernel in printed}
        self.results: list[Result] = []

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        memory = [self._buffer(i, inputs) for i in range(len(self.program.buffers))]
        for step in self.program.steps:
            if isinstance(step, Call):
                self._call(step, memory)
                continue
            sizes = [np.array(step.sizes, f"<i{step.size_bytes}")] if step.sizes else []
            self.launch(step, [*(self._part(memory, ref) for ref in (*step.args, *step.scratch)), *sizes])
        return [self._tensor(memory, ref) for ref in self.program.outputs]

    def launch(self, step: Launch, arrays: list[np.ndarray]) -> None:
        if step.kernel in self.printed:
            kernel = self.printed[step.kernel]
            with as_stored(kernel.arguments, arrays[: len(kernel.arguments)]) as stored:  # it makes descriptors itself
                interpret(kernel, step.grid, stored)
            return
        grid = step.grid // step.cluster
        how = {"block": step.threads, "cluster": step.cluster, "wave": self.lanes, "traffic": self.counts_traffic}
        self.results.append(simulate(self.module, step.kernel, arrays, grid, **how))

    def _call(self, step: Call, memory: list[np.ndarray]) -> None:
        def value(arg: Arg) -> Any:
            if isinstance(arg, Ref):
                return self._tensor(memory, arg)
            return [value(a) for a in arg] if isinstance(arg, tuple) else arg

        namespace, name, overload = step.callee.split(".")
        routine = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        found = routine(*map(value, step.args), **{k: value(v) for k, v in step.kwargs})
        results = [found] if isinstance(found, Tensor) else list(found)
        for ref, result in zip(step.outs or step.owned, results, strict=True):
            if ref is not None:
                place = torch.from_numpy(self._part(memory, ref))
                bits = result.view(torch.int8) if result.itemsize == 1 and result.dtype is not torch.bool else result
                torch.as_strided(place, ref.shape, ref.strides).copy_(bits)

    def _buffer(self, number: int, inputs: Sequence[Tensor]) -> np.ndarray:
        buffer = self.program.buffers[number]
        if buffer.kind == "input":
            x = inputs[buffer.index]
            whole = torch.as_strided(x, (buffer.bytes // x.element_size(),), (1,))
            return storage(whole)
        if buffer.kind == "constant":
            constant = self.program.constants[buffer.index]
            dtype = DTYPES[constant.dtype]
            return storage(
                torch.frombuffer(bytearray(constant.data), dtype=dtype) if constant.data else torch.empty(0, dtype=dtype)
            )
        dtype = next((r.dtype for r in self._refs() if r.buffer == number), "u8")  # of a kernel for other sizes
        return poison(buffer.bytes // ITEM_BYTES[dtype], DTYPES[dtype])

    def _refs(self) -> list[Ref]:
        made = [r for s in self.program.steps if isinstance(s, Call) for r in (*s.outs, *s.owned) if r is not None]
        return (
            [a for s in self.program.steps if isinstance(s, Launch) for a in (*s.args, *s.scratch)]
            + made
            + list(self.program.outputs)
        )

    def _part(self, memory: list[np.ndarray], ref: Ref) -> np.ndarray:
        return memory[ref.buffer][ref.offset // ITEM_BYTES[ref.dtype] :]

    def _tensor(self, memory: list[np.ndarray], ref: Ref) -> Tensor:
        dtype = DTYPES[ref.dtype]
        flat = torch.from_numpy(self._part(memory, ref).copy())
        if dtype.itemsize == 1 and dtype is not torch.bool:
            flat = flat.view(dtype)
        return torch.as_strided(flat, ref.shape, ref.strides).to(dtype)


@contextmanager
def cudnn_by_definition() -> Iterator[None]:
    """Lets torch run cuDNN's convolution with a ReLU on the CPU: in f32, rounded once."""

    def defined(x: Tensor, w: Tensor, b: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int) -> Tensor:
        return (
            F.conv2d(x.float(), w.float(), None if b is None else b.float(), stride, padding, dilation, groups).relu().to(x.dtype)
        )

    library = torch.library.Library("aten", "IMPL")
    library.impl("cudnn_convolution_relu", defined, "CPU")
    try:
        yield
    finally:
        library._destroy()


def errors(model: nn.Module, x: Tensor, products: str = "") -> tuple[float, float, Simulated]:
    """Returns Lamina's and eager's errors relative to float64, and the program that ran."""
    state = dict(model.named_parameters()) | dict(model.named_buffers())

    def fn(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(model, dict(zip(state, values, strict=True)), (x,))

    inputs = (x, *state.values())
    with torch.no_grad():
        program = Simulated(*distributed(fn, inputs, products=products))
        (mine,), eager = program(*inputs), fn(*inputs)
        exact = fn(*(t.double() if t.is_floating_point() else t for t in inputs))
    assert mine.stride() == eager.stride()
    return *(((t.double() - exact).norm() / exact.norm()).item() for t in (mine, eager)), program  # type: ignore[return-value]
