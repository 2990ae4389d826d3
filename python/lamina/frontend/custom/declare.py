"""`lamina.custom_kernel` and `lamina.register_kernel`: a user's kernel, checked as far as it can be without a call of its op."""

import re
from collections.abc import Mapping
from typing import Any

import torch

from lamina.core.custom_kernel import CustomKernel, Rule
from lamina.core.errors import CompileError

from ..expansion import is_composite
from .rules import check_names, place, suggestion

_TENSORS = ("Tensor", "List[Tensor]")


def custom_kernel(
    op: Any,
    *,
    kernel: Any,
    arguments: Rule,
    grid: Rule,
    outputs: Rule | None = None,
    when: Rule | None = None,
    constants: Mapping[str, Any] | None = None,
    num_warps: int = 4,
    num_stages: int = 3,
    name: str = "",
) -> CustomKernel:
    """See lamina.custom_kernel."""
    of = _overload(op)
    _check_op(of)
    _check_kernel(kernel)
    name = name or kernel.fn.__name__
    made = CustomKernel(name, of, kernel, arguments, grid, outputs, when, dict(constants or {}), num_warps, num_stages)
    for parameter in made.constants:
        if parameter not in kernel.arg_names:
            raise CompileError(
                f"kernel {name} has no parameter {parameter!r}, which constants names",
                where=place(kernel),
                remedy=suggestion(parameter, kernel.arg_names),
            )
    before = [a.name for a in of._schema.arguments]
    for what, rule in (("when", when), ("outputs", outputs)):
        if rule is not None:
            check_names(name, what, _callable(name, what, rule), [*before, *made.constants])
    for what, rule in (("arguments", arguments), ("grid", grid)):
        check_names(name, what, _callable(name, what, rule), [*before, *_results(of), *made.constants])
    for what, number in (("num_warps", num_warps), ("num_stages", num_stages)):
        if type(number) is not int or number < 1 or (what == "num_warps" and number & (number - 1)):
            wanted = "a power of two" if what == "num_warps" else "a positive number"
            raise CompileError(f"kernel {name}: {what} must be {wanted}, {number!r} given")
    return made


def _callable(name: str, what: str, rule: Any) -> Rule:
    if not callable(rule):
        raise CompileError(f"kernel {name}: {what} must be a function, {rule!r} given")
    found: Rule = rule
    return found


def _overload(op: Any) -> torch._ops.OpOverload:
    """The overload that an OpOverload, a packet or custom op with one of them, or a text such as "mylib::scaled_add" names."""
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
    """The overload that a kernel may compute, or the default one of several."""
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
            remedy="register the kernel for the op that it becomes, or define an op of your own with torch.library.custom_op",
        )


def _check_kernel(kernel: Any) -> None:
    from triton.runtime.jit import JITFunction

    if not isinstance(kernel, JITFunction):
        inner = getattr(kernel, "fn", None)
        hint = "give the function under triton.autotune or triton.heuristics, and constants"
        raise CompileError(
            f"kernel must be a @triton.jit function, {kernel!r} given", remedy=hint if isinstance(inner, JITFunction) else ""
        )


def _results(op: torch._ops.OpOverload) -> list[str]:
    """Names by which rules get the results: out, or out0, out1, ..., and outs for an op that returns a list."""
    returns = op._schema.returns
    if len(returns) == 1:
        return ["out"] if str(returns[0].type) == "Tensor" else ["outs"]
    return [f"out{i}" for i in range(len(returns))]


def results_by_name(op: torch._ops.OpOverload, results: list[torch.Tensor]) -> dict[str, Any]:
    names = _results(op)
    return {"outs": results} if names == ["outs"] else dict(zip(names, results, strict=True))
