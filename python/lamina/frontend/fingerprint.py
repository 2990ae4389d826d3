"""What a compilation depends on in a graph, as bytes for the cache key: cheap, and the same in every process."""

import hashlib
from typing import Any

import torch
from torch import Tensor, fx

from .locations import where
from .normalise import Normalised


def fingerprint(graph: Normalised) -> bytes:
    """A digest of ops, arguments, types, layouts, constants and source lines."""
    digest = hashlib.sha256()
    numbers = {node: i for i, node in enumerate(graph.gm.graph.nodes)}

    def plain(arg: Any) -> Any:
        if isinstance(arg, fx.Node):
            return f"%{numbers[arg]}"
        if isinstance(arg, list | tuple):
            return [plain(a) for a in arg]
        if isinstance(arg, dict):
            return {k: plain(v) for k, v in arg.items()}
        return arg if isinstance(arg, str | int | float | bool | None) else str(arg)

    for node in graph.gm.graph.nodes:
        value = node.meta.get("val")
        kind = [_kind(v) for v in value] if isinstance(value, list | tuple) else _kind(value)
        line = (node.op, str(node.target), plain(node.args), plain(node.kwargs), kind, where(node))
        digest.update(repr(line).encode())
        if node.op == "get_attr":
            digest.update(_contents(getattr(graph.gm, str(node.target))))
    digest.update(repr((graph.inputs, graph.outputs, [_kind(t) for t in graph.captured])).encode())
    return digest.digest()


def _kind(value: Any) -> Any:
    if isinstance(value, Tensor):
        return (str(value.dtype), tuple(value.shape), value.stride(), str(value.device))
    return repr(value)


def _contents(value: Tensor) -> bytes:
    return value.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
