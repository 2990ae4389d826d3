"""Finds, during a trace, what a model's forward uses that is not the model's own.

That is modules and tensors of closures, globals and plain containers.
"""

import threading
from collections.abc import Hashable, Iterable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from lamina.core.errors import CompileError

from .as_module import original
from .assigned import Snapshot

_HOOKS = {Tensor.register_hook: "register_hook", Tensor.register_post_accumulate_grad_hook: "register_post_accumulate_grad_hook"}


class Foreign(TorchFunctionMode):
    """Records foreign modules and tensors while a module is traced.

    modules  those that were called and are not submodules of it; they are left as they were. Bare graphs, such as those that
             torch.cond makes of its branches at each trace, do not count
    tensor() the tensor that a constant of the traced graph was made from
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._root = module
        self._own = {*map(_state, map(original, module.modules())), *map(_state, module.modules())}
        self._tensors: dict[Hashable, Tensor] = {}
        self._before: list[Snapshot] = []
        self.modules: list[nn.Module] = []

    def __enter__(self) -> "Foreign":
        thread, plain = threading.get_ident(), nn.Module._call_impl

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            """Replaces Module.__call__ during this thread's trace, and notes the module."""
            if not torch.compiler.is_dynamo_compiling() and threading.get_ident() == thread:
                self._called(original(module))
            return plain(module, *args, **kwargs)

        # A global hook would not do: calls of other models in other threads would take it for a change of state.
        nn.Module._call_impl = call  # type: ignore[method-assign, assignment]
        self._plain = plain
        super().__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        for before in self._before:
            before.restore()
        nn.Module._call_impl = self._plain  # type: ignore[method-assign]

    def _called(self, module: nn.Module) -> None:
        if _state(module) in self._own:
            return
        parts = set(map(_state, module.modules()))
        if _state(self._root) not in parts and not all(map(_is_graph_alone, module.modules())):  # torch.export wraps the module
            self.modules.append(module)
            self._before.append(Snapshot(module))
            self._own |= parts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.compiler.is_dynamo_compiling():  # torch.cond traces its branches by Dynamo
            return func(*args, **(kwargs or {}))
        if func in _HOOKS:
            raise CompileError(
                f"forward calls {_HOOKS[func]} on a tensor, which a graph does not keep",
                remedy='register the hook outside of forward, or use torch.compile(model, backend="lamina")',
            )
        for arg in args:
            self._note(arg)
        for arg in kwargs.values() if kwargs else ():
            self._note(arg)
        return func(*args, **(kwargs or {}))

    def _note(self, arg: Any) -> None:
        if isinstance(arg, list | tuple):
            for item in arg:
                self._note(item)
        elif isinstance(arg, Tensor) and not isinstance(arg, FakeTensor) and (key := _memory(arg)) is not None:
            self._tensors.setdefault(key, arg)

    def forget(self, constants: Iterable[Tensor]) -> None:
        """Drops all recorded tensors but those of these constants."""
        keys = set(map(_memory, constants))
        self._tensors = {key: tensor for key, tensor in self._tensors.items() if key in keys}

    def tensor(self, constant: Tensor) -> Tensor:
        """Returns the tensor that the model used where the graph holds `constant`, a copy that does not require gradients."""
        return self._tensors.get(_memory(constant), constant)


def _state(module: nn.Module) -> int:
    """Returns the state that a module shares with the proxy that torch.export makes of a module with several names."""
    return id(module.__dict__)


def _is_graph_alone(module: nn.Module) -> bool:
    """Returns whether a module is a graph that holds no tensors."""
    held = (*module._parameters.values(), *module._buffers.values(), *vars(module).values())
    return isinstance(module, fx.GraphModule) and not any(isinstance(value, Tensor) for value in held)


def _memory(tensor: Tensor) -> Hashable:
    """Returns a key that is equal for two tensors over the same elements; None for a tensor without memory."""
    if torch._is_functional_tensor(tensor) or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return None
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        return None
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.device
