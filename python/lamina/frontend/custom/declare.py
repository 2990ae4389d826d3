"""Implements `lamina.custom_kernel` and `lamina.register_kernel`: checks a user's kernel before its op is called."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lamina.core.custom_kernel import TABLE, CustomKernel, Rule
from lamina.core.errors import CompileError, suggestion

from ..decompositions.expansion import is_composite
from ..decompositions.table import table
from . import cuda
from .patterns import by_dispatch, traced
from .rules import check_names, location_of, parameter_names, result_names

_TENSORS = ("Tensor", "List[Tensor]")


def custom_kernel(
    op: Any = None,
    *,
    kernel: Any = None,
    source: str | Path | None = None,
    arguments: Rule,
    grid: Rule,
    pattern: Rule | None = None,
    example_inputs: Sequence[Tensor] = (),
    outputs: Rule | None = None,
    when: Rule | None = None,
    constants: Mapping[str, Any] | None = None,
    num_warps: int = 4,
    num_stages: int = 3,
    threads: int | tuple[int, ...] | Rule | None = None,
    shared: int | Rule | None = None,
    flags: Sequence[str] = (),
    epilogue: tuple[str, str] | None = None,
    configs: Sequence[Mapping[str, Any]] = (),
    name: str = "",
) -> CustomKernel:
    """Declares a kernel of yours, in Triton or CUDA C++, for an op or a graph pattern, on NVIDIA GPUs: pass it as
    `options={"kernels": [k]}`, or use it `with k:`. See docs/custom-kernels.md.

    op          a functional op of torch or of yours (torch.library.custom_op): its name "mylib::scaled_add" or its overload
    pattern     instead of an op: a function of tensors in torch's ops, which is looked for in graphs
    example_inputs  tensors that the pattern is traced for; their sizes do not matter, nor does their floating dtype
    kernel      the @triton.jit function, or the name of a function of `source`
    source      CUDA C++: the text, or the pathlib.Path of a file
    arguments   gives what it is launched with, in the order of its parameters or as a dict: tensors, which it gets as pointers,
                and numbers, which are compiled in
    grid        gives the number of blocks along x, or along x, y and z
    outputs     gives tensors like those that the kernel writes; they have to be what the op's own shape rule says, which is the
                default
    when        says whether the kernel serves; where it does not, the op is compiled as without it
    constants   values of constexpr parameters that are the same at each launch; of macros in CUDA C++, where they may be rules
    num_warps, num_stages  for Triton
    threads, shared, flags  for CUDA C++: threads of a block (256), or along x, y and z; bytes of shared memory that the kernel
                asks for; options for NVRTC
    epilogue    parameters of a Triton kernel with one result: one gets a function that the kernel calls on what it is about to
                store, the other what that needs, so that pointwise ops that follow are computed there
    configs     what tuning chooses from (docs/tuning.md): constants, and num_warps and num_stages, or threads and shared, by
                name, the likeliest first
    name        what it is called in explain and in profiles, by default the function's name

    Rules are functions that take by name what they need of the op's (or the pattern's) arguments and the constants; `arguments` and
    `grid` also of its results, `out`, or `out0`, `out1`, ... where there are several. Tensors have shape, stride() and dtype, but
    no values.
    """
    declared = CustomKernel(
        name=name, op=op, pattern=pattern, kernel=kernel, source=source, arguments=arguments, grid=grid, outputs=outputs, when=when,
        example_inputs=tuple(example_inputs), constants=dict(constants or {}), num_warps=num_warps, num_stages=num_stages,
        threads=threads, shared=shared, flags=flags, epilogue=epilogue or (), configs=tuple(map(dict, configs)),
    )  # fmt: skip
    return _checked(declared)


def register_kernel(op: Any = None, **declared: Any) -> CustomKernel:
    """Declares a kernel as custom_kernel does, for the whole process: `torch.compile(model, backend="lamina")` and all else that
    compiles from now on looks at it, until `remove()` of what is returned. Of several kernels that serve the one registered last is
    taken."""
    made = custom_kernel(op, **declared)
    TABLE.add(made)
    return made


def _checked(declared: CustomKernel) -> CustomKernel:
    """Returns a declared kernel, checked, with its op and function looked up. Raises CompileError."""
    if (declared.op is None) == (declared.pattern is None):
        raise CompileError("a kernel is for an op or for a pattern", remedy="give one of them")
    overload = None if declared.op is None else _overload(declared.op)
    if overload is not None:
        _check_op(overload)
    kernel = replace(_with_function(declared), op=overload)
    for variant in (kernel, *kernel.variants().values()):
        _check_numbers(variant)
    _check_configs(kernel)
    settings = next(iter(kernel.variants().values())).settings
    named, results = _names_of_op(overload) if overload is not None else _names_of_pattern(kernel)
    if kernel.epilogue:
        _check_epilogue(kernel, results)
    for what, rule in (("when", kernel.when), ("outputs", kernel.outputs)):
        if rule is not None:
            check_names(kernel.name, what, _callable(kernel.name, what, rule), [*named, *settings])
    for what, rule in (("arguments", kernel.arguments), ("grid", kernel.grid)):
        check_names(kernel.name, what, _callable(kernel.name, what, rule), [*named, *results, *settings])
    for what, rule, known in cuda.rules(kernel, named, results) if kernel.is_cuda else ():
        check_names(kernel.name, what, rule, known)
    return kernel


def _with_function(declared: CustomKernel) -> CustomKernel:
    """Returns the kernel with the function to compile and its name."""
    if declared.source is None:
        _check_kernel(declared.kernel)
        for what, value in (("threads", declared.threads), ("shared", declared.shared), ("flags", declared.flags or None)):
            if value is not None:
                raise CompileError(f"{what} is for kernels in CUDA C++, which have a source", remedy="num_warps is for Triton")
        return replace(declared, name=declared.name or declared.kernel.fn.__name__)
    source = cuda.source_of(declared.source, declared.kernel, declared.flags)
    if (declared.num_warps, declared.num_stages) != (CustomKernel.num_warps, CustomKernel.num_stages):
        raise CompileError("num_warps and num_stages are for kernels in Triton", remedy="give threads")
    threads, shared = 256 if declared.threads is None else declared.threads, declared.shared or 0
    return replace(declared, kernel=source, name=declared.name or source.name, threads=threads, shared=shared)


def _check_numbers(kernel: CustomKernel) -> None:
    if kernel.is_cuda:
        for parameter in kernel.constants:
            if not parameter.isidentifier():
                raise CompileError(f"kernel {kernel.name}: constants names {parameter!r}, which is not the name of a macro")
        if not callable(kernel.threads):
            cuda.block(kernel)
        if not callable(kernel.shared):
            cuda.shared(kernel, kernel.shared)
        return
    for parameter in kernel.constants:
        if parameter not in kernel.kernel.arg_names:
            raise CompileError(
                f"kernel {kernel.name} has no parameter {parameter!r}, which constants names",
                where=location_of(kernel.kernel),
                remedy=suggestion(parameter, kernel.kernel.arg_names),
            )
    for what, number in (("num_warps", kernel.num_warps), ("num_stages", kernel.num_stages)):
        if type(number) is not int or number < 1 or (what == "num_warps" and number & (number - 1)):
            wanted = "a power of two" if what == "num_warps" else "a positive number"
            raise CompileError(f"kernel {kernel.name}: {what} must be {wanted}, {number!r} given")


def _check_epilogue(kernel: CustomKernel, results: list[str]) -> None:
    names = kernel.epilogue
    if kernel.is_cuda:
        raise CompileError(f"kernel {kernel.name}: epilogue is for kernels in Triton", remedy="leave it out")
    if not isinstance(names, tuple) or len(names) != 2:
        raise CompileError(
            f"kernel {kernel.name}: epilogue gives {names!r}", remedy="name the parameters that get the function, and its operands"
        )
    for name in names:
        if name not in kernel.kernel.arg_names or name in kernel.constants:
            why = "constants names already" if name in kernel.constants else "it does not have"
            raise CompileError(
                f"kernel {kernel.name}: epilogue names parameter {name!r}, which {why}",
                where=location_of(kernel.kernel),
                remedy=suggestion(name, kernel.kernel.arg_names),
            )
    if results != ["out"]:
        raise CompileError(f"kernel {kernel.name} has several results, and epilogue is for one", remedy="leave it out")


def _check_configs(kernel: CustomKernel) -> None:
    for config in kernel.configs:
        if set(config) != set(kernel.configs[0]):
            raise CompileError(f"kernel {kernel.name}: configs[0] names {sorted(kernel.configs[0])}, another {sorted(config)}")
    if len(kernel.variants()) < max(len(kernel.configs), 1):
        raise CompileError(f"kernel {kernel.name}: two of its configs are the same", remedy="drop one")


def _names_of_op(op: torch._ops.OpOverload) -> tuple[list[str], list[str]]:
    """Returns the names of an op's arguments and results."""
    returns = op._schema.returns
    return [a.name for a in op._schema.arguments], result_names(len(returns), str(returns[0].type) != "Tensor")


