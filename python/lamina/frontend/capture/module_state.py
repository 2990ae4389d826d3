"""Describes the Python state that a compiled model depends on.

It is the modes, hooks, children, parameters and buffers of its modules, the grad mode and autocast. `ModuleState.key` computes it,
slowly; a native Watch finds out in a few microseconds that nothing has changed.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules import module as modules

from lamina import _native

from .as_module import FunctionModule, original

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOKS = (
    modules._global_forward_hooks,
    modules._global_forward_pre_hooks,
    modules._global_backward_hooks,
    modules._global_backward_pre_hooks,
)

Place = tuple[dict[str, Any], str]
"""Where a module holds a tensor: one of its dictionaries, and the name there."""


class ModuleState:
    """The state of a module.

    root    the module, with its submodules
    others  modules that its forward calls and that are not submodules
    places  where modules hold tensors that are neither parameters nor buffers, and that forward reads
    """

    def __init__(self, root: nn.Module, others: Sequence[nn.Module] = (), places: Sequence[Place] = ()) -> None:
        self.root, self.others, self.places = root, tuple(others), tuple(places)

    def extended(self, others: Iterable[nn.Module], places: Iterable[Place]) -> "ModuleState":
        """Returns the state extended by the modules and places that a trace has found it depends on."""
        known = {(id(held), name) for held, name in self.places}
        registered = {id(held) for m in self.modules() for held in (m._parameters, m._buffers)}
        fresh = [p for p in places if id(p[0]) not in registered and (id(p[0]), p[1]) not in known]
        return ModuleState(self.root, tuple(dict.fromkeys((*self.others, *others))), (*self.places, *fresh))

    def is_training(self) -> bool:
        """Returns whether any of its modules is in training mode."""
        return any(m.training for m in self.modules() if not isinstance(m, FunctionModule))

    def modules(self) -> list[nn.Module]:
        """Returns all modules, each once."""
        found = {original(m): None for top in (self.root, *self.others) for m in top.modules()}
        return list(found)

    def key(self) -> Hashable:
        """Returns a key of what traced graphs depend on.

        It covers modes, hooks, which modules there are, which parameters and buffers are one tensor, and their shapes, strides,
        dtypes and devices.
        """
        seen: dict[int, int] = {}
        attributes = tuple(layout(held[name]) if isinstance(held.get(name), Tensor) else None for held, name in self.places)
        return (*(_describe(m, seen) for m in self.modules()), attributes)

    def watch(self, pattern: Sequence[int], devices: Sequence[str]) -> _native.Watch:
        """Returns a Watch that checks whether everything is as it is now, in this thread's grad mode and autocast state.

        pattern  for each tensor of a call, the number of the first one that is the same object
        devices  device types whose autocast state counts
        """
        items: list[Any] = [(vars(forward_ad), "_current_level", -1)]
        sizes: list[Any] = [(hooks, len(hooks)) for hooks in _GLOBAL_HOOKS]
        for m in self.modules():
            if "training" in m.__dict__:
                items.append((m.__dict__, "training", m.training))
            for attributes in (m._parameters, m._buffers, m._modules):
                items += [(attributes, name, value) for name, value in attributes.items()]
                sizes.append((attributes, len(attributes)))
            for hooks in map(m.__dict__.get, _HOOKS):
                if hooks is not None:
                    items += [(hooks, number, hook) for number, hook in hooks.items()]
                    sizes.append((hooks, len(hooks)))
        items += [(attributes, name, attributes.get(name)) for attributes, name in self.places]
        results: list[Any] = [(torch.is_grad_enabled, (), torch.is_grad_enabled()), *_NOT_TRACED]
        for device in devices:
            results.append((torch.is_autocast_enabled, (device,), torch.is_autocast_enabled(device)))
            if torch.is_autocast_enabled(device):
                results.append((torch.get_autocast_dtype, (device,), torch.get_autocast_dtype(device)))
        return _native.Watch(items, sizes, results, tuple(pattern), (Tensor, nn.Parameter))


def has_global_hooks() -> bool:
    """Returns whether torch calls hooks for every module, and so for those that wrap a model while it is traced."""
    return any(_GLOBAL_HOOKS)


_NOT_TRACED = [(torch._C._len_torch_dispatch_stack, (), 0), (torch._C._functorch.peek_interpreter_stack, (), None)]


def is_traced() -> bool:
    """Returns whether this thread's calls are observed or transformed.

    That is so under a TorchDispatchMode (make_fx, FakeTensorMode, torch.export), a transform of torch.func, or forward-mode
    differentiation.
    """
    plain = all(function(*args) == value for function, args, value in _NOT_TRACED)
    return not plain or forward_ad._current_level >= 0


def autocast_state(devices: Sequence[str]) -> tuple[tuple[str, torch.dtype], ...]:
    """Returns the device types for which autocast is on, each with its dtype."""
    return tuple((d, torch.get_autocast_dtype(d)) for d in devices if torch.is_autocast_enabled(d))


def _describe(module: nn.Module, seen: dict[int, int]) -> Hashable:
    hooks = tuple(tuple(found) for name in _HOOKS if (found := module.__dict__.get(name)) is not None)
    tensors = tuple(_tensors(module, seen))
    children = tuple((name, id(child)) for name, child in module._modules.items())
    return module.training, hooks, children, tensors


def _tensors(module: nn.Module, seen: dict[int, int]) -> Iterator[Hashable]:
    for held in (module._parameters, module._buffers):
        for name, value in held.items():
            yield name, None if value is None else (seen.setdefault(id(value), len(seen)), layout(value))


def layout(tensor: Tensor) -> Hashable:
    """Returns the properties of a tensor that a program fixes."""
    return (
        type(tensor),
        tuple(tensor.shape),
        tensor.stride() if tensor.layout is torch.strided else None,
        tensor.dtype,
        tensor.device,
    )
