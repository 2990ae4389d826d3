"""Times small graphs, a kernel or a few each, at sizes drawn at random: one compilation for all of them, compared with static
ones."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from lamina.frontend.compiling.worker import finish
from lamina.tools.benchmarks.symbolic import KINDS, Comparison, compiled
from lamina.tools.benchmarks.tables.figures import Figures
from lamina.tools.benchmarks.timing import Timed
from lamina.tune.clocks import one_line

MOST = {"cpu": 1 << 20, "cuda": 1 << 24}
"""The most elements of a drawn tensor, by device."""
CALLS, ROUNDS = 8, 3


@dataclass(frozen=True)
class KernelClass:
    """A graph for tensors of any size. make: returns its arguments for (rows, columns)."""

    function: Callable[..., Any]
    make: Callable[[int, int], tuple[Tensor, ...]]


def _f32(m: int, n: int) -> tuple[Tensor, ...]:
    return (torch.randn(m, n),)


def _half(m: int, n: int) -> tuple[Tensor, ...]:
    return (torch.randn(m, n).bfloat16(),)


def _image(m: int, n: int) -> tuple[Tensor, ...]:
    side = max(int(n**0.5), 3)
    return (torch.randn(max(m // 32, 1), 32, side, side + 4),)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def _heads(m: int, n: int) -> tuple[Tensor, ...]:
    length = max(m * n // 1536, 2)
    return (torch.randn(2, 12, length, 64).bfloat16(), *(torch.randn(length, 64).bfloat16() for _ in range(2)))


CLASSES: Mapping[str, KernelClass] = {
    "relu": KernelClass(lambda x: (x + 1).relu(), _f32),
    "bias, GELU": KernelClass(lambda x, b: F.gelu(x + b), lambda m, n: (*_half(m, n), torch.randn(n).bfloat16())),
    "row scale": KernelClass(lambda x, b: x * b[:, None], lambda m, n: (*_half(m, n), torch.randn(m).bfloat16())),
    "SwiGLU": KernelClass(lambda x: F.silu(x.chunk(2, 1)[0]) * x.chunk(2, 1)[1], lambda m, n: _half(m, 2 * n)),
    "rotary embedding": KernelClass(_rotated, _heads),
    "concatenation": KernelClass(lambda x: torch.cat((x, x[:, :8]), 1) * 2, _half),
    "padding": KernelClass(lambda x: F.pad(x, (3, 5)).cos(), _f32),
    "transpose": KernelClass(lambda x: (x.t() * 2).contiguous(), _half),
    "embedding": KernelClass(lambda i, w: w[i] * 2, lambda m, n: (torch.randint(500, (m,)), *_half(500, n))),
    "softmax": KernelClass(lambda x: x.softmax(1), _f32),
    "layer norm": KernelClass(lambda x: F.layer_norm(x, x.shape[1:]), _half),
    "cross-entropy": KernelClass(F.cross_entropy, lambda m, n: (*_f32(m, n), torch.randint(n, (m,)))),
    "argmax": KernelClass(lambda x: x.argmax(1), _f32),
    "sum of columns": KernelClass(lambda x: x.sum(0), _f32),
    "mean of all": KernelClass(lambda x: x.float().mean(), _half),
    "running sums of rows": KernelClass(lambda x: x.cumsum(1), _f32),
    "running sums of columns": KernelClass(lambda x: x.cumsum(0), _f32),
    "group norm": KernelClass(lambda x: F.group_norm(x, 8), _image),
    "batch norm, training": KernelClass(lambda x: F.batch_norm(x, None, None, training=True), _image),
    "global pooling": KernelClass(lambda x: x.mean((2, 3)), _image),
    "max pooling": KernelClass(lambda x: F.max_pool2d(x, 3, 2, 1), _image),
    "upsampling": KernelClass(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), _image),
}


def kernels(device: str, count: int, seed: int, only: list[str]) -> Figures:
    """Returns the table of `count` sizes, drawn from a seed, for each class whose name contains one of `only`: on a GPU the time of
    kernels, else that of calls."""
    table = Comparison(f"Kernels, seed {seed}", "kernel", device, kernel_seconds if device == "cuda" else None)
    for name, of in CLASSES.items():
        if not any(part in name for part in only):
            continue
        inputs = [[x.to(device) for x in of.make(*size)] for size in drawn(random.Random(f"{seed} {name}"), count, MOST[device])]
        runs = {kind: compiled(of.function, kind) for kind in KINDS}
        for _ in range(2):
            for given in inputs:  # what Lamina compiles when a call needs it is there from the second time on
                runs["lamina"](*given)
            finish()
        for given in inputs:
            table.add(f"{name}, {' x '.join(map(str, given[0].shape))}", {k: partial(run) for k, run in runs.items()}, given)
        torch._dynamo.reset()
    return table.figures()


def kernel_seconds(runs: Mapping[str, Callable[[], Any]]) -> Timed:
    """Returns the seconds that a GPU's kernels take in a call of each, the least of ROUNDS means over CALLS calls in a row, by a
    profile of the device; and why others failed."""
    times: dict[str, float] = {}
    failed: dict[str, str] = {}
    for name, run in runs.items():
        try:
            times[name] = min(_profiled(run) for _ in range(ROUNDS))
        except Exception as error:
            failed[name] = one_line(error)
    return times, failed


def _profiled(run: Callable[[], Any]) -> float:
    run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(CALLS):
            run()
        torch.cuda.synchronize()
    return sum(e.device_time for e in trace.events() if e.device_type == DeviceType.CUDA) * 1e-6 / CALLS


def drawn(rng: random.Random, count: int, largest: int) -> Iterator[tuple[int, int]]:
    """Yields rows and columns, few to many, with at most `largest` elements; every second number of columns is a multiple of 8."""
    for i in range(count):
        columns = int(2 ** rng.uniform(3, 14))
        rows = int(2 ** rng.uniform(1, (largest // columns).bit_length() - 1))
        yield rows, columns if i % 2 else (columns + 7) // 8 * 8
