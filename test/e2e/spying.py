"""Captures what the backend returns for the graphs of a model."""

from collections.abc import Callable
from typing import Any

import torch
from entry_points import NO_CACHE

from lamina.frontend.entry.dynamo import backend


def spied(model: Callable[..., Any], **options: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Returns the model under torch.compile, and a list that receives what the backend returns for each of its graphs."""
    returned: list[Any] = []

    def spy(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        returned.append(backend(gm, inputs, options=NO_CACHE))
        return returned[-1]

    torch._dynamo.reset()
    return torch.compile(model, backend=spy, **options), returned
