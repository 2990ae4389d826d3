"""The Python entry points, for tests that run once for each of them."""

import copy
import itertools
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from layouts import arranged, fitting
from observed import agree, observe
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import lamina
from lamina.frontend.entry.dynamo import backend

NO_CACHE = {"cache": False}

# By its name where the package is installed (its entry point makes it known), by the function in a bare checkout.
BACKEND: Any = "lamina" if "lamina" in torch._dynamo.list_backends() else backend

Model = Callable[..., Any]


def by_export(model: Model, args: tuple[Any, ...]) -> Model:
    return lamina.compile(model, args, options=NO_CACHE)


def by_dynamo(model: Model, args: tuple[Any, ...], *, dynamic: bool = False) -> Model:
    torch._dynamo.reset()
    compiled: Model = torch.compile(model, backend=BACKEND, options=NO_CACHE, dynamic=dynamic, fullgraph=True)
    return compiled


def by_dynamo_dynamic(model: Model, args: tuple[Any, ...]) -> Model:
    """Compiles with torch.compile(dynamic=True): sizes and numbers are symbols in the captured graph."""
    return by_dynamo(model, args, dynamic=True)


ENTRY_POINTS = {"lamina.compile": by_export, "torch.compile": by_dynamo, "torch.compile dynamic": by_dynamo_dynamic}


def static_and_dynamic(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs each name with the dynamic entry point and, in turn, with one of the two whose graphs have the same ops and sizes."""
    *static, symbolic = ENTRY_POINTS
    chosen = [(name, entry_point) for i, name in enumerate(names) for entry_point in (static[i % len(static)], symbolic)]
    return [*itertools.product(names, ENTRY_POINTS)] if os.environ.get("LAMINA_TEST_PRODUCTS") else chosen


def clone(values: Any) -> Any:
    """Copies the tensors of a tree, with their strides, offsets, sharing and requires_grad."""
    return copy.deepcopy(values)


def same(got: Any, want: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Asserts that two trees are equal: tensors close, of the same type, shape and strides; everything else equal."""
    a, a_spec = pytree.tree_flatten(got)
    b, b_spec = pytree.tree_flatten(want)
    assert a_spec == b_spec
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if not isinstance(y, Tensor):
            assert x == y and type(x) is type(y), f"output {i}: {x!r}, not {y!r}"
            continue
        assert x.stride() == y.stride() or y.numel() < 2, f"output {i}: strides {x.stride()}, not {y.stride()}"
        torch.testing.assert_close(x, y, rtol=rtol, atol=atol, equal_nan=True)


def as_eager(
    entry_point: Callable[..., Model], model: Model, *args: Any, calls: int = 2, rtol: float = 1e-4, atol: float = 1e-5
) -> Any:
    """Calls eager and compiled alike: outputs, inputs and the model's buffers must agree after each call. The last pair of
    (arguments, outputs) of the compiled model."""
    twin = clone(model) if isinstance(model, nn.Module) else model
    compiled = entry_point(twin, clone(args))
    for _ in range(calls):
        mine, theirs = clone(args), clone(args)
        want, got = model(*theirs), compiled(*mine)
        same(got, want, rtol, atol)
        same(mine, theirs, rtol, atol)
        if isinstance(model, nn.Module) and isinstance(twin, nn.Module):
            for buffer, expected in zip(twin.buffers(), model.buffers(), strict=True):
                torch.testing.assert_close(buffer, expected, rtol=rtol, atol=atol)
    return mine, got


@dataclass(frozen=True)
class Case:
    """A model and its arguments, drawn anew for each call: tensors whose shapes and dtypes are the same each time.

    layouts  the arguments mean the same in any layout, and when they share memory
    """

    model: Model
    draw: Callable[[], tuple[Any, ...]]
    layouts: bool = True


def holds(case: Case, entry_point: Callable[..., Model], *, gradients: bool, seed: int, layouts: int = 3) -> None:
    """Compiles a case once and calls it with arguments in several layouts, beside eager: all that a caller sees must agree.

    Which layouts, and which of them the model is compiled with, is drawn from the seed. What eager refuses is left out.
    """
    rng = random.Random(seed)
    chosen = fitting(case.draw(), rng, layouts) if case.layouts else ["contiguous"]
    with torch.set_grad_enabled(gradients):
        accepted = [(layout, own) for layout in chosen if (own := _leaves(case, layout, gradients)) is not None]
        assert "contiguous" in dict(accepted), "eager refuses the case"
        eager, twin = (copy.deepcopy(case.model) if isinstance(case.model, nn.Module) else case.model for _ in range(2))
        first = arranged(case.draw(), accepted[0][0])
        compiled = entry_point(twin, first)
        for number, (layout, own_leaves) in enumerate([*accepted, accepted[0]]):
            theirs = arranged(_smooth(case, layout, own_leaves) if gradients else case.draw(), layout)
            mine, draws = clone(theirs), {"gradients": gradients, "seed": rng.getrandbits(60), "own_leaves": own_leaves}
            try:
                want = observe(eager, eager, theirs, **draws)
                agree(observe(compiled, twin, mine, **draws), want)
            except Exception as error:
                before = [done for done, _ in accepted[:number]]
                raise AssertionError(f"{error}\nin a call with {layout} arguments, after {before or 'none'}") from error


def _smooth(case: Case, layout: str, own_leaves: bool) -> tuple[Any, ...]:
    """Returns arguments at which no gradient of a module jumps: where relu's does within rounding, two correct implementations may
    differ by any amount."""
    drawn = case.draw()
    for _ in range(10 if isinstance(case.model, nn.Module) else 0):
        found = []
        for moved in (False, True):
            model = copy.deepcopy(case.model)
            args = pytree.tree_map_only(Tensor, _moved, drawn) if moved else drawn
            for parameter in model.parameters() if moved else ():
                parameter.data = _moved(parameter.data)
            found.append(observe(model, model, arranged(clone(args), layout), gradients=True, seed=0, own_leaves=own_leaves))
        try:
            agree(found[1], found[0])
            break
        except AssertionError:
            drawn = case.draw()
    return drawn


def _moved(t: Tensor) -> Tensor:
    """Changes each element by a few roundings."""
    return t * (1 + 8 * torch.finfo(t.dtype).eps * torch.rand_like(t)) if t.dtype in (torch.float32, torch.float64) else t


def _leaves(case: Case, layout: str, gradients: bool) -> bool | None:
    """Whether eager takes arguments in this layout as leaves of autograd (True), as copies of leaves (False), or not at all."""
    for own_leaves in (True, False) if gradients else (True,):
        try:
            model, args = copy.deepcopy(case.model), arranged(case.draw(), layout)
            observe(model, model, args, gradients=gradients, seed=0, own_leaves=own_leaves)
            return own_leaves
        except (RuntimeError, IndexError):
            continue
    return None


def memory(t: Tensor) -> int:
    """Returns a key that is equal for tensors with the same storage."""
    return t.untyped_storage().data_ptr()
