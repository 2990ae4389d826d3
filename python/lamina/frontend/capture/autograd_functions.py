"""Keeps custom torch.autograd.Functions whole in graphs that torch.export captures for gradients.

torch.export traces a function's forward and forgets its backward. Here a call stays one node, which calls the function when
AOTAutograd traces the graph: AOTAutograd then sees forward and backward.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._dynamo._trace_wrapped_higher_order_op import ModIndex
from torch._ops import HigherOrderOperator, _higher_order_ops
from torch.fx.experimental.proxy_tensor import track_tensor_tree
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointFunction

from .regions import left_out


@contextmanager
def custom_functions_as_nodes() -> Iterator[None]:
    """Keeps calls of custom functions as nodes, while tracing in this thread.

    Where no gradient is recorded they are traced through, as their backward is not needed.
    """
    thread = threading.get_ident()
    plain = torch.autograd.Function.__dict__["apply"]

    def apply(cls: type[torch.autograd.Function], *args: Any, **kwargs: Any) -> Any:
        """Replaces Function.apply during this thread's trace."""
        call = plain.__get__(None, cls)
        if threading.get_ident() != thread or not torch.is_grad_enabled():
            return call(*args, **kwargs)
        if cls is CheckpointFunction:  # checkpoint(use_reentrant=True): gradients are those of the function itself
            function, _, *rest = args
            return function(*rest)
        if cls is ModIndex:  # of flex_attention's functions: gradients are those of its one op
            return cls.forward(*args, **kwargs)
        return _recorded(cls, call, args, kwargs)

    torch.autograd.Function.apply = classmethod(apply)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.autograd.Function.apply = plain  # type: ignore[method-assign]


class _Call(HigherOrderOperator):
    """The call of a function, with its non-tensor arguments stored; it is called with the tensors.

    As the target of a node it needs nothing else in the graph, so torch.export may move it into the graph of a region.
    """

    def __init__(self, function: type[torch.autograd.Function], leaves: list[Any], spec: pytree.TreeSpec) -> None:
        super().__init__(f"lamina_{function.__name__}")
        del _higher_order_ops[self._name]  # the registry would keep it longer than its graph
        self.__module__ = __name__  # torch refers to its own ops by name in a graph's code
        self.function, self.spec = function, spec
        self.leaves = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def __call__(self, *tensors: Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.function.apply(*args, **kwargs)


def _recorded(cls: type[torch.autograd.Function], call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the function's results, recorded as results of one node of the graph being captured."""
    mode = torch._ops._get_dispatch_mode_pre_dispatch(torch._C._TorchDispatchModeKey.PROXY)
    if mode is None:
        return call(*args, **kwargs)
    below = torch._C._dispatch_tls_local_include_set().remove(torch._C.DispatchKey.PreDispatch)
    without = torch._C._dispatch_tls_local_exclude_set() | torch._C.DispatchKeySet(torch._C.DispatchKey.PreDispatch)
    with torch._C._ForceDispatchKeyGuard(below, without), left_out(mode.tracer.graph):  # regions in forward stay inside the node
        results = call(*args, **kwargs)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = tuple(mode.tracer.unwrap_proxy(leaf) for leaf in leaves if isinstance(leaf, Tensor))
    made = mode.tracer.create_proxy("call_function", _Call(cls, leaves, spec), tensors, {})
    track_tensor_tree(results, made, constant=None, tracer=mode.tracer)
    return results
