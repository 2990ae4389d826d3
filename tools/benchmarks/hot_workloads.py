"""Workloads of `bench.py --suite hot`: tensor-core ops with the pointwise ops around them, in bf16, row reductions, and tuning
itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from lamina.core.options import Tune
from lamina.tools.benchmarks.gpu_workloads import BF16, WORDS, cross_entropy
from lamina.tools.benchmarks.workloads import Input, Made, indices, on, random, softmax

COMPILED = "torch.compile"
AUTOTUNED = "max-autotune"
TUNED_MODEL = "BERT-base b16 s512"  # in GPU_WORKLOADS
TUNING = f"tuning of {TUNED_MODEL}"


@dataclass(frozen=True)
class Goal:
    """A bound on Lamina's time, relative to that of the best of some others.

    part   Lamina's time is at most this part of theirs; with `speed`, its speed at least this part of theirs
    of     names of the others
    mine   "lamina tuned", or "lamina own" for Lamina's best kernel, even where the library's is chosen
    clock  "times" for time on the device, or "wall" for what a caller sees
    speed  whether `part` is of speed
    """

    part: float
    of: tuple[str, ...]
    mine: str = "lamina tuned"
    clock: str = "times"
    speed: bool = False


@dataclass(frozen=True)
class HotWorkload:
    """An op to measure on a GPU, tuned and untuned.

    make    returns a function or module, and its inputs, on a device
    goals   what the figures must reach
    others  a library's other ways to compute it, by name, beside eager's
    policy  of tuning: "full" where the best of all of Lamina's schedules is wanted
    exact   the same function of float64 tensors, where the function itself takes only other dtypes
    share   the part of the copy's bandwidth that is the goal
    wall    whether a caller's time is measured, too
    """

    make: Callable[[str], Made]
    goals: tuple[Goal, ...]
    others: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    policy: Tune = "quick"
    exact: Callable[..., Any] | None = None
    share: float | None = None
    wall: bool = False

    @property
    def autotuned(self) -> bool:
        """Tells whether a goal compares with torch.compile's max-autotune."""
        return any(AUTOTUNED in goal.of for goal in self.goals)


def product(x: Tensor, w: Tensor) -> Tensor:
    """Computes a matrix product."""
    return x @ w


