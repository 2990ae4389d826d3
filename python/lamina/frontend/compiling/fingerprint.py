"""Hashes everything in a graph that a compilation depends on, for the cache key: cheap, and the same in every process.

The digest is taken before the graph is normalized, so that a warm start can skip normalization. It therefore covers all that
normalization reads, including which tensors share memory.
"""

import hashlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx

from ..calls.saved import decided_strides, free_results, roomy_results, shared_results
from ..fx.locations import origin_of, where
from ..fx.sizes import what_is_known
from ..rewrites.normalize import is_inline
from ..rewrites.updates import updates_of

_PLAIN = {str, int, float, bool, type(None)}


def fingerprint(gm: fx.GraphModule) -> bytes:
    """Returns a digest of ops, arguments, types, layouts, aliases, constants, source lines, the ops that were decomposed, and what
    is known of symbolic sizes, but not the values that they had when the graph was captured."""
    digest = hashlib.sha256()
    numbers: dict[fx.Node, str] = {}
    kind = _kinds()
    for node in gm.graph.nodes:
        numbers[node] = f"%{len(numbers)}"
        args = [_plain(a, numbers) for a in node.args]
        kwargs = {name: _plain(a, numbers) for name, a in node.kwargs.items()} if node.kwargs else None
        target = "" if node.op == "placeholder" else str(node.target)
        digest.update(repr((node.op, target, args, kwargs, kind(node.meta.get("val")), where(node), origin_of(node))).encode())
        if node.op == "get_attr":
            value = attrgetter(str(node.target))(gm)
            if isinstance(value, fx.GraphModule):  # a branch of torch.cond
                digest.update(fingerprint(value))
            digest.update(_contents(value) if isinstance(value, Tensor) and is_inline(node, value) else b"")
    digest.update(repr(what_is_known(gm.graph)).encode())
    decided = [strides for _, strides in sorted(decided_strides(gm).items())]
    digest.update(repr((free_results(gm), decided, sorted(shared_results(gm).items()), roomy_results(gm), updates_of(gm))).encode())
    return digest.digest()


def _plain(arg: Any, numbers: dict[fx.Node, str]) -> Any:
    if type(arg) in _PLAIN:
        return arg
    if isinstance(arg, fx.Node):
        return numbers[arg]
    if isinstance(arg, list | tuple):
        return [_plain(a, numbers) for a in arg]
    if isinstance(arg, dict):
        return {name: _plain(a, numbers) for name, a in arg.items()}
    return str(arg)


def _kinds() -> Callable[[Any], Any]:
    """Returns a function that describes node values. Equal storages get equal numbers."""
    storages: dict[int, int] = {}

    def kind(value: Any) -> Any:
        """Returns the properties of a value that the code depends on: of tensors dtype, layout, device and which share storage."""
        if isinstance(value, Tensor):
            held = storages.setdefault(value.untyped_storage()._cdata, len(storages))
            return (value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), value.device, held)
        return [kind(v) for v in value] if isinstance(value, list | tuple) else value

    return kind


def _contents(value: Tensor) -> bytes:
    return value.detach().contiguous().view(-1).view(torch.uint8).cpu().numpy().tobytes() if value.numel() else b""
