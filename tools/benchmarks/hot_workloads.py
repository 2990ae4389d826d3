"""Workloads of `bench.py --suite hot`: tensor-core ops with the pointwise ops around them, in bf16, row reductions, and tuning
itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from lamina.core.options import Tune
from lamina.tools.benchmarks.gpu_workloads import BF16, GPU_WORKLOADS, WORDS, cross_entropy
from lamina.tools.benchmarks.workloads import Goal, Input, Made, Workload, indices, on, random, softmax

COMPILED = "torch.compile"
AUTOTUNED = "max-autotune"
TUNED_MODEL = "BERT-base b16 s512"  # in GPU_WORKLOADS


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
        """Calls attention by the backend."""
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


def tuned(part: float, *others: str, clock: str = "times", speed: bool = False) -> Goal:
    """Returns a goal of Lamina as it is tuned."""
    return Goal(part, others, ("lamina tuned",), clock, speed)


def own(part: float, *others: str) -> Goal:
    """Returns a goal of the speed of Lamina's best kernel, even where the library's is chosen."""
    return Goal(part, others, ("lamina own",), speed=True)


def op(function: Callable[..., Any], *inputs: Input, goals: Sequence[Goal] = (), policy: Tune = "quick", **more: Any) -> Workload:
    """Returns the workload of a function; its goal is by default the time of eager and torch.compile."""
    return Workload(on(function, *inputs), "op", tuple(goals) or (tuned(1.0, "eager", COMPILED),), policy=policy, **more)


def alone(m: int, n: int, k: int) -> Workload:
    """Returns a plain product; its goals are eager's speed, tuned, and 0.95 of it by Lamina's best kernel."""
    goals = tuned(1.0, "eager", speed=True), own(0.95, "eager")
    return op(product, half(m, k), half(k, n), goals=goals, policy="full")


def with_epilogues(m: int, n: int, k: int) -> dict[str, Workload]:
    """Returns linear layers of one size with each epilogue; their goal is 0.95 of the time of eager and torch.compile."""
    goals = (tuned(0.95, "eager", COMPILED, AUTOTUNED),)
    given = half(m, k), half(n, k), half(n)
    return {
        f"{m}x{n}x{k} bias+GELU": op(bias_gelu, *given, goals=goals),
        f"{m}x{n}x{k} bias+ReLU": op(bias_relu, *given, goals=goals),
        f"{m}x{n}x{k} bias+residual": op(bias_residual, *given, half(m, n), goals=goals),
    }


def rows(function: Callable[..., Any], *inputs: Input, share: float | None = None) -> Workload:
    """Returns a reduction along rows, to see whether tuning finds more than the cost model. share: of the copy's bandwidth."""
    goals = tuned(1.0, "eager", COMPILED), *([] if share is None else [tuned(share, "copy bandwidth", speed=True)])
    return op(function, *inputs, goals=goals, policy="full")


def few_rows(device: str) -> Made:
    """Returns a linear layer with GELU in bf16, and 32 rows."""
    with torch.device(device):
        model = nn.Sequential(nn.Linear(768, 3072), nn.GELU())
    return model.eval().to(BF16), (half(32, 768)(device),)


def convolution(channels: int, size: int, groups: int = 1) -> Workload:
    """Returns a 3x3 convolution, a norm with statistics other than its initial ones, and ReLU, on 64 images."""

    def make(device: str) -> Made:
        """Builds the layers and their input."""
        with torch.device(device):
            norm = nn.BatchNorm2d(channels)
            convolution = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
            model = nn.Sequential(convolution, norm, nn.ReLU())
            for statistic, least in ((norm.running_mean, -0.5), (norm.running_var, 0.5)):
                assert statistic is not None
                statistic.uniform_(least, least + 1)
        x = half(64, channels, size, size)(device).to(memory_format=torch.channels_last)
        return model.eval().to(BF16).to(memory_format=torch.channels_last), (x,)  # type: ignore[call-overload]

    if groups == 1:
        return Workload(make, "op", (tuned(0.85, COMPILED),))
    return Workload(make, "op", (tuned(1.0, "eager", COMPILED),), policy="full")


