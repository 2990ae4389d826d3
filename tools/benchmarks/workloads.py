"""Workloads of `make bench`: single kernels at sizes beyond the caches, whole models, and the cost of a call."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.tools.driver.model import build

MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"
N = 4096

Made = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Workload:
    """A kernel or model to measure on a CPU.

    make    returns a function or module, and its inputs
    kind    "kernel" or "model"
    ratio   the part of torch.compile's time that is the goal
    memory  whether the kernel is bound by memory bandwidth
    """

    make: Callable[[], Made]
    kind: str
    ratio: float
    memory: bool = False


def chain(x: Tensor) -> Tensor:
    """Computes a chain of five pointwise operations."""
    return ((x + 1) * 2).relu().sub(0.5).sigmoid()


def softmax(x: Tensor) -> Tensor:
    """Computes a softmax along rows."""
    return x.softmax(-1)


def add_layer_norm(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Adds two tensors; returns the sum and its LayerNorm."""
    total = x + y
    return total, F.layer_norm(total, (N,), w, b)


def rms_norm_silu(x: Tensor, gate: Tensor, w: Tensor) -> Tensor:
    """Computes an RMSNorm, multiplied by SiLU of a gate."""
    return F.rms_norm(x, (N,), w) * F.silu(gate)


def column_sums(x: Tensor) -> Tensor:
    """Computes the sum of each column."""
    return x.sum(0)


def transpose_add_relu(x: Tensor, y: Tensor) -> Tensor:
    """Adds the transpose of x to y, and applies ReLU."""
    return (x.t() + y).relu()


def random(*shape: int) -> Tensor:
    """Returns a random f32 tensor."""
    return torch.randn(shape)


def kernel(function: Callable[..., Any], *inputs: Callable[[], Tensor]) -> Workload:
    """Returns the workload of a memory-bound function; its goal is 0.8 of torch.compile's time."""
    return Workload(lambda: (function, tuple(make() for make in inputs)), "kernel", 0.8, memory=True)


def square() -> Tensor:
    """Returns a random f32 matrix of N x N."""
    return random(N, N)


def row() -> Tensor:
    """Returns a random f32 vector of N."""
    return random(N)


def example(place: str, **sizes: int) -> Workload:
    """Returns the workload of a model in examples/models, named `FILE.py:FACTORY`; `sizes` are the factory's arguments."""
    file, _, factory = place.partition(":")

    def make() -> Made:
        if not sizes:
            return build(str(MODELS / file), factory)
        build(str(MODELS / file), factory)
        made: Made = getattr(sys.modules[Path(file).stem], factory)(**sizes)
        return made

    return Workload(make, "model", 0.95)


class First(nn.Module):
    """Returns the first result of a transformers model, which returns an object of many."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.eval()

    def forward(self, given: Tensor) -> Tensor:
        """Runs the model on its one input."""
        first: Tensor = self.model(given)[0]
        return first


def gpt2() -> Made:
    """Returns GPT-2 with random weights, and 256 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return First(GPT2LMHeadModel(GPT2Config(use_cache=False))).eval(), (torch.randint(50257, (1, 256)),)


def bert() -> Made:
    """Returns BERT-base with random weights, and 128 tokens."""
    from transformers import BertConfig, BertModel

    return First(BertModel(BertConfig())).eval(), (torch.randint(30522, (1, 128)),)


def vit() -> Made:
    """Returns ViT-base with random weights, and one image."""
    from transformers import ViTConfig, ViTModel

    return First(ViTModel(ViTConfig())).eval(), (random(1, 3, 224, 224),)


WORKLOADS: dict[str, Workload] = {
    "chain of five": kernel(chain, square),
    "GELU": kernel(F.gelu, square),
    "softmax": kernel(softmax, square),
    "add+LayerNorm": kernel(add_layer_norm, square, square, row, row),
    "RMSNorm*SiLU": kernel(rms_norm_silu, square, square, row),
    "mean squared error": kernel(F.mse_loss, square, square),
    "column sums": kernel(column_sums, square),
    "transpose+add+relu": kernel(transpose_add_relu, square, square),
    "cross entropy": kernel(F.cross_entropy, lambda: random(512, 32000), lambda: torch.randint(32000, (512,))),
    "GPT-2": Workload(gpt2, "model", 0.95),
    "BERT-base": Workload(bert, "model", 0.95),
    "ResNet-18": example("resnet.py:resnet18"),
    "ViT-base": Workload(vit, "model", 0.95),
    "MLP": example("mlp.py:mlp", rows=128, width=1024, hidden=4096, layers=4),
}
CALL = "call on 64 elements"
