"""Describes workloads and their goals; lists those of `make bench`: kernels at sizes beyond the caches, models, and a call."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.core.options import Tune
from lamina.tools.driver.model import build

MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"
N = 4096

Made = tuple[Callable[..., Any], tuple[Any, ...]]
Input = Callable[[str], Tensor]


@dataclass(frozen=True)
class Goal:
    """A bound on Lamina's time by a clock.

    part    Lamina's time is at most this part of the others'; with `speed`, its speed at least this part; without others, seconds
    others  names of the others, of which the fastest counts; "copy bandwidth" is a copy of as many bytes as the workload must move
    mine    names of Lamina's contestants, of which the fastest counts
    clock   the key of the times among a workload's figures, one of tables.figures.CLOCKS
    speed   whether `part` is of speed
    """

    part: float
    others: tuple[str, ...] = ()
    mine: tuple[str, ...] = ("lamina",)
    clock: str = "times"
    speed: bool = False


@dataclass(frozen=True)
class Workload:
    """A workload to measure, and its goals.

    make    returns a function or module, and its inputs, on a device
    kind    "kernel", "model", "op" (measured tuned and untuned, compared with others), "call" (its overhead) or "tuning"
    goals   what the figures must reach
    reads   how often inputs must be read: twice where all of a first pass must be done before a second
    others  a library's ways to compute it besides eager's, by name
    policy  of tuning: "full" where the best of all of Lamina's schedules is wanted
    exact   the same function of float64 tensors, where the function itself takes only other dtypes
    """

    make: Callable[[str], Made]
    kind: str
    goals: tuple[Goal, ...] = ()
    reads: int = 1
    others: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    policy: Tune = "quick"
    exact: Callable[..., Any] | None = None

    @property
    def needs(self) -> set[str]:
        """Names the contestants and the clocks that goals are about."""
        return {name for goal in self.goals for name in (*goal.others, goal.clock)}


COMPILING = Goal(0.25, ("torch.compile",), clock="cold"), Goal(0.1, clock="warm")


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


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Input:
    """Returns an input factory: random numbers on a device."""
    return lambda device: torch.randn(shape, dtype=dtype, device=device)


def indices(below: int, *shape: int) -> Input:
    """Returns an input factory: random indices below `below` on a device."""
    return lambda device: torch.randint(below, shape, device=device)


def on(function: Callable[..., Any], *inputs: Input) -> Callable[[str], Made]:
    """Returns a maker of a workload: the function with its inputs on a device."""
    return lambda device: (function, tuple(given(device) for given in inputs))


def kernel(function: Callable[..., Any], *inputs: Input) -> Workload:
    """Returns the workload of a memory-bound function; its goals are 0.8 of torch.compile's time and of the copy's bandwidth."""
    goals = Goal(0.8, ("torch.compile",)), Goal(0.8, ("copy bandwidth",), clock="alone", speed=True)
    return Workload(on(function, *inputs), "kernel", (*goals, *COMPILING))


def model(make: Callable[[str], Made]) -> Workload:
    """Returns the workload of a model; its goal is 0.95 of the time of torch.compile, and of eager."""
    return Workload(make, "model", (Goal(0.95, ("torch.compile",)), Goal(0.95, ("eager",)), *COMPILING))


def call(*shape: int, ahead: float, above: float) -> Workload:
    """Returns the workload of a call on few elements.

    Its goals are `ahead` seconds by lamina.compile, and `above` seconds by torch.compile, above a backend that compiles nothing.
    """
    goals = Goal(ahead, mine=("lamina.compile",)), Goal(above, mine=("lamina above null",))
    return Workload(on(chain, random(*shape)), "call", goals)


def example(place: str, **sizes: int) -> Workload:
    """Returns the workload of a model in examples/models, named `FILE.py:FACTORY`; `sizes` are the factory's arguments."""
    file, _, factory = place.partition(":")

    def make(_device: str) -> Made:
        """Builds the example model."""
        made: Made = build(str(MODELS / file), factory)
        return getattr(sys.modules[Path(file).stem], factory)(**sizes) if sizes else made

    return model(make)


class First(nn.Module):
    """Returns the first result of a transformers model, which returns an object of many."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Runs the model on its one input."""
        return self.model(x)[0]


def transformer(build: Callable[[Any], nn.Module], example: Input, dtype: torch.dtype = torch.float32) -> Callable[[str], Made]:
    """Returns the maker of a model with random weights from the transformers package, which `build` takes as its argument."""

    def make(device: str) -> Made:
        """Builds the model and its tokens."""
        import transformers

        with torch.device(device):
            model = First(build(transformers))
        return model.eval().to(dtype), (example(device),)

    return make


def gpt2(t: Any) -> Any:
    """Returns GPT-2."""
    return t.GPT2LMHeadModel(t.GPT2Config(use_cache=False))


SQUARE, ROW = random(N, N), random(N)

WORKLOADS: dict[str, Workload] = {
    "chain of five": kernel(chain, SQUARE),
    "GELU": kernel(F.gelu, SQUARE),
    "softmax": kernel(softmax, SQUARE),
    "add+LayerNorm": kernel(add_layer_norm, SQUARE, SQUARE, ROW, ROW),
    "RMSNorm*SiLU": kernel(rms_norm_silu, SQUARE, SQUARE, ROW),
    "mean squared error": kernel(F.mse_loss, SQUARE, SQUARE),
    "column sums": kernel(column_sums, SQUARE),
    "transpose+add+relu": kernel(transpose_add_relu, SQUARE, SQUARE),
    "cross entropy": kernel(F.cross_entropy, random(512, 32000), indices(32000, 512)),
    "GPT-2": model(transformer(gpt2, indices(50257, 1, 256))),
    "BERT-base": model(transformer(lambda t: t.BertModel(t.BertConfig()), indices(30522, 1, 128))),
    "ResNet-18": example("resnet.py:resnet18"),
    "ViT-base": model(transformer(lambda t: t.ViTModel(t.ViTConfig()), random(1, 3, 224, 224))),
    "MLP": example("mlp.py:mlp", rows=128, width=1024, hidden=4096, layers=4),
    "call on 64 elements": call(64, ahead=8e-6, above=3e-6),
}