def _names_of_pattern(kernel: CustomKernel) -> tuple[list[str], list[str]]:
    """Returns the names of a pattern's arguments and results. Tracing the pattern for its example inputs shows errors in it."""
    pattern = _callable(kernel.name, "pattern", kernel.pattern)
    names = parameter_names(pattern)
    examples = kernel.example_inputs
    if len(examples) != len(names) or not all(isinstance(t, Tensor) for t in examples):
        raise CompileError(
            f"kernel {kernel.name}: example_inputs must be a tensor for each of the pattern's parameters {', '.join(names)}",
            where=location_of(pattern),
        )
    return names, result_names(len(traced(kernel, examples, table(), by_dispatch).results), listed=False)


def _callable(name: str, what: str, rule: Any) -> Rule:
    if not callable(rule):
        raise CompileError(f"kernel {name}: {what} must be a function, {rule!r} given")
    return rule


def _overload(op: Any) -> torch._ops.OpOverload:
    """Returns the overload that `op` names: an OpOverload, a packet or custom op, or a text such as "mylib::scaled_add"."""
    if isinstance(op, torch.library.CustomOpDef):
        op = op._opoverload
    if isinstance(op, str):
        parts = re.fullmatch(r"(\w+)(?:::|\.)(\w+)(?:\.(\w+))?", op)
        packet = getattr(getattr(torch.ops, parts[1]), parts[2], None) if parts else None
        if parts is None or packet is None:
            raise CompileError(
                f"there is no op {op!r}", remedy='name one as "namespace::name", and import the module that defines it first'
            )
        op = getattr(packet, parts[3], None) if parts[3] else packet
        if op is None:
            raise CompileError(f"{packet} has no overload {parts[3]!r}", remedy=f"it has {', '.join(packet.overloads())}")
    if isinstance(op, torch._ops.OpOverloadPacket):
        op = _only(op)
    if not isinstance(op, torch._ops.OpOverload):
        raise CompileError(f"op must be an op of torch.ops or its name, {op!r} given")
    return op


