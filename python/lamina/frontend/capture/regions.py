"""Handles regions of a traced graph in another grad mode or autocast state: pairs of nodes that change the state and restore it."""

import functools
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch._export.passes import replace_autocast_with_hop_pass as autocast_pass
from torch._export.passes import replace_set_grad_with_hop_pass as grad_pass
from torch.export import ExportedProgram

from ..fx.rewriter import copied
from .module_state import autocast_state

_GRAD_MODE = torch._C._set_grad_enabled
_CHANGES = (_GRAD_MODE, torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast)


@contextmanager
def without_region_graphs() -> Iterator[None]:
    """Keeps torch.export from moving regions into graphs of their own, while tracing in this thread.

    torch.export forgets the grad mode of regions inside autocast, and its verifier refuses some of these graphs.
    """
    thread = threading.get_ident()
    plain = (grad_pass.replace_set_grad_with_hop_pass, autocast_pass.replace_autocast_with_hop_pass)

    def unless_mine(replace: Any) -> Any:
        """Returns a pass that does nothing in this thread."""
        return lambda gm, signature: (gm, signature) if threading.get_ident() == thread else replace(gm, signature)

    grad_pass.replace_set_grad_with_hop_pass, autocast_pass.replace_autocast_with_hop_pass = map(unless_mine, plain)
    try:
        yield
    finally:
        grad_pass.replace_set_grad_with_hop_pass, autocast_pass.replace_autocast_with_hop_pass = plain


def without_grad_modes(program: ExportedProgram) -> ExportedProgram:
    """Returns a program without changes of the grad mode, itself if it has none, for calls that compute no gradients."""
    if not any(node.target is _GRAD_MODE for node in program.graph.nodes):
        return program
    gm = copied(program.graph_module)
    for node in gm.graph.find_nodes(op="call_function", target=_GRAD_MODE):
        gm.graph.erase_node(node)
    gm.recompile()
    return program._update(gm, program.graph_signature)


@contextmanager
def left_out(graph: fx.Graph) -> Iterator[None]:
    """Removes the nodes of regions that are entered in its body."""
    before = set(graph.nodes)
    yield
    for node in reversed(list(graph.nodes)):
        if node not in before and node.target in _CHANGES:
            graph.erase_node(node)


@contextmanager
def in_callers_autocast(module: nn.Module) -> Iterator[None]:
    """Makes forward enter the caller's autocast state while it is traced: torch.export does not see what surrounds the call."""
    kinds = ("cpu", "cuda")
    states = autocast_state(kinds)
    if not states:
        yield
        return
    forward, had = module.forward, "forward" in module.__dict__

    @functools.wraps(forward)
    def casting(*args: Any, **kwargs: Any) -> Any:
        """Calls forward under the autocast states that the trace began with."""
        with ExitStack() as around:
            for device, dtype in states:
                around.enter_context(torch.autocast(device, dtype=dtype))
            return forward(*args, **kwargs)

    module.__dict__["forward"] = casting
    try:
        with ExitStack() as outside:
            for device, _ in states:
                outside.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        del module.__dict__["forward"]
        if had:
            module.__dict__["forward"] = forward