WINDOW = 1024
F8 = torch.float8_e4m3fn
BACKENDS = {"cuDNN": causal_sdpa_by(SDPBackend.CUDNN_ATTENTION), "flash": causal_sdpa_by(SDPBackend.FLASH_ATTENTION)}
LARGE = (8192, 4096, 4096), (8192, 4096, 16384), (4096, 4096, 4096)  # m, n, k
COMPILES = (tuned(1.0, COMPILED),)
FEW_ROWS = tuple(
    tuned(part, other, clock=clock) for clock in ("times", "wall") for part, other in ((0.5, COMPILED), (1.0, "eager"))
)

HOT_WORKLOADS: dict[str, Workload] = {
    **{f"{m}x{n}x{k}": alone(m, n, k) for m, n, k in LARGE},
    **{name: workload for sizes in LARGE for name, workload in with_epilogues(*sizes).items()},
    "sum(relu(x@w+1)*0.5) 8192x4096x4096": op(relu_sum, half(8192, 4096), half(4096, 4096), goals=(tuned(0.9, COMPILED),)),
    "Linear 768->3072+GELU, 32 rows": Workload(few_rows, "op", FEW_ROWS),
    "8x4096 by int8 4096x11008": op(
        bytes_linear, half(8, 4096), numbers(torch.int8, 11008, 4096), half(11008), goals=COMPILES, policy="full"
    ),
    "16x14336 by 14336x4096": op(product, half(16, 14336), half(14336, 4096), policy="full"),
    "16x14336 gated, by 14336x4096": op(gated, *[half(16, 14336)] * 2, half(14336, 4096), policy="full"),
    "f8 8192x4096x4096": op(
        scaled_float8, numbers(F8, 8192, 4096), numbers(F8, 4096, 4096), one, one, policy="full", exact=scaled_product
    ),
    "8192x768x3072 bias+residual+LayerNorm": op(
        linear_norm, half(8192, 3072), half(768, 3072), half(768), half(8192, 768), half(768), half(768), policy="full"
    ),
    "attention written out b16 h12 s512 d64": op(attention, *[half(16, 12, 512, 64)] * 3, goals=COMPILES),
    "causal attention written out b4 h16 s2048 d128": op(causal_attention, *[half(4, 16, 2048, 128)] * 3, goals=COMPILES),
    "causal SDPA b4 h16 s4096 d128": op(
        causal_sdpa,
        *[half(4, 16, 4096, 128)] * 3,
        goals=(tuned(1.0, "eager", *BACKENDS, speed=True), own(0.85, "eager", *BACKENDS)),
        others=BACKENDS,
    ),
    "padded b16 h12 s512 d64": op(padded_attention, *[half(16, 12, 512, 64)] * 3, lengths, policy="full"),
    f"window of {WINDOW} b4 h16 s4096 d128": op(window_attention, *[half(4, 16, 4096, 128)] * 3, policy="full"),
    "decode b32 q1 k8192 h32/4 d128": op(
        decode, half(32, 32, 1, 128), *[half(32, 4, 8192, 128)] * 2, goals=(tuned(0.85, "copy bandwidth", speed=True),)
    ),
    "softmax bf16 4096x4096": rows(softmax, half(4096, 4096)),
    "softmax f32 2048x128256": rows(softmax, random(2048, WORDS), share=0.9),
    "cross entropy bf16 4096x128256": rows(cross_entropy, half(4096, WORDS), indices(WORDS, 4096), share=0.88),
    "conv3x3+BN+ReLU 64x64x56x56": convolution(64, 56),
    "conv3x3+BN+ReLU 64x256x14x14": convolution(256, 14),
    "grouped conv3x3+BN+ReLU 64x128x56x56, 32 groups": convolution(128, 56, 32),
    "grouped conv3x3+BN+ReLU 64x1024x7x7, 32 groups": convolution(1024, 7, 32),
    f"tuning of {TUNED_MODEL}": Workload(
        GPU_WORKLOADS[TUNED_MODEL].make, "tuning", (Goal(60.0, mine=("quick",)), Goal(1.1, ("off",), ("cached",)))
    ),
}
