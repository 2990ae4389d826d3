"""Workloads of `bench.py --target nvvm`: memory-bound kernels, models in bf16, and the cost of a call."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.tools.benchmarks.workloads import (
    Goal,
    Input,
    Made,
    Workload,
    add_layer_norm,
    call,
    chain,
    gpt2,
    indices,
    on,
    random,
    softmax,
    transformer,
    transpose_add_relu,
)

BF16 = torch.bfloat16
WORDS = 128256  # Llama's vocabulary
LAMINA = ("lamina", "lamina graphs")
COMPILERS = ("torch.compile", "reduce-overhead")
BEST = Goal(1.0, ("eager", *COMPILERS), LAMINA)
COMPILING = Goal(1 / 3, ("torch.compile",), clock="cold")


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


def kernel(function: Callable[..., Any], *inputs: Input, share: float, reads: int = 1, of_compile: float | None = None) -> Workload:
    """Returns the workload of a function; its goals are the time of the best compiler, and `share` of the copy's bandwidth.

    of_compile  if given, Lamina must also take at most this part of torch.compile's time
    """
    more = () if of_compile is None else (Goal(of_compile, ("torch.compile",)),)
    goals = Goal(1.0, COMPILERS), *more, Goal(1.0, ("XLA",), clock="busy"), Goal(share, ("copy bandwidth",), speed=True)
    return Workload(on(function, *inputs), "kernel", goals, reads)


def model(make: Callable[[str], Made], goal: Goal = BEST) -> Workload:
    """Returns the workload of a model; its goals are this one and a third of torch.compile's time to compile."""
    return Workload(make, "model", (goal, COMPILING))


def vision(name: str, images: int) -> Callable[[str], Made]:
    """Returns the maker of a torchvision model in bf16. Images are in eager's default layout."""

    def make(device: str) -> Made:
        """Builds the model and its images."""
        import torchvision

        with torch.device(device):
            model: nn.Module = getattr(torchvision.models, name)()
        return model.eval().to(BF16), (random(images, 3, 224, 224, dtype=BF16)(device),)

    return make


def bert(t: Any) -> Any:
    """Returns BERT-base without its pooler."""
    return t.BertModel(t.BertConfig(), add_pooling_layer=False)


def llama(t: Any) -> Any:
    """Returns Llama-1B."""
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    return t.LlamaForCausalLM(t.LlamaConfig(**sizes, **heads, vocab_size=WORDS, use_cache=False))


def vit(t: Any) -> Any:
    """Returns ViT-base without its pooler."""
    return t.ViTModel(t.ViTConfig(), add_pooling_layer=False)


WIDE = random(16384, 4096, dtype=BF16)
ROW = random(4096, dtype=BF16)
SQUARE = random(8192, 8192)
HALF_SQUARE = random(8192, 8192, dtype=BF16)

GPU_WORKLOADS: dict[str, Workload] = {
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
    "BERT-base b1 s128": model(transformer(bert, indices(30522, 1, 128), BF16), Goal(0.9, ("reduce-overhead",), LAMINA)),
    "BERT-base b16 s512": model(transformer(bert, indices(30522, 16, 512), BF16)),
    "GPT-2 b8 s1024": model(transformer(gpt2, indices(50257, 8, 1024), BF16)),
    "Llama-1B b4 s2048": model(transformer(llama, indices(WORDS, 4, 2048), BF16)),
    "ViT-base b32": model(transformer(vit, random(32, 3, 224, 224, dtype=BF16), BF16)),
    "ResNet-50 b64": model(vision("resnet50", 64)),
    "ConvNeXt-tiny b32": model(vision("convnext_tiny", 32)),
    "MobileNetV3 b64": model(vision("mobilenet_v3_large", 64)),
    "call on 64x64": call(64, 64, ahead=10e-6, above=5e-6),
}
