"""Checks Lamina against eager on PyTorch's samples of operators and higher-order ops, through torch.compile, forward and backward.

    python test/e2e/sweep_ops.py [--db op|hop] [--dtype float32] [--samples 1] [--part 0/1] [--layout plain] [--dynamic] [NAME ...]

Prints a sample as BAD where Lamina differs from eager and backend="aot_eager" does not, as "both" where both differ. Compares
values, dtypes and strides of results and of the arguments' `.grad`. Floats that differ are right where their error, against eager in
float64, is a small multiple of eager's own, or of what their dtype can tell apart. `--layout` sets the memory layout of the arguments. With
`--dynamic` sizes and numbers are symbols, and samples that are compiled for their own sizes all the same are printed as "sizes", with
the reason. The samples are those of torch.testing._internal, which needs the package expecttest. Ops that draw random numbers are
left out.
"""

import argparse
import copy
import logging
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from lamina.frontend.compiling import per_size

_RANDOM = (
    "bernoulli", "normal", "uniform", "rand", "dropout", "multinomial", "exponential", "cauchy", "geometric", "empty", "rrelu",
)  # fmt: skip
_OPTIONS = {"lamina": {"options": {"cache": False}}}


def main() -> None:
    """Runs the sweep; prints the samples that differ, then how many had each outcome."""
    parser = argparse.ArgumentParser(description="Compares PyTorch's samples of operators with eager.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--db", choices=("op", "hop"), default="op")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--part", default="0/1", help="which of how many parts of the operators")
    parser.add_argument("--layout", choices=("plain", *_LAYOUTS), default="plain")
    parser.add_argument("--dynamic", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch._logging.set_logs(all=logging.CRITICAL)
    part, parts = map(int, given.part.split("/"))
    dtype, counts = getattr(torch, given.dtype), {"ok": 0, "BAD": 0, "both": 0, "sizes": 0}
    reasons = _reasons()
    infos = [info for info in _database(given.db) if not given.names or info.name in given.names]
    for info in infos[part::parts]:
        for number, sample, grad in _samples(info, dtype, given.samples):
            kind, message = _judge(info.op, _arranged(sample, given.layout), grad, given.dynamic)
            counts[kind] += 1
            if reasons:
                counts["sizes"] += 1
                print(f"sizes {info.name} {info.variant_test_name}[{number}]: {'; '.join(dict.fromkeys(reasons))}", flush=True)
                reasons.clear()
            if message:
                print(f"{kind} {info.name} {info.variant_test_name}[{number}]: {message}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))


def _reasons() -> list[str]:
    """Returns a list that grows by the reason with each graph that cannot be compiled once for all sizes."""
    found: list[str] = []
    compile_ = per_size._all_sizes

    def kept(*args: Any) -> Any:
        run = compile_(*args)
        if isinstance(run, per_size.PerSize):
            found.append(run.reason)
        return run

    per_size._all_sizes = kept
    return found


def _database(kind: str) -> list[Any]:
    if kind == "op":
        from torch.testing._internal.common_methods_invocations import op_db

        return list(op_db)
    from torch.testing._internal.hop_db import hop_db

    return list(hop_db)


def _samples(info: Any, dtype: torch.dtype, count: int) -> Iterator[tuple[int, Any, bool]]:
    """Yields (number, sample, whether it has gradients) for `count` samples, spread over all that the operator has."""
    if any(name in info.name for name in _RANDOM) or dtype not in info.dtypes:
        return
    inexact = dtype.is_floating_point or dtype.is_complex
    grad = info.supports_autograd and inexact and dtype in info.supported_backward_dtypes("cpu")
    found = list(info.sample_inputs("cpu", dtype, requires_grad=grad))
    for i in sorted({(len(found) - 1) * k // max(1, count - 1) for k in range(count)} if found else ()):
        yield i, found[i], grad


def _swapped(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT if x.dim() > 1 else x


def _last(x: Tensor) -> Tensor:
    """Returns the tensor with its second dimension innermost in memory."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if x.dim() > 2 else x


def _sliced(x: Tensor) -> Tensor:
    return torch.stack([x, x], -1)[..., 0]


_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {"transposed": _swapped, "channels_last": _last, "sliced": _sliced}


def _arranged(sample: Any, layout: str) -> Any:
    """Returns the sample with its contiguous tensors in another memory layout."""
    arrange = _LAYOUTS.get(layout)

    def moved(x: Tensor) -> Tensor:
        if arrange is None or x.layout is not torch.strided or not x.is_contiguous():
            return x
        return arrange(x.detach()).requires_grad_(x.requires_grad)

    args, kwargs = pytree.tree_map_only(Tensor, moved, ((sample.input, *sample.args), sample.kwargs))
    return SimpleNamespace(input=args[0], args=args[1:], kwargs=kwargs)


def _judge(op: Any, sample: Any, grad: bool, dynamic: bool) -> tuple[str, str]:
    try:
        want = _run(op, sample, grad)
    except Exception:  # a sample that eager refuses tests nothing
        return "ok", ""
    exact = _exact(op, sample, grad, len(want))
    message = _difference("lamina", op, sample, grad, dynamic, want, exact)
    if not message:
        return "ok", ""
    return ("both" if _difference("aot_eager", op, sample, grad, dynamic, want, exact) else "BAD"), message


def _exact(op: Any, sample: Any, grad: bool, count: int) -> list[Any] | None:
    """Returns what eager computes in float64; None where that is something else, or nothing."""

    def wide(x: Any) -> Any:
        if isinstance(x, torch.dtype):
            return torch.float64 if x.is_floating_point else x
        is_real = x.is_floating_point() and x.layout is torch.strided
        return x.detach().double().requires_grad_(x.requires_grad) if is_real else x

    args, kwargs = pytree.tree_map_only((Tensor, torch.dtype), wide, ((sample.input, *sample.args), sample.kwargs))
    try:
        found = _run(op, SimpleNamespace(input=args[0], args=args[1:], kwargs=kwargs), grad)
    except Exception:  # no kernel of float64, or arguments of another dtype
        return None
    return found if len(found) == count else None


def _check(found: Any, want: Any, exact: Any) -> None:
    """Raises AssertionError if a value is neither eager's nor about as near to float64."""
    try:
        torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5, equal_nan=True)
    except AssertionError:
        floats = isinstance(want, Tensor) and want.is_floating_point() and (found.dtype, found.shape) == (want.dtype, want.shape)
        if not floats or not isinstance(exact, Tensor) or exact.shape != want.shape or exact.dtype is not torch.float64:
            raise
        mine, eagers, finite = found.double(), want.double(), exact.isfinite() & want.isfinite()
        error, own = ((t - exact)[finite].abs().max() for t in (mine, eagers))
        size = exact[finite].abs().max()
        others = torch.equal(mine[~finite].nan_to_num(7.0), eagers[~finite].nan_to_num(7.0))
        if not others or not error <= 4 * own + 2 * torch.finfo(want.dtype).eps * size:
            raise AssertionError(f"error {error:.3g}, eager's {own:.3g}, of {size:.3g}") from None


def _difference(backend: str, op: Any, sample: Any, grad: bool, dynamic: bool, want: list[Any], exact: list[Any] | None) -> str:
    torch._dynamo.reset()
    compiled = torch.compile(lambda *a, **k: op(*a, **k), backend=backend, dynamic=dynamic, **_OPTIONS.get(backend, {}))
    try:
        found = _run(compiled, sample, grad)
        assert len(found) == len(want), f"{len(found)} results, not {len(want)}"
        for mine, eagers, right in zip(found, want, exact or [None] * len(want), strict=True):
            _check(mine, eagers, right)
        assert _strides(found) == _strides(want), f"strides {_strides(found)}, not {_strides(want)}"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ""


def _strides(found: list[Any]) -> list[list[int]]:
    """Returns the strides that matter: those of dimensions with more than one element, in tensors that are not empty."""
    tensors = [t for t in found if isinstance(t, Tensor)]
    return [[s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] if t.numel() else [] for t in tensors]


def _run(op: Any, sample: Any, grad: bool) -> list[Any]:
    """Returns results, gradients, and the arguments after the call, as dense tensors."""
    args = (sample.input, *sample.args), sample.kwargs
    args, kwargs = pytree.tree_map_only(Tensor, _copied, args)
    torch.manual_seed(0)
    found = pytree.tree_leaves(op(*args, **kwargs))
    outputs = [t for t in found if isinstance(t, Tensor) and t.requires_grad]
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.requires_grad]
    if grad and outputs and leaves:
        losses = [(_dense(t).abs() if t.is_complex() else _dense(t)).double().sum() for t in outputs]
        torch.autograd.backward(losses, inputs=leaves)
        found += [t.grad for t in leaves]
    found += pytree.tree_leaves((args, kwargs))
    return [_dense(t).detach() if isinstance(t, Tensor) else t for t in found if isinstance(t, Tensor | int | float | bool)]


def _copied(x: Tensor) -> Tensor:
    """Copies a tensor in its layout, gaps included."""
    return copy.deepcopy(x.detach()).requires_grad_(x.requires_grad)


def _dense(tensor: Tensor) -> Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


if __name__ == "__main__":
    main()