def _only(packet: torch._ops.OpOverloadPacket) -> torch._ops.OpOverload:
    """Returns the one overload that a kernel may compute, or the default one of several."""
    overloads = {name: getattr(packet, name) for name in packet.overloads()}
    fit = {name: op for name, op in overloads.items() if not op._schema.is_mutable and _gives_tensors(op)} or overloads
    if len(fit) > 1 and "default" not in fit:
        raise CompileError(f"{packet} has several overloads", remedy=f'name one: "{packet}.{next(iter(fit))}", of {", ".join(fit)}')
    return fit.get("default") or next(iter(fit.values()))


def _gives_tensors(op: torch._ops.OpOverload) -> bool:
    return bool(op._schema.returns) and all(str(r.type) in _TENSORS for r in op._schema.returns)


def _check_op(op: torch._ops.OpOverload) -> None:
    for argument in op._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            raise CompileError(
                f"{op} changes its argument {argument.name!r}",
                remedy="register a kernel for a functional op, which returns what it computes",
            )
    if op.is_view or any(a.alias_info is not None for a in op._schema.returns):
        raise CompileError(f"{op} returns a view of its argument", remedy="there is nothing for a kernel to compute")
    if not _gives_tensors(op):
        raise CompileError(f"{op} does not return tensors alone")
    if is_composite(op):
        raise CompileError(
            f"torch takes {op} apart before a compiler sees it",
            remedy="register the kernel for the op that it becomes, or for a pattern that calls it",
        )


def _check_kernel(kernel: Any) -> None:
    from triton.runtime.jit import JITFunction

    if not isinstance(kernel, JITFunction):
        inner = getattr(kernel, "fn", None)
        hint = "give the function under triton.autotune or triton.heuristics, and constants"
        raise CompileError(
            f"kernel must be a @triton.jit function, {kernel!r} given",
            remedy=hint if isinstance(inner, JITFunction) else "give a source, where it is in CUDA C++" if kernel is None else "",
        )
