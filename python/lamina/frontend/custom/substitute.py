"""Where a graph calls an op that users have kernels for, it launches one of them instead, if one serves.

That is decided where ops are decomposed: the kernels stand in the table of decompositions in front of what is there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

from lamina.core.custom_kernel import TABLE, CustomKernel
from lamina.core.errors import CompileError
from lamina.core.layout import Layout
from lamina.core.options import Options

from ..decompositions import Table
from .declare import results_by_name
from .op import KERNEL, described
from .rules import follow, place
from .texts import call, parameters

_MOST = (2**31 - 1, 2**16 - 1, 2**16 - 1)  # blocks along x, y and z


def with_registered(options: Options) -> Options:
    """Options with the kernels of the process behind their own."""
    own = options.kernels
    return replace(options, kernels=(*own, *(k for k in TABLE.kernels() if all(k is not o for o in own))))


def with_kernels(table: Table, kernels: Sequence[CustomKernel], target: str | None) -> Table:
    """A table of decompositions with users' kernels in front."""
    by_op: dict[Any, list[CustomKernel]] = {}
    for kernel in kernels:
        by_op.setdefault(kernel.op, []).append(kernel)
    return {**table, **{op: _Choice(op, tuple(those), table.get(op), target) for op, those in by_op.items()}} if by_op else table


@dataclass(frozen=True)
class _Choice:
    """What a call of the op becomes: a launch of the first kernel that serves, else what it was without them."""

    op: torch._ops.OpOverload
    kernels: tuple[CustomKernel, ...]
    otherwise: Callable[..., Any] | None
    target: str | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_for_gpu((args, kwargs)):
            named, given = _bound(self.op, args, kwargs)
            for kernel in self.kernels:
                with disable_proxy_modes_tracing():
                    serves = kernel.when is None or follow(kernel, "when", kernel.when, {**named, **kernel.constants})
                if serves:
                    return _launch(kernel, *_spread(named, given))
        return NotImplemented if self.otherwise is None else self.otherwise(*args, **kwargs)

    def _is_for_gpu(self, given: Any) -> bool:
        if self.target is not None:
            return self.target.startswith("nvvm")
        return any(isinstance(leaf, Tensor) and leaf.device.type == "cuda" for leaf in pytree.tree_leaves(given))


Given = tuple[tuple[Any, ...], dict[str, Any]]


def _bound(op: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], Given]:
    """The op's arguments by name, defaults too."""
    found: dict[str, Any] = {}
    positional = iter(args)
    for argument in op._schema.arguments:
        default = argument.default_value if argument.has_default_value() else None
        found[argument.name] = kwargs.get(argument.name, default) if argument.kwarg_only else next(positional, None)
        if not argument.kwarg_only and len(found) > len(args):
            found[argument.name] = kwargs.get(argument.name, default)
    return found, (tuple(args), dict(kwargs))


def _spread(named: dict[str, Any], given: Given) -> tuple[dict[str, Any], Given]:
    """With tensors whose elements share memory (expanded ones) copied: no other memory could have their strides."""
    copies: dict[int, Tensor] = {}

    def apart(value: Any) -> Any:
        if not isinstance(value, Tensor) or Layout.of(value.shape, value.stride()).is_injective:
            return value
        return copies.setdefault(id(value), value.contiguous())

    return pytree.tree_map(apart, named), pytree.tree_map(apart, given)


def _launch(kernel: CustomKernel, named: dict[str, Any], given: Given) -> Any:
    """The results of a launch, which is put into the graph that is being traced."""
    with disable_proxy_modes_tracing():
        told = kernel.op(*given[0], **given[1])
        results = [told] if isinstance(told, Tensor) else list(told)
        outputs = _outputs(kernel, named, results)
        everything = {**named, **results_by_name(kernel.op, outputs), **kernel.constants}
        values = parameters(kernel, follow(kernel, "arguments", kernel.arguments, everything))
        inputs = _inputs(kernel, named, values)
        grid = _grid(kernel, follow(kernel, "grid", kernel.grid, everything))
        text = call(kernel, values, inputs, outputs)
    made = KERNEL(
        inputs,
        name=kernel.name,
        of=str(kernel.op),
        key=kernel.kernel.cache_key,
        call=text,
        grid=grid,
        warps=kernel.num_warps,
        stages=kernel.num_stages,
        outputs=described(outputs),
    )
    return made[0] if isinstance(told, Tensor) else type(told)(made)


def _inputs(kernel: CustomKernel, named: Mapping[str, Any], values: Mapping[str, Any]) -> list[Tensor]:
    """The op's tensors that the kernel takes, each once."""
    own = [leaf for leaf in pytree.tree_leaves(dict(named)) if isinstance(leaf, Tensor)]
    found: list[Tensor] = []
    for name, value in values.items():
        if not isinstance(value, Tensor) or all(value is not t for t in own) or any(value is t for t in found):
            continue
        if found and value.device != found[0].device:
            raise CompileError(
                f"kernel {kernel.name}: parameter {name!r} gets a tensor on {value.device}, others are on {found[0].device}"
            )
        found.append(value)
    if not found:
        raise CompileError(
            f"kernel {kernel.name} takes none of the tensors that {kernel.op} is given", where=place(kernel.arguments)
        )
    return found


def _outputs(kernel: CustomKernel, named: Mapping[str, Any], told: list[Tensor]) -> list[Tensor]:
    """Tensors like those that the kernel writes, which have to be what the op promises."""
    if kernel.outputs is None:
        return told
    given = follow(kernel, "outputs", kernel.outputs, {**named, **kernel.constants})
    made = [given] if isinstance(given, Tensor) else given
    where = place(kernel.outputs)
    if not isinstance(made, list | tuple) or not all(isinstance(t, Tensor) for t in made):
        raise CompileError(f"kernel {kernel.name}: outputs must give tensors, {made!r} given", where=where)
    if len(made) != len(told):
        raise CompileError(f"kernel {kernel.name}: outputs gives {len(made)} tensors, {kernel.op} {len(told)}", where=where)
    for i, (mine, theirs) in enumerate(zip(made, told, strict=True)):
        for what, a, b in (
            ("shape", tuple(mine.shape), tuple(theirs.shape)),
            ("dtype", mine.dtype, theirs.dtype),
            ("strides", Layout.of(mine.shape, mine.stride()), Layout.of(theirs.shape, theirs.stride())),
        ):
            if a != b:
                mine_is, its = (t.stride() if what == "strides" else v for t, v in ((mine, a), (theirs, b)))
                raise CompileError(
                    f"kernel {kernel.name}: output {i} has {what} {mine_is}, but {kernel.op} gives {its}", where=where
                )
    return list(made)


def _grid(kernel: CustomKernel, given: Any) -> list[int]:
    sizes = [given] if isinstance(given, int) else given
    numbers = isinstance(sizes, tuple | list) and all(type(n) is int for n in sizes) and 1 <= len(sizes) <= 3
    if not numbers or not all(0 <= n <= most for n, most in zip(sizes, _MOST, strict=False)):
        raise CompileError(
            f"kernel {kernel.name}: grid gives {given!r}, not one to three numbers of blocks",
            where=place(kernel.grid),
            remedy=f"at most {_MOST[0]} along x and {_MOST[1]} along y and z",
        )
    return [*sizes, 1, 1][:3]
