"""Replaces ops by launches of users' kernels that serve the call.

It happens where ops are decomposed: the kernels take precedence in the table of decompositions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

from lamina.core.custom_kernel import TABLE, CustomKernel
from lamina.core.layout import Layout
from lamina.core.options import Options
from lamina.core.target import Target

from ..decompositions.table import Table, table
from ..fx.destination import Destination
from ..fx.ops.kernel_op import KERNEL
from .launch import accepts, launch_arguments
from .patterns import with_patterns


def with_registered(options: Options) -> Options:
    """Returns options with the kernels registered for the process after their own."""
    own = options.kernels
    return replace(options, kernels=(*own, *(k for k in TABLE.kernels() if all(k is not o for o in own))))


def with_kernels(table: Table, kernels: Sequence[CustomKernel], target: str | Target | None) -> Table:
    """Returns a table of decompositions in which users' kernels take precedence."""
    destination = None if target is None else Target.parse(target)
    by_op: dict[Any, list[CustomKernel]] = {}
    for kernel in kernels:
        if kernel.op is not None:
            by_op.setdefault(kernel.op, []).append(kernel)
    return (
        {**table, **{op: _Substitution(op, tuple(those), table.get(op), destination) for op, those in by_op.items()}}
        if by_op
        else table
    )


@dataclass(frozen=True)
class _Substitution:
    """Decomposes a call of the op into a launch of the first kernel that serves it, else as without users' kernels."""

    op: torch._ops.OpOverload
    kernels: tuple[CustomKernel, ...]
    otherwise: Callable[..., Any] | None
    target: Target | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_for_gpu((args, kwargs)):
            named, original = _bound(self.op, args, kwargs)
            for kernel in self.kernels:
                with disable_proxy_modes_tracing():
                    fits = accepts(kernel, named)
                if fits:
                    return _launch(kernel, *_spread(named, original))
        return NotImplemented if self.otherwise is None else self.otherwise(*args, **kwargs)

    def _is_for_gpu(self, arguments: Any) -> bool:
        if self.target is not None:
            return self.target.is_gpu
        return any(isinstance(leaf, Tensor) and leaf.device.type == "cuda" for leaf in pytree.tree_leaves(arguments))


Given = tuple[tuple[Any, ...], dict[str, Any]]


def _bound(op: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], Given]:
    """Returns the op's arguments by name, with defaults filled in, and as given."""
    named: dict[str, Any] = {}
    positional = iter(args)
    for argument in op._schema.arguments:
        default = argument.default_value if argument.has_default_value() else None
        named[argument.name] = kwargs.get(argument.name, default) if argument.kwarg_only else next(positional, None)
        if not argument.kwarg_only and len(named) > len(args):
            named[argument.name] = kwargs.get(argument.name, default)
    return named, (tuple(args), dict(kwargs))


def _spread(named: dict[str, Any], original: Given) -> tuple[dict[str, Any], Given]:
    """Copies tensors whose elements share memory (expanded ones): memory of their own could not have their strides."""
    copies: dict[int, Tensor] = {}

    def copied(value: Any) -> Any:
        """Returns a copy of a tensor whose elements overlap; other values as they are."""
        if not isinstance(value, Tensor) or Layout.of(value.shape, value.stride()).is_injective:
            return value
        return copies.setdefault(id(value), value.contiguous())

    return pytree.tree_map(copied, named), pytree.tree_map(copied, original)


def _launch(kernel: CustomKernel, named: dict[str, Any], original: Given) -> Any:
    """Adds a launch to the graph being traced and returns its results."""
    with disable_proxy_modes_tracing():
        example = kernel.op(*original[0], **original[1])
        results = [example] if isinstance(example, Tensor) else list(example)
        inputs, kwargs = launch_arguments(kernel, named, results, isinstance(example, list))
    results_of_launch = KERNEL(inputs, **kwargs)
    return results_of_launch[0] if isinstance(example, Tensor) else type(example)(results_of_launch)


def with_users_patterns(gm: fx.GraphModule, options: Options, destination: Destination) -> fx.GraphModule:
    """Returns the graph with users' kernels in place of patterns that they implement."""
    if destination.device == "cpu":
        return gm
    return with_patterns(gm, options.kernels, with_kernels(table(), options.kernels, destination.target), destination.target)
