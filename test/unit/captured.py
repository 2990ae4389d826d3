"""A model's graph as torch.export and as Dynamo capture it."""

import torch
from torch import Tensor, fx, nn


def exported(model: nn.Module, inputs: tuple[Tensor, ...]) -> fx.GraphModule:
    return torch.export.export(model, inputs, strict=False).graph_module


def by_dynamo(model: nn.Module, inputs: tuple[Tensor, ...]) -> fx.GraphModule:
    seen: list[fx.GraphModule] = []

    def backend(gm: fx.GraphModule, _: list[Tensor]) -> fx.GraphModule:
        seen.append(gm)
        return gm

    torch._dynamo.reset()
    torch.compile(model, backend=backend, fullgraph=True)(*inputs)
    return seen[0]
