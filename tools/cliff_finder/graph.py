"""Defines graphs as plain data, which can be stored as JSON, printed as Python source, run, and reduced."""

import importlib
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from lamina.core.walks import reachable

MODES = ("inference", "training", "gradients")
"""inference: eval mode, forward only; training: training mode, forward only; gradients: training mode, forward and backward."""


def first(result: Any) -> Tensor:
    """Returns the first tensor in a model's result."""
    leaf: Tensor = next(
        t for t in pytree.tree_leaves(list(result.values()) if isinstance(result, dict) else result) if isinstance(t, Tensor)
    )
    return leaf


@dataclass(frozen=True)
class DrawnInput:
    """Describes a tensor argument of a graph.

    shape   its sizes
    dtype   the name of its torch dtype
    layout  "contiguous", "channels_last", "transposed" or "sliced"
    below   for indices, the bound that they are below; 0 for other numbers
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: str = "contiguous"
    below: int = 0

    def make(self, generator: torch.Generator, device: str) -> Tensor:
        """Draws the tensor, normally distributed or as indices, on the CPU and moves it to the device in its layout."""
        dtype = getattr(torch, self.dtype)
        if self.below:
            return torch.randint(self.below, self.shape, generator=generator, dtype=dtype).to(device)
        return _laid_out(torch.randn(self.shape, generator=generator).to(dtype).to(device), self.layout)


def _laid_out(x: Tensor, layout: str) -> Tensor:
    """Returns the tensor's elements in another layout."""
    if layout == "channels_last" and x.dim() == 4:
        return x.to(memory_format=torch.channels_last)
    if layout == "transposed" and x.dim() > 1:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "sliced":
        wide = x.new_zeros((*x.shape[:-1], x.shape[-1] + 3))
        wide[..., 1:-2] = x
        return wide[..., 1:-2]
    return x


@dataclass(frozen=True)
class DrawnNode:
    """Describes one operation.

    expression  Python, in which {0}, {1} stand for operands and {m} for the module
    operands    values by number: inputs first, then nodes
    module      the constructor of the module; "" for none
    """

    expression: str
    operands: tuple[int, ...]
    module: str = ""


@dataclass(frozen=True)
class DrawnGraph:
    """Describes a model and its arguments. The result is the last node's, or the last input if there are no nodes.

    inputs  the arguments
    nodes   the operations in order
    mode    one of MODES
    dtype   the name of the torch dtype of the weights
    """

    inputs: tuple[DrawnInput, ...]
    nodes: tuple[DrawnNode, ...]
    mode: str = "inference"
    dtype: str = "float32"

    @property
    def source(self) -> str:
        """The source of the module, a class Model."""
        count = len(self.inputs)
        members = [f"        self.m{i} = {n.module}" for i, n in enumerate(self.nodes) if n.module]
        lines = []
        for i, node in enumerate(self.nodes):
            values = [f"v{v}" for v in node.operands]
            lines.append(f"        v{count + i} = " + node.expression.format(*values, m=f"self.m{i}"))
        arguments = ", ".join(f"v{i}" for i in range(count))
        return "\n".join(
            [
                "class Model(nn.Module):",
                "    def __init__(self):",
                "        super().__init__()",
                *members,
                f"    def forward(self, {arguments}):",
                *lines,
                f"        return v{count + len(self.nodes) - 1}",
            ]
        )

    def model(self, seed: int, device: str) -> nn.Module:
        """Builds the module with random weights, in the graph's dtype and mode, without dropout."""
        torch.manual_seed(seed)
        names: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "first": first}
        names |= {
            package: importlib.import_module(package) for package in ("transformers", "torchvision") if f"{package}." in self.source
        }
        exec(compile(self.source, "<cliff>", "exec"), names)
        usual = torch.get_default_dtype()
        torch.set_default_dtype(getattr(torch, self.dtype))
        try:
            made: nn.Module = names["Model"]()
        finally:
            torch.set_default_dtype(usual)
        for module in made.modules():  # dropout would give another result in each run
            for name in [
                n for n, v in vars(module).items() if isinstance(v, float) and ("dropout" in n or n == "p" or "drop_path" in n)
            ]:
                setattr(module, name, 0.0)
        made.train(self.mode != "inference")
        return made if device == "cpu" else made.to(device)

    def arguments(self, seed: int, device: str) -> tuple[Tensor, ...]:
        """Draws the arguments; the same ones for the same seed."""
        generator = torch.Generator().manual_seed(seed)
        return tuple(given.make(generator, device) for given in self.inputs)

    def used(self) -> "DrawnGraph":
        """Returns the graph without the inputs and nodes that its result does not depend on."""
        count = len(self.inputs)
        last = count + len(self.nodes) - 1
        wanted = set(reachable([last], lambda value: self.nodes[value - count].operands if value >= count else ()))
        new = {value: i for i, value in enumerate(sorted(wanted))}
        nodes = [replace(n, operands=tuple(new[v] for v in n.operands)) for i, n in enumerate(self.nodes) if count + i in wanted]
        return replace(self, inputs=tuple(g for i, g in enumerate(self.inputs) if i in wanted), nodes=tuple(nodes))

    def to_json(self) -> dict[str, Any]:
        """Returns the graph as data for JSON."""
        return asdict(self)

    @staticmethod
    def from_json(json: dict[str, Any]) -> "DrawnGraph":
        """Restores a graph from what to_json returned."""
        inputs = tuple(DrawnInput(**{**i, "shape": tuple(i["shape"])}) for i in json["inputs"])
        nodes = tuple(DrawnNode(n["expression"], tuple(n["operands"]), n["module"]) for n in json["nodes"])
        return DrawnGraph(inputs, nodes, json["mode"], json["dtype"])

    def __str__(self) -> str:
        """Returns one line: the operations in order, the inputs, the mode."""
        ops = [n.module or n.expression.format(*["_"] * len(n.operands)) for n in self.nodes]
        given = [f"{i.dtype}{list(i.shape)}{'' if i.layout == 'contiguous' else ' ' + i.layout}" for i in self.inputs]
        return f"{' > '.join(ops)} on {', '.join(given)}, {self.mode}"
