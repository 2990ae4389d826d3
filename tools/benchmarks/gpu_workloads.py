"""What `bench.py --target nvvm` measures: kernels whose time is that of memory, models in bf16, and the cost of a call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.tools.benchmarks.workloads import First, Made, add_layer_norm, chain, softmax, transpose_add_relu

BF16 = torch.bfloat16
WORDS = 128256  # Llama's vocabulary

Input = Callable[[str], Tensor]


@dataclass(frozen=True)
class GpuWorkload:
    """
    make   gives a function or module, and its inputs, on a device
    kind   "kernel" or "model"
    goals  the parts of others' times that count as reached: of "best", the best rival (see figures_gpu.RIVALS), or of one by name
    share  the part of the copy's bandwidth that is the goal; None for models
    reads  how often inputs must be read, where the first result of the second pass needs all of the first
    """

    make: Callable[[str], Made]
    kind: str
    goals: Mapping[str, float] = field(default_factory=lambda: {"best": 1.0})
    share: float | None = None
    reads: int = 1


def sin_and_cos(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sin(), x.cos()


def mean_squared(x: Tensor, y: Tensor) -> Tensor:
    return ((x - y) ** 2).mean()


def over_sum(x: Tensor) -> Tensor:
    return x / x.sum()


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def rms_norm_silu(x: Tensor, w: Tensor, gate: Tensor) -> Tensor:
    scale = torch.rsqrt((x.float() * x.float()).mean(-1, keepdim=True) + 1e-6)
    return x * scale.to(x.dtype) * w * F.silu(gate)


def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x, target)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Input:
    return lambda device: torch.randn(shape, dtype=dtype, device=device)


def indices(below: int, *shape: int) -> Input:
    return lambda device: torch.randint(below, shape, device=device)


def kernel(
    function: Callable[..., Any], *inputs: Input, share: float, reads: int = 1, of_compile: float | None = None
) -> GpuWorkload:
    """`of_compile`: at most this part of torch.compile's time, beside all of the best rival's."""

    def make(device: str) -> Made:
        return function, tuple(given(device) for given in inputs)

    goals = {"best": 1.0} if of_compile is None else {"best": 1.0, "torch.compile": of_compile}
    return GpuWorkload(make, "kernel", goals, share, reads)


def transformer(build: Callable[[Any], nn.Module], given: Input) -> Callable[[str], Made]:
    """`build` makes the model from the transformers package."""

    def make(device: str) -> Made:
        import transformers

        with torch.device(device):
            model = First(build(transformers))
        return model.eval().to(BF16), (given(device),)

    return make


def vision(name: str, images: int) -> Callable[[str], Made]:
    """A model of torchvision. Images are in eager's default layout."""

    def make(device: str) -> Made:
        import torchvision

        with torch.device(device):
            model: nn.Module = getattr(torchvision.models, name)()
        return model.eval().to(BF16), (random(images, 3, 224, 224, dtype=BF16)(device),)

    return make


def bert(t: Any) -> nn.Module:
    model: nn.Module = t.BertModel(t.BertConfig(), add_pooling_layer=False)
    return model


def gpt2(t: Any) -> nn.Module:
    model: nn.Module = t.GPT2LMHeadModel(t.GPT2Config(use_cache=False))
    return model


def llama(t: Any) -> nn.Module:
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    model: nn.Module = t.LlamaForCausalLM(t.LlamaConfig(**sizes, **heads, vocab_size=WORDS, use_cache=False))
    return model


def vit(t: Any) -> nn.Module:
    model: nn.Module = t.ViTModel(t.ViTConfig(), add_pooling_layer=False)
    return model


WIDE = random(16384, 4096, dtype=BF16)
ROW = random(4096, dtype=BF16)
SQUARE = random(8192, 8192)
HALF_SQUARE = random(8192, 8192, dtype=BF16)

GPU_WORKLOADS: dict[str, GpuWorkload] = {
    "chain of five f32 4096^2": kernel(chain, random(4096, 4096), share=0.84),
    "chain of five f32 16384^2": kernel(chain, random(16384, 16384), share=0.9),
    "sin and cos f32 8192^2": kernel(sin_and_cos, SQUARE, share=0.9),
    "mean squared f32 8192^2": kernel(mean_squared, SQUARE, SQUARE, share=0.9),
    "x / x.sum() f32 8192^2": kernel(over_sum, SQUARE, share=0.9, reads=2),
    "GELU bf16 8192^2": kernel(gelu, HALF_SQUARE, share=0.88),
    "softmax bf16 16384x4096": kernel(softmax, WIDE, share=0.88, of_compile=0.42),
    "softmax f32 2048x128256": kernel(softmax, random(2048, WORDS), share=0.9, of_compile=0.69),
    "add+LayerNorm bf16 16384x4096": kernel(add_layer_norm, WIDE, WIDE, ROW, ROW, share=0.88),
    "RMSNorm*SiLU bf16 16384x4096": kernel(rms_norm_silu, WIDE, ROW, WIDE, share=0.88),
    "cross entropy bf16 4096x128256": kernel(
        cross_entropy, random(4096, WORDS, dtype=BF16), indices(WORDS, 4096), share=0.88, of_compile=0.39
    ),
    "transpose+add+relu bf16 8192^2": kernel(transpose_add_relu, HALF_SQUARE, HALF_SQUARE, share=0.88),
    "BERT-base b1 s128": GpuWorkload(transformer(bert, indices(30522, 1, 128)), "model", {"reduce-overhead": 0.9}),
    "BERT-base b16 s512": GpuWorkload(transformer(bert, indices(30522, 16, 512)), "model"),
    "GPT-2 b8 s1024": GpuWorkload(transformer(gpt2, indices(50257, 8, 1024)), "model"),
    "Llama-1B b4 s2048": GpuWorkload(transformer(llama, indices(WORDS, 4, 2048)), "model"),
    "ViT-base b32": GpuWorkload(transformer(vit, random(32, 3, 224, 224, dtype=BF16)), "model"),
    "ResNet-50 b64": GpuWorkload(vision("resnet50", 64), "model"),
    "ConvNeXt-tiny b32": GpuWorkload(vision("convnext_tiny", 32), "model"),
    "MobileNetV3 b64": GpuWorkload(vision("mobilenet_v3_large", 64), "model"),
}
GPU_CALL = "call on 64x64"
