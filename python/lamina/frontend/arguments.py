"""The arguments of a compiled model: their structure, what each must be, and errors that name them."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor


@dataclass(frozen=True)
class _Expected:
    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


class Arguments:
    """What the example inputs were.

    tensors  which leaves of the flattened inputs are tensors
    flat     they are plain positional tensors: no structure to take apart
    """

    def __init__(self, signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        from .trace import register

        self.signature = signature
        args, kwargs = self.bind(args, kwargs)
        register((args, dict(kwargs)))
        paths, self.spec = pytree.tree_flatten_with_path((args, dict(kwargs)))
        self.keys = list(kwargs)
        self.names = [self._name(path) for path, _ in paths]
        leaves = [leaf for _, leaf in paths]
        self.tensors = tuple(i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor))
        self.constants = {i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, Tensor)}
        self.expected = {
            i: _Expected(self.names[i], tuple(leaves[i].shape), leaves[i].dtype, leaves[i].device) for i in self.tensors
        }
        self.flat = not kwargs and not self.constants and all(isinstance(a, Tensor) for a in args)
        devices = {str(e.device): e.name for e in self.expected.values()}
        if "meta" in devices:
            raise ValueError(
                f"the example input {devices['meta']!r} is on meta: it holds no data and names no device to compile for"
            )
        if len(devices) > 1:
            found = ", ".join(f"{name!r} is on {device}" for device, name in devices.items())
            raise ValueError(f"the example inputs are on different devices: {found}")

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same arguments in one form, positional where the model's signature allows it. TypeError as for a wrong call."""
        if self.signature is None:
            return args, dict(kwargs)
        bound = self.signature.bind(*args, **kwargs)
        return bound.args, bound.kwargs

    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The leaves. TypeError or ValueError where the structure or a number differs from the example's."""
        if set(kwargs) == set(self.keys):
            kwargs = {k: kwargs[k] for k in self.keys}
        leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
        if spec != self.spec:
            raise self._wrong_structure(args, kwargs)
        for i, value in self.constants.items():
            given = leaves[i]
            if type(given) is not type(value) or (given is not value and given != value):
                kind = TypeError if isinstance(given, Tensor) or type(given) is not type(value) else ValueError
                raise kind(
                    f"argument {self.names[i]!r} was {value!r} when compiled; {_show(given)} given (compile again for other values)"
                )
        return leaves

    def unflatten(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = pytree.tree_unflatten(list(leaves), self.spec)
        return args, kwargs

    def check(self, leaves: Sequence[Any]) -> None:
        """TypeError or ValueError that names the first argument that is not like the example's."""
        for i, want in self.expected.items():
            given = leaves[i]
            if not isinstance(given, Tensor):
                raise TypeError(f"argument {want.name!r} must be a torch.Tensor; {_show(given)} given")
            if given.dtype != want.dtype:
                raise TypeError(f"argument {want.name!r} must have dtype {want.dtype}; it has {given.dtype}")
            if tuple(given.shape) != want.shape:
                raise ValueError(f"argument {want.name!r} must have shape {list(want.shape)}; it has {list(given.shape)}")
            if given.device != want.device:
                raise ValueError(f"argument {want.name!r} must be on {want.device}; it is on {given.device}")
            if given.layout is not torch.strided:
                raise TypeError(f"argument {want.name!r} must be a dense tensor; its layout is {given.layout}")

    def _name(self, path: Sequence[Any]) -> str:
        """x, x[0], x['mask'], x.mask: as the model's own signature calls it."""
        _, second, *rest = path  # first whether positional or by name, then which
        name = self._positional(second.idx) if isinstance(second, pytree.SequenceKey) else str(second.key)
        return name + "".join(str(key) for key in rest)

    def _positional(self, index: int) -> str:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [p.name for p in self.signature.parameters.values() if p.kind in kinds] if self.signature else []
        return names[index] if index < len(names) else f"args[{index}]"

    def _wrong_structure(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Exception:
        expected_args, expected_kwargs = pytree.tree_unflatten(list(range(self.spec.num_leaves)), self.spec)
        if len(args) != len(expected_args) or set(kwargs) != set(expected_kwargs):
            want = [*map(self._positional, range(len(expected_args))), *expected_kwargs]
            given = [*map(self._positional, range(len(args))), *kwargs]
            return TypeError(f"compiled for {len(want)} arguments ({', '.join(want)}); {len(given)} given ({', '.join(given)})")
        for i, (want, given) in enumerate(zip((*expected_args, *expected_kwargs.values()), (*args, *kwargs.values()), strict=True)):
            wanted, found = pytree.tree_structure(want), pytree.tree_structure(given)
            if wanted != found:
                name = self._positional(i) if i < len(args) else list(kwargs)[i - len(args)]
                return TypeError(f"argument {name!r} must have the structure {wanted}; it has {found}")
        return TypeError(f"the arguments must have the structure {self.spec}")


def _show(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"
