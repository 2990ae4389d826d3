"""Workloads of `bench.py --target nvvm`: memory-bound kernels, models in bf16, and the cost of a call."""

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
    """A kernel or model to measure on a GPU.

    make   returns a function or module, and its inputs, on a device
    kind   "kernel" or "model"
    goals  the part of a rival's time that is the goal, by its name; "best" is the best rival (see figures_gpu.RIVALS)
    share  the part of the copy's bandwidth that is the goal; None for models
    reads  how often inputs must be read: twice where all of a first pass must be done before a second
    """

    make: Callable[[str], Made]
    kind: str
    goals: Mapping[str, float] = field(default_factory=lambda: {"best": 1.0})
    share: float | None = None
    reads: int = 1


def sin_and_cos(x: Tensor) -> tuple[Tensor, Tensor]:
    """Computes sine and cosine."""
    return x.sin(), x.cos()


def mean_squared(x: Tensor, y: Tensor) -> Tensor:
    """Computes the mean squared difference."""
    return ((x - y) ** 2).mean()


def over_sum(x: Tensor) -> Tensor:
    """Divides a tensor by its sum, which needs two passes."""
    return x / x.sum()


def gelu(x: Tensor) -> Tensor:
    """Computes GELU by the tanh approximation, written out."""
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def rms_norm_silu(x: Tensor, w: Tensor, gate: Tensor) -> Tensor:
    """Computes an RMSNorm with f32 statistics, multiplied by SiLU of a gate."""
    scale = torch.rsqrt((x.float() * x.float()).mean(-1, keepdim=True) + 1e-6)
    return x * scale.to(x.dtype) * w * F.silu(gate)


def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """Computes the mean cross entropy of logits and target classes."""
    return F.cross_entropy(x, target)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Input:
    """Returns an input factory: random numbers on a device."""
    return lambda device: torch.randn(shape, dtype=dtype, device=device)


def indices(below: int, *shape: int) -> Input:
    """Returns an input factory: random indices below `below` on a device."""
    return lambda device: torch.randint(below, shape, device=device)


def kernel(
    function: Callable[..., Any], *inputs: Input, share: float, reads: int = 1, of_compile: float | None = None
) -> GpuWorkload:
    """Returns the workload of a function; its goals are the time of the best rival and `share` of the copy's bandwidth.

    of_compile  if given, Lamina must also take at most this part of torch.compile's time
    """

    def make(device: str) -> Made:
        return function, tuple(given(device) for given in inputs)

    goals = {"best": 1.0} if of_compile is None else {"best": 1.0, "torch.compile": of_compile}
    return GpuWorkload(make, "kernel", goals, share, reads)


def transformer(build: Callable[[Any], nn.Module], given: Input) -> Callable[[str], Made]:
    """Returns the maker of a model from the transformers package, which `build` takes as its argument, in bf16."""

    def make(device: str) -> Made:
        import transformers

        with torch.device(device):
            model = First(build(transformers))
        return model.eval().to(BF16), (given(device),)

    return make


def vision(name: str, images: int) -> Callable[[str], Made]:
    """Returns the maker of a torchvision model in bf16. Images are in eager's default layout."""

    def make(device: str) -> Made:
        import torchvision

        with torch.device(device):
            model: nn.Module = getattr(torchvision.models, name)()
        return model.eval().to(BF16), (random(images, 3, 224, 224, dtype=BF16)(device),)

    return make


def bert(t: Any) -> nn.Module:
    """Returns BERT-base without its pooler, with random weights."""
    model: nn.Module = t.BertModel(t.BertConfig(), add_pooling_layer=False)
    return model


def gpt2(t: Any) -> nn.Module:
    """Returns GPT-2 with random weights."""
    model: nn.Module = t.GPT2LMHeadModel(t.GPT2Config(use_cache=False))
    return model


def llama(t: Any) -> nn.Module:
    """Returns Llama-1B with random weights."""
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    model: nn.Module = t.LlamaForCausalLM(t.LlamaConfig(**sizes, **heads, vocab_size=WORDS, use_cache=False))
    return model


def vit(t: Any) -> nn.Module:
    """Returns ViT-base without its pooler, with random weights."""
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
