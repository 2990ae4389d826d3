"""Compiles functions and compares their results with eager's; the bounds are errors against float64."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from lamina.core.options import Options
from lamina.frontend.compiling.stages import compile_part
from lamina.frontend.decompositions.table import table

Function = Callable[..., Any]
OPTIONS = Options(strict=True, cache=False)


def compiled(fn: Function, inputs: Sequence[Tensor], options: Options = OPTIONS) -> Function:
    """Compiles `fn`, functionalized and decomposed as by the front ends, for inputs like these. Returns a callable that returns
    the list of `fn`'s results."""
    with torch.no_grad():
        gm = make_fx(functionalize(_outputs(fn)), decomposition_table=table(), tracing_mode="fake")(*inputs)
        if any(n.op == "call_function" and n.target._schema.is_mutable for n in gm.graph.nodes):  # in a decomposition
            gm = make_fx(functionalize(gm), decomposition_table=table(), tracing_mode="fake")(*inputs)
    run = compile_part(gm, options=options)
    return lambda *tensors: list(run(*tensors))


def check(fn: Function, *inputs: Tensor, slack: float = 4.0, ulps: float = 4.0, absolute: float = 0.0) -> None:
    """Compiles `fn` and compares the results of two calls: no result may depend on stale memory."""
    run = compiled(fn, inputs)
    before = [x.clone() for x in inputs]
    first, second = run(*inputs), run(*inputs)
    for x, old in zip(inputs, before, strict=True):
        assert torch.equal(_bits(x), _bits(old)), "an input has changed"
    compare(fn, inputs, first, slack=slack, ulps=ulps, absolute=absolute)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(_bits(a), _bits(b)), "a second call gives another result"


def compare(
    fn: Function, inputs: Sequence[Tensor], got: Sequence[Tensor], *, slack: float = 4.0, ulps: float = 4.0, absolute: float = 0.0
) -> None:
    """Floating results lie within `slack` times eager's own largest error against float64, plus `ulps` units in the last place
    of the value and `absolute` units of 1; all others are equal to eager's."""
    eager = _outputs(fn)(*inputs)
    exact = _outputs(fn)(*(x.double() if x.is_floating_point() else x for x in inputs))
    assert len(got) == len(eager)
    for number, (mine, theirs, truth) in enumerate(zip(got, eager, exact, strict=True)):
        assert mine.shape == theirs.shape, f"result {number} has shape {tuple(mine.shape)}, eager's is {tuple(theirs.shape)}"
        assert mine.dtype == theirs.dtype, f"result {number} is {mine.dtype}, eager's is {theirs.dtype}"
        if not mine.is_floating_point():
            wrong = (mine != theirs).nonzero()
            assert not len(wrong), f"result {number} differs at {len(wrong)} places, first {wrong[0].tolist()}"
        elif mine.numel():
            _close(number, mine, theirs, truth.double(), slack, ulps, absolute)


def _close(number: int, mine: Tensor, theirs: Tensor, truth: Tensor, slack: float, ulps: float, absolute: float) -> None:
    a, b = mine.double(), theirs.double()
    finite = b.isfinite() & truth.isfinite()
    odd = ~finite & ~((a == b) | (a.isnan() & b.isnan()) | (a == truth) | (a.isnan() & truth.isnan()))
    assert not odd.any(), f"result {number} at {odd.nonzero()[0].tolist()}: {a[odd][0]} where eager has {b[odd][0]}"
    if not finite.any():
        return
    scale = torch.finfo(mine.dtype).eps
    own = (b - truth)[finite].abs().max()
    least = 64 * scale * truth[finite].abs().max() if mine.dtype is torch.float64 else 0.0  # the judge is no better than eager
    bound = slack * own + ulps * scale * truth.abs() + absolute * scale + torch.finfo(mine.dtype).tiny + least
    error = (a - truth).abs()
    wrong = finite & ~(error <= bound)
    if wrong.any():
        where = wrong.nonzero()[0].tolist()
        raise AssertionError(
            f"result {number}: {int(wrong.sum())} of {wrong.numel()} wrong, first at {where}: {mine[tuple(where)].item()} "
            f"where eager has {theirs[tuple(where)].item()} and float64 {truth[tuple(where)].item()}; bound {bound[tuple(where)].item():.3g}"
        )


def _bits(x: Tensor) -> Tensor:
    return torch.nan_to_num(x) if x.is_floating_point() else x


def _outputs(fn: Function) -> Callable[..., list[Tensor]]:
    """Wraps `fn` so that its result is a list of tensors."""

    def run(*inputs: Tensor) -> list[Tensor]:
        out = fn(*inputs)
        return list(out) if isinstance(out, tuple | list) else [out]

    return run
