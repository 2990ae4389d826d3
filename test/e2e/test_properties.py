"""Compiles random modules once, changes them, calls them again, and compares all that a caller sees with eager.

LAMINA_TEST_MODULES=N draws N modules for each entry point instead of a few. What fails is printed with all left out that it fails without.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from entry_points import ENTRY_POINTS, Model
from observed import Observed, agree, observe
from random_modules import ATTRIBUTE_CHANGES, HOOK_CHANGES, Pair, Program, S, Step, random_program, smallest
from torch import Tensor, nn

from lamina import CompileError

COUNT = int(os.environ.get("LAMINA_TEST_MODULES", "12"))


class Refused(Exception):
    """Raised if eager, or torch's own back end, does not run a program either."""


@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_random_module(entry_point: str, number: int, seed: int) -> None:
    program = _without(random_program(seed), HOOK_CHANGES if "torch" in entry_point else ATTRIBUTE_CHANGES)
    if failure(program, entry_point):
        program = smallest(program, lambda p: failure(p, entry_point) is not None)
        raise AssertionError(f"{failure(program, entry_point)}\n\n{program}")


def failure(program: Program, entry_point: str) -> str | None:
    """Returns what is wrong with a program through an entry point, if torch's own back end gets it right; else None."""
    try:
        compare(program, ENTRY_POINTS[entry_point])
    except Refused:
        return None
    except CompileError as error:
        return f"CompileError: {error}"
    except Exception as error:
        return None if "torch" in entry_point and not _holds(program, _aot_eager) else f"{type(error).__name__}: {error}"
    return None


def _without(program: Program, changes: list[str]) -> Program:
    """Returns the program without changes of these kinds, which are constants by design: Python attributes for lamina.compile,
    hooks for torch.compile."""
    return replace(program, steps=tuple(replace(s, changes=tuple(c for c in s.changes if c not in changes)) for s in program.steps))


def _aot_eager(model: Model, args: tuple[Any, ...]) -> Model:
    torch._dynamo.reset()
    compiled: Model = torch.compile(model, backend="aot_eager", dynamic=False, fullgraph=True)
    return compiled


def _holds(program: Program, entry_point: Callable[..., Model]) -> bool:
    try:
        compare(program, entry_point)
    except Exception:
        return False
    return True


def compare(program: Program, entry_point: Callable[..., Model]) -> None:
    """Calls a module and its compiled twin, step by step. Raises AssertionError if they differ, Refused if eager fails."""
    if "in_place(y)" in program.text and any(step.needs for step in program.steps):
        raise Refused  # eager forgets that an op without gradients has written to what needs them, AOTAutograd does not
    try:
        alone = program.model()
        for number, step in enumerate(program.steps):
            _step(program, step, alone, alone, number)
    except Exception as error:
        raise Refused from error
    eager, twin = program.model(), program.model()
    compiled = _compiled(program, twin, entry_point)
    rounded = False  # what a module keeps of a call under autocast has that call's roundings
    for number, step in enumerate(program.steps):
        want = _step(program, step, eager, eager, number)
        rounded = rounded or step.autocast
        try:
            agree(_step(program, step, compiled, twin, number), want, 0.1 if rounded else 0.0)
        except CompileError:
            raise
        except Exception as error:
            raise AssertionError(f"call {number}: {type(error).__name__}: {error}") from error


def _compiled(program: Program, module: nn.Module, entry_point: Callable[..., Model]) -> Model:
    for change in program.steps[0].changes:
        _change(change, module)
    args, kwargs = _arguments(program, program.steps[0], module, 99)
    if program.steps[0].needs and not _own_leaves(program):  # what the first call will be given: gradients are defined for it alone
        args, kwargs = torch.utils._pytree.tree_map_only(Tensor, Tensor.clone, (args, kwargs))
    model = _closure(program, module) if program.closure else module
    with _modes(program.steps[0]):
        return entry_point(model, {"x": args[0], **kwargs} if kwargs else args)


def _closure(program: Program, module: nn.Module) -> Model:
    """Returns a function with the module's arguments that calls it."""
    return {
        "plain": lambda x, y: module(x, y),
        "keyword": lambda x, *, y: module(x, y=y),
        "dict": lambda d: module(d),
        "dataclass": lambda p: module(p),
    }[program.header]


def _change(change: str, module: nn.Module) -> None:
    exec(change, {"m": module, "nn": nn, "torch": torch, "OUTSIDE": module.outside})


def _step(program: Program, step: Step, run: Model, module: nn.Module, number: int) -> Observed:
    """Makes one call; the model is compiled with the changes of the first."""
    for change in step.changes if number or run is module else ():
        _change(change, module)
    args, kwargs = _arguments(program, step, module, number)
    with _modes(step):
        return observe(
            lambda *given: run(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True))),
            module, (*args, *kwargs.values()), gradients=step.gradients, seed=number, inputs_need=step.needs,
            own_leaves=_own_leaves(program),
        )  # fmt: skip


def _own_leaves(program: Program) -> bool:
    """Returns whether inputs that need gradients may be leaves of autograd: the module does not write to them."""
    return not any(change in program.text for change in ("x.add_", "y.mul_", "x[1]", "y.t()[0]", "in_place(y)"))


def _arguments(program: Program, step: Step, module: nn.Module, number: int) -> tuple[tuple[Any, ...], dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(program.number + number)
    base = torch.randn(3 * S * S, generator=generator).to(program.dtype)
    x, y = base[: S * S].clone().view(S, S), base[-S * S :].clone().view(S, S)
    match step.inputs:
        case "same":
            x = y
        case "overlapping":
            x, y = base[: S * S].view(S, S), base[S : S + S * S].view(S, S)
        case "transposed":
            x = x.t()
        case "state" | "p0":
            x = getattr(module, step.inputs)
    match program.header:
        case "keyword":
            return (x,), {"y": y}
        case "dict":
            return ({"x": x, "y": y},), {}
        case "dataclass":
            return (Pair(x, y),), {}
    return (x, y), {}


def _modes(step: Step) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    stack.enter_context(torch.set_grad_enabled(step.gradients))
    if step.autocast:
        stack.enter_context(torch.autocast("cpu", torch.bfloat16))
    return stack