def bias_gelu(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    """Computes a linear layer with bias and GELU."""
    return F.gelu(F.linear(x, w, bias))


def bytes_linear(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    """Computes a linear layer with 8-bit weights, each row of which has a scale."""
    return F.linear(x, w.to(x.dtype) * scale[:, None])


def gated(gate: Tensor, up: Tensor, w: Tensor) -> Tensor:
    """Multiplies a gated activation, of gate and up, by the weights of the down projection."""
    return (F.silu(gate) * up) @ w


def scaled_float8(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Multiplies f8e4m3fn by f8e4m3fn, with a scale for each; the result is bf16."""
    return torch._scaled_mm(x, w.t(), a, b, out_dtype=BF16)


def scaled_product(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Computes the same as scaled_float8 on tensors of any floating-point dtype."""
    return x @ w.t() * a * b


def linear_norm(x: Tensor, w: Tensor, bias: Tensor, residual: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Computes a linear layer, adds a residual and applies LayerNorm, as in BERT."""
    return F.layer_norm(residual + F.linear(x, w, bias), scale.shape, scale, shift)


def bias_relu(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    """Computes a linear layer with bias and ReLU."""
    return F.relu(F.linear(x, w, bias))


def bias_residual(x: Tensor, w: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    """Computes a linear layer with bias and adds a residual."""
    return F.linear(x, w, bias) + residual


def relu_sum(x: Tensor, w: Tensor) -> Tensor:
    """Reduces a product with a pointwise epilogue to one sum."""
    return (torch.relu(x @ w + 1) * 0.5).sum()


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Computes attention, written out."""
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Computes causal attention, written out with a mask."""
    hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v


def causal_sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Computes causal attention by torch's SDPA."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def window_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Computes attention of a query to itself and the WINDOW - 1 keys before it, with a mask made of positions as in models."""
    rows, columns = torch.arange(q.shape[-2], device=q.device)[:, None], torch.arange(k.shape[-2], device=q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(columns <= rows) & (columns > rows - WINDOW))


def padded_attention(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """Computes attention of sequences of these lengths, padded to one."""
    there = torch.arange(k.shape[-2], device=q.device) < lengths[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=there[:, None, None, :])


def decode(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Computes grouped-query attention by SDPA, for one query row when a model decodes."""
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def causal_sdpa_by(backend: SDPBackend) -> Callable[..., Tensor]:
    """Returns causal_sdpa, restricted to one of torch's backends."""

    def run(*inputs: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return causal_sdpa(*inputs)

    return run


def half(*shape: int) -> Input:
    """Returns an input factory: random bf16 numbers."""
    return random(*shape, dtype=BF16)


def numbers(dtype: torch.dtype, *shape: int) -> Input:
    """Returns an input factory: random numbers of an 8-bit dtype."""
    return lambda device: (torch.randn(*shape, device=device) * (30 if dtype is torch.int8 else 1)).to(dtype)


def one(device: str) -> Tensor:
    """Returns the scalar 1 in f32."""
    return torch.ones((), device=device)


def lengths(device: str) -> Tensor:
    """Returns 16 sequence lengths: 16, 48, ..., 496."""
    return torch.arange(16, 513, 32, device=device)


def alone(m: int, n: int, k: int) -> HotWorkload:
    """Returns a plain product; its goals are eager's speed, tuned, and 0.95 of it by Lamina's best kernel."""
    goals = Goal(1.0, ("eager",), speed=True), Goal(0.95, ("eager",), "lamina own", speed=True)
    return HotWorkload(on(product, half(m, k), half(k, n)), goals, policy="full")


def linear(function: Callable[..., Any], m: int, n: int, k: int, *more: Input) -> HotWorkload:
    """Returns a linear layer with an epilogue; its goal is 0.95 of the time of eager, torch.compile and max-autotune."""
    goals = (Goal(0.95, ("eager", COMPILED, AUTOTUNED)),)
    return HotWorkload(on(function, half(m, k), half(n, k), half(n), *more), goals)


def with_epilogues(m: int, n: int, k: int) -> dict[str, HotWorkload]:
    """Returns linear layers of one size with each epilogue, by name."""
    sizes = f"{m}x{n}x{k}"
    return {
        f"{sizes} bias+GELU": linear(bias_gelu, m, n, k),
        f"{sizes} bias+ReLU": linear(bias_relu, m, n, k),
        f"{sizes} bias+residual": linear(bias_residual, m, n, k, half(m, n)),
    }


def rows(function: Callable[..., Any], *inputs: Input, share: float | None = None) -> HotWorkload:
    """Returns a reduction along rows, to see whether tuning finds more than the cost model."""
    return HotWorkload(on(function, *inputs), BEST, policy="full", share=share)


def few_rows(device: str) -> Made:
    """Returns a linear layer with GELU in bf16, and 32 rows."""
    with torch.device(device):
        model = nn.Sequential(nn.Linear(768, 3072), nn.GELU())
    return model.eval().to(BF16), (half(32, 768)(device),)


def convolution(channels: int, size: int, groups: int = 1) -> HotWorkload:
    """Returns a 3x3 convolution, a norm with statistics other than its initial ones, and ReLU, on 64 images."""

    def make(device: str) -> Made:
        with torch.device(device):
            norm = nn.BatchNorm2d(channels)
            convolution = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
            model = nn.Sequential(convolution, norm, nn.ReLU())
            for statistic, least in ((norm.running_mean, -0.5), (norm.running_var, 0.5)):
                assert statistic is not None
                statistic.uniform_(least, least + 1)
        x = half(64, channels, size, size)(device).to(memory_format=torch.channels_last)
        return model.eval().to(BF16).to(memory_format=torch.channels_last), (x,)  # type: ignore[call-overload]

    return HotWorkload(make, (Goal(0.85, (COMPILED,)),) if groups == 1 else BEST, policy="quick" if groups == 1 else "full")


WINDOW = 1024
F8 = torch.float8_e4m3fn
BEST = (Goal(1.0, ("eager", COMPILED)),)
WRITTEN = (Goal(1.0, (COMPILED,)),)
BACKENDS = {
    "cuDNN": causal_sdpa_by(SDPBackend.CUDNN_ATTENTION),
    "flash": causal_sdpa_by(SDPBackend.FLASH_ATTENTION),
}
BEST_BACKEND = ("eager", *BACKENDS)
LARGE = (8192, 4096, 4096), (8192, 4096, 16384), (4096, 4096, 4096)  # m, n, k

HOT_WORKLOADS: dict[str, HotWorkload] = {
    **{f"{m}x{n}x{k}": alone(m, n, k) for m, n, k in LARGE},
    **{name: workload for sizes in LARGE for name, workload in with_epilogues(*sizes).items()},
    "sum(relu(x@w+1)*0.5) 8192x4096x4096": HotWorkload(on(relu_sum, half(8192, 4096), half(4096, 4096)), (Goal(0.9, (COMPILED,)),)),
    "Linear 768->3072+GELU, 32 rows": HotWorkload(
        few_rows,
        tuple(Goal(part, (of,), clock=clock) for clock in ("times", "wall") for part, of in ((0.5, COMPILED), (1.0, "eager"))),
        wall=True,
    ),
    "8x4096 by int8 4096x11008": HotWorkload(
        on(bytes_linear, half(8, 4096), numbers(torch.int8, 11008, 4096), half(11008)), (Goal(1.0, (COMPILED,)),), policy="full"
    ),
    "16x14336 by 14336x4096": HotWorkload(on(product, half(16, 14336), half(14336, 4096)), BEST, policy="full"),
    "16x14336 gated, by 14336x4096": HotWorkload(on(gated, *[half(16, 14336)] * 2, half(14336, 4096)), BEST, policy="full"),
    "f8 8192x4096x4096": HotWorkload(
        on(scaled_float8, numbers(F8, 8192, 4096), numbers(F8, 4096, 4096), one, one), BEST, policy="full", exact=scaled_product
    ),
    "8192x768x3072 bias+residual+LayerNorm": HotWorkload(
        on(linear_norm, half(8192, 3072), half(768, 3072), half(768), half(8192, 768), half(768), half(768)), BEST, policy="full"
    ),
    "attention written out b16 h12 s512 d64": HotWorkload(on(attention, *[half(16, 12, 512, 64)] * 3), WRITTEN),
    "causal attention written out b4 h16 s2048 d128": HotWorkload(on(causal_attention, *[half(4, 16, 2048, 128)] * 3), WRITTEN),
    "causal SDPA b4 h16 s4096 d128": HotWorkload(
        on(causal_sdpa, *[half(4, 16, 4096, 128)] * 3),
        (Goal(1.0, BEST_BACKEND, speed=True), Goal(0.85, BEST_BACKEND, "lamina own", speed=True)),
        BACKENDS,
    ),
    "padded b16 h12 s512 d64": HotWorkload(on(padded_attention, *[half(16, 12, 512, 64)] * 3, lengths), BEST, policy="full"),
    f"window of {WINDOW} b4 h16 s4096 d128": HotWorkload(on(window_attention, *[half(4, 16, 4096, 128)] * 3), BEST, policy="full"),
    "decode b32 q1 k8192 h32/4 d128": HotWorkload(on(decode, half(32, 32, 1, 128), *[half(32, 4, 8192, 128)] * 2), (), share=0.85),
    "softmax bf16 4096x4096": rows(softmax, half(4096, 4096)),
    "softmax f32 2048x128256": rows(softmax, random(2048, WORDS), share=0.9),
    "cross entropy bf16 4096x128256": rows(cross_entropy, half(4096, WORDS), indices(WORDS, 4096), share=0.88),
    "conv3x3+BN+ReLU 64x64x56x56": convolution(64, 56),
    "conv3x3+BN+ReLU 64x256x14x14": convolution(256, 14),
    "grouped conv3x3+BN+ReLU 64x128x56x56, 32 groups": convolution(128, 56, 32),
    "grouped conv3x3+BN+ReLU 64x1024x7x7, 32 groups": convolution(1024, 7, 32),
}
