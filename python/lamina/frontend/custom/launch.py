"""Builds the launch of a user's kernel for one call from its rules, checked against what the kernel computes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch.utils._pytree as pytree
from torch import Tensor

from lamina.core.custom_kernel import CustomKernel
from lamina.core.errors import CompileError
from lamina.core.layout import Layout

from ..fx.ops.kernel_op import described
from . import cuda
from .rules import call_rule, location_of, result_names
from .texts import call, parameters

_MOST = (2**31 - 1, 2**16 - 1, 2**16 - 1)  # blocks along x, y and z


def accepts(kernel: CustomKernel, named: Mapping[str, Any]) -> bool:
    """Returns whether the kernel is for these arguments."""
    if kernel.when is None:
        return True
    first = _settled(next(iter(kernel.variants().values())), named)
    return bool(call_rule(kernel, "when", kernel.when, {**named, **first.settings}))


def launch_arguments(
    kernel: CustomKernel, named: Mapping[str, Any], examples: Sequence[Tensor], listed: bool
) -> tuple[list[Tensor], dict[str, Any]]:
    """Returns the tensors that the kernel takes, and the other arguments of `lamina.kernel`.

    named     the arguments of the op or pattern that it computes
    examples  tensors like the results
    listed    whether rules get the results as one list
    """
    variants = {text: _settled(variant, named) for text, variant in kernel.variants().items()}
    first = next(iter(variants.values()))
    outputs = _outputs(first, named, examples)
    by_name = dict(zip(result_names(len(outputs), listed), [outputs] if listed else outputs, strict=True))
    everything = {**named, **by_name}
    inputs = _inputs(first, named, _values(first, everything))
    launches = {text: _said(variant, everything, inputs, outputs) for text, variant in variants.items()}
    return inputs, {
        "name": kernel.name,
        "of": kernel.what,
        "key": kernel.kernel.cache_key,
        **next(iter(launches.values())),
        "hook": " ".join(kernel.epilogue),
        "outputs": described(outputs),
        "alternatives": json.dumps(launches) if kernel.configs else "",
    }


def _settled(kernel: CustomKernel, named: Mapping[str, Any]) -> CustomKernel:
    """Returns the kernel with the constants and threads that its rules give for these arguments."""
    if not kernel.is_cuda:
        return kernel
    constants = {k: call_rule(kernel, f"constants[{k!r}]", v, named) if callable(v) else v for k, v in kernel.constants.items()}
    threads = call_rule(kernel, "threads", kernel.threads, {**named, **constants}) if callable(kernel.threads) else kernel.threads
    found = replace(kernel, constants=constants, threads=threads)
    cuda.block(found)
    return found


def _values(kernel: CustomKernel, everything: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of parameters by name."""
    given = call_rule(kernel, "arguments", kernel.arguments, {**everything, **kernel.settings})
    if kernel.is_cuda:
        return cuda.parameters(kernel, given)
    return parameters(kernel, given)


def _said(
    kernel: CustomKernel, everything: Mapping[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> dict[str, Any]:
    """Returns the data that a launch of one variant depends on."""
    values, known = _values(kernel, everything), {**everything, **kernel.settings}
    text = cuda.call(kernel, values, inputs, outputs) if kernel.is_cuda else call(kernel, values, inputs, outputs)
    launch = {"call": text, "grid": _grid(kernel, call_rule(kernel, "grid", kernel.grid, known))}
    if not kernel.is_cuda:
        return {**launch, "warps": kernel.num_warps, "stages": kernel.num_stages, "threads": [], "shared": 0}
    shared = call_rule(kernel, "shared", kernel.shared, known) if callable(kernel.shared) else kernel.shared
    return {**launch, "warps": 0, "stages": 0, "threads": cuda.block(kernel), "shared": cuda.shared(kernel, shared)}


def _inputs(kernel: CustomKernel, named: Mapping[str, Any], values: Mapping[str, Any]) -> list[Tensor]:
    """Returns the op's tensors that the kernel takes, each once."""
    own = [leaf for leaf in pytree.tree_leaves(dict(named)) if isinstance(leaf, Tensor)]
    inputs: list[Tensor] = []
    for name, value in values.items():
        if not isinstance(value, Tensor) or all(value is not t for t in own) or any(value is t for t in inputs):
            continue
        if inputs and value.device != inputs[0].device:
            raise CompileError(
                f"kernel {kernel.name}: parameter {name!r} gets a tensor on {value.device}, others are on {inputs[0].device}"
            )
        inputs.append(value)
    if not inputs:
        raise CompileError(
            f"kernel {kernel.name} takes none of the tensors that {kernel.what} is given", where=location_of(kernel.arguments)
        )
    return inputs


def _outputs(kernel: CustomKernel, named: Mapping[str, Any], examples: Sequence[Tensor]) -> list[Tensor]:
    """Returns tensors like those that the kernel writes, which must match what the op promises."""
    if kernel.outputs is None:
        return list(examples)
    given = call_rule(kernel, "outputs", kernel.outputs, {**named, **kernel.settings})
    outputs = [given] if isinstance(given, Tensor) else given
    where = location_of(kernel.outputs)
    if not isinstance(outputs, list | tuple) or not all(isinstance(t, Tensor) for t in outputs):
        raise CompileError(f"kernel {kernel.name}: outputs must give tensors, {outputs!r} given", where=where)
    if len(outputs) != len(examples):
        raise CompileError(
            f"kernel {kernel.name}: outputs gives {len(outputs)} tensors, {kernel.what} {len(examples)}", where=where
        )
    for i, (output, example) in enumerate(zip(outputs, examples, strict=True)):
        for what, a, b in (
            ("shape", tuple(output.shape), tuple(example.shape)),
            ("dtype", output.dtype, example.dtype),
            ("strides", Layout.of(output.shape, output.stride()), Layout.of(example.shape, example.stride())),
        ):
            if a != b:
                mine_is, its = (t.stride() if what == "strides" else v for t, v in ((output, a), (example, b)))
                raise CompileError(
                    f"kernel {kernel.name}: output {i} has {what} {mine_is}, but {kernel.what} gives {its}", where=where
                )
    return list(outputs)


def _grid(kernel: CustomKernel, grid: Any) -> list[int]:
    sizes = [grid] if isinstance(grid, int) else grid
    numbers = isinstance(sizes, tuple | list) and all(type(n) is int for n in sizes) and 1 <= len(sizes) <= 3
    if not numbers or not all(0 <= n <= most for n, most in zip(sizes, _MOST, strict=False)):
        raise CompileError(
            f"kernel {kernel.name}: grid gives {grid!r}, not one to three numbers of blocks",
            where=location_of(kernel.grid),
            remedy=f"at most {_MOST[0]} along x and {_MOST[1]} along y and z",
        )
    return [*sizes, 1, 1][:3]
