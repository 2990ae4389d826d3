"""Describes and checks the arguments of a compiled model: their structure, what each must be, and errors that name them."""

import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn

from ..capture.example_inputs import register
from ..capture.open_sizes import OpenDims, OpenSizes


@dataclass(frozen=True)
class _Expected:
    """A tensor that the caller of an entry point has to pass."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool

    def tensor(self) -> Tensor:
        """Returns an example, uninitialized."""
        how = {"dtype": self.dtype, "device": self.device, "requires_grad": self.requires_grad}
        if self.strides is None:
            return torch.empty(self.shape, **how)
        return torch.empty_strided(self.shape, self.strides, **how)


def example_arguments(described: Any) -> Any:
    """Returns the arguments that `Arguments.described` describes, with uninitialized tensors."""
    register(described)  # dataclasses among the arguments
    return pytree.tree_map_only(_Expected, _Expected.tensor, described, is_leaf=lambda v: isinstance(v, _Expected))


class Arguments:
    """The form of the example inputs.

    tensors       the numbers of the flattened inputs that are tensors
    flat          calls give just these tensors by position, so there is no structure to flatten
    device_types  those of the tensors, and "cpu"
    open          the sizes that calls may vary
    """

    def __init__(
        self, signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
    ) -> None:
        """dynamic_shapes: as in torch.export, or OpenSizes. Raises CompileError if they do not fit the inputs."""
        self.signature = signature
        unnamed = {f"args[{i}]": value for i, value in enumerate(args)}
        parameters = signature.bind(*args, **kwargs).arguments if signature else {**unnamed, **kwargs}
        inputs = (*args, *kwargs.values())
        args, kwargs = self.bind(args, kwargs)
        register((args, dict(kwargs)))
        paths, self.spec = pytree.tree_flatten_with_path((args, dict(kwargs)))
        self.keys = list(kwargs)
        self.names = [self._name(path) for path, _ in paths]
        leaves = [leaf for _, leaf in paths]
        self.tensors = tuple(i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor))
        self.constants = {i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, Tensor)}
        self.expected = {
            i: _Expected(
                self.names[i],
                tuple(leaves[i].shape),
                leaves[i].stride() if leaves[i].layout is torch.strided else None,
                leaves[i].dtype,
                leaves[i].device,
                leaves[i].requires_grad,
            )
            for i in self.tensors
        }
        by_tensor: dict[int, list[str]] = {}
        for i in self.tensors:
            by_tensor.setdefault(id(leaves[i]), []).append(self.names[i])
        self.open = OpenSizes.declared(dynamic_shapes, parameters, by_tensor)
        self.flat = len(inputs) == len(args) == len(self.tensors) and not kwargs and all(isinstance(a, Tensor) for a in inputs)
        self.device_types = tuple({"cpu": None} | {e.device.type: None for e in self.expected.values()})
        for i in self.tensors:
            _check_plain(self.names[i], leaves[i])
        devices = {str(e.device): e.name for e in self.expected.values()}
        if "meta" in devices:
            raise ValueError(
                f"the example input {devices['meta']!r} is on meta: it holds no data and names no device to compile for"
            )
        if len(devices) > 1:
            places = ", ".join(f"{name!r} is on {device}" for device, name in devices.items())
            raise ValueError(f"the example inputs are on different devices: {places}")

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments in one form: positional where the model's signature allows it, with plain defaults filled in.

        Raises TypeError as a wrong call does.
        """
        if self.signature is None:
            return args, dict(kwargs)
        bound = self.signature.bind(*args, **kwargs)
        if len(bound.arguments) < len(self.signature.parameters):
            self._fill(bound.arguments)
        return bound.args, bound.kwargs

    def _fill(self, arguments: dict[str, Any]) -> None:
        """Adds omitted parameters whose defaults are numbers, text or None."""
        assert self.signature is not None
        for name, parameter in self.signature.parameters.items():
            default = parameter.default
            if name not in arguments and (default is None or type(default) in (bool, int, float, str)):
                arguments[name] = default

    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Returns the leaves of bound arguments.

        Raises TypeError or ValueError if the structure or a number differs from the example's.
        """
        leaves = self.leaves(args, kwargs)
        if leaves is None:
            raise self._wrong_structure(args, kwargs)
        for i, value in self.constants.items():
            leaf = leaves[i]
            if not _is_same(value, leaf):
                kind = TypeError if isinstance(leaf, Tensor) or type(leaf) is not type(value) else ValueError
                raise kind(
                    f"argument {self.names[i]!r} was {value!r} when compiled; {_show(leaf)} given (compile again for other values)"
                )
        return leaves

    def leaves(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any] | None:
        """Returns the leaves of bound arguments; None if their structure differs."""
        if set(kwargs) == set(self.keys):
            kwargs = {k: kwargs[k] for k in self.keys}
        leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
        return leaves if spec == self.spec else None

    def tensors_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Returns the tensors of a call that is like the example in structure and numbers; None for any other."""
        leaves = self.leaves(*self.bind(args, kwargs))
        if leaves is None or not all(_is_same(value, leaves[i]) for i, value in self.constants.items()):
            return None
        return tuple([leaves[i] for i in self.tensors])

    def like(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> "Arguments | None":
        """Returns a form for bound arguments that differ from the example's in the order of dictionaries alone; else None."""
        other = Arguments(self.signature, args, kwargs, self.open)
        if sorted(other.names) != sorted(self.names) or _unordered(other.spec) != _unordered(self.spec):
            return None
        constants = {self.names[i]: value for i, value in self.constants.items()}
        same = {other.names[i] for i in other.constants} == set(constants)
        return other if same and all(_is_same(constants[other.names[i]], v) for i, v in other.constants.items()) else None

    @property
    def order(self) -> Hashable:
        """The argument that each leaf is, as a key: dictionaries may come in another order."""
        return tuple(self.names)

    def described(self) -> Any:
        """Returns the example's (positional, keyword) arguments with a description in place of each tensor."""
        return self.unflatten([self.expected.get(i, self.constants.get(i)) for i in range(self.spec.num_leaves)])

    def unflatten(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the (positional, keyword) arguments with these leaves."""
        args, kwargs = pytree.tree_unflatten(list(leaves), self.spec)
        return args, kwargs

    def check(self, leaves: Sequence[Any]) -> None:
        """Raises TypeError or ValueError that names the first argument that is unlike the example's."""
        for i, want in self.expected.items():
            leaf = leaves[i]
            if not isinstance(leaf, Tensor):
                raise TypeError(f"argument {want.name!r} must be a torch.Tensor; {_show(leaf)} given")
            if leaf.dtype != want.dtype:
                raise TypeError(f"argument {want.name!r} must have dtype {want.dtype}; it has {leaf.dtype}")
            opened = self.open.dims.get(want.name, ())
            alike = leaf.dim() == len(want.shape) and all(
                n == m or d in opened for d, (n, m) in enumerate(zip(leaf.shape, want.shape, strict=True))
            )
            if not alike:
                wanted = self.open.shape_text(want.name, want.shape)
                raise ValueError(f"argument {want.name!r} must have shape {wanted}; it has {list(leaf.shape)}")
            if leaf.device != want.device:
                raise ValueError(f"argument {want.name!r} must be on {want.device}; it is on {leaf.device}")
            if leaf.layout is not torch.strided:
                raise TypeError(f"argument {want.name!r} must be a dense tensor; its layout is {leaf.layout}")
            _check_plain(want.name, leaf)
        self.open.check(self.by_name(leaves))

    def by_name(self, leaves: Sequence[Any]) -> dict[str, Tensor]:
        """Returns the tensors of a call by the names of the arguments."""
        return {self.names[i]: leaves[i] for i in self.tensors}

    def checked(self, leaves: Sequence[Any]) -> dict[int, OpenDims]:
        """Returns the dimensions that are symbols for the example inputs. Raises ValueError for a size that is not in its range."""
        self.open.check(self.by_name(leaves))
        return self.symbolic(leaves)

    def symbolic(self, leaves: Sequence[Any]) -> dict[int, OpenDims]:
        """Returns the dimensions that are symbols for a call, by number."""
        found = self.open.symbolic(self.by_name(leaves))
        return {i: found[self.names[i]] for i in self.tensors if self.names[i] in found}

    def _name(self, path: Sequence[Any]) -> str:
        """Returns x, x[0], x['mask'] or x.mask, with the name that the model's own signature uses."""
        _, second, *rest = path  # the first key says whether positional or by name, the second which argument
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


def _check_plain(name: str, tensor: Tensor) -> None:
    """Raises TypeError for a tensor of a subclass that changes what its operations do."""
    kind = type(tensor)
    plain = kind in (Tensor, nn.Parameter) or kind.__torch_function__ in _UNCHANGED
    if not plain or kind.__torch_dispatch__ is not Tensor.__torch_dispatch__:
        raise TypeError(
            f"argument {name!r} is a {kind.__name__}, a subclass of torch.Tensor: pass a plain tensor, or use "
            'torch.compile(model, backend="lamina"), which takes subclasses apart'
        )


_UNCHANGED = (Tensor.__torch_function__, torch._C._disabled_torch_function_impl)


def _is_same(value: Any, argument: Any) -> bool:
    """Returns whether a non-tensor argument is what it was: nan is nan, 0.0 is not -0.0, 1 is not True."""
    if argument is value:
        return True
    if type(argument) is not type(value):
        return False
    return argument.hex() == value.hex() if isinstance(value, float) else bool(argument == value)


def _unordered(spec: pytree.TreeSpec) -> Hashable:
    """Returns a structure as a key that ignores the order of its dictionaries."""
    children = [_unordered(child) for child in spec.children()]
    if spec.type is dict:
        return dict, frozenset(zip(spec.context, children, strict=True))
    return spec.type, repr(spec.context), tuple(children)


def _show(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"
