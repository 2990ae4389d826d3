"""Compares samples of PyTorch's own operators and higher-order ops with eager, through torch.compile's door, in both passes.

    python -m lamina.tools.sweep_ops [--db op|hop] [--dtype float32] [--samples 1] [--part 0/1] [--dynamic] [NAME ...]

A sample that backend="aot_eager" runs as eager does and Lamina does not is printed as BAD; one where both differ as "both". The
samples are those of torch.testing._internal, which needs the package expecttest. Operators that draw random numbers are left out.
"""

import argparse
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

_RANDOM = (
    "bernoulli", "normal", "uniform", "rand", "dropout", "multinomial", "exponential", "cauchy", "geometric", "empty", "rrelu",
)  # fmt: skip
_OPTIONS = {"lamina": {"options": {"cache": False}}}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares PyTorch's samples of operators with eager.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--db", choices=("op", "hop"), default="op")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--part", default="0/1", help="which of how many parts of the operators")
    parser.add_argument("--dynamic", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch._logging.set_logs(all=logging.CRITICAL)
    part, parts = map(int, given.part.split("/"))
    dtype, counts = getattr(torch, given.dtype), {"ok": 0, "BAD": 0, "both": 0}
    infos = [info for info in _database(given.db) if not given.names or info.name in given.names]
    for info in infos[part::parts]:
        for number, sample, grad in _samples(info, dtype, given.samples):
            kind, message = _judge(info.op, sample, grad, given.dynamic)
            counts[kind] += 1
            if message:
                print(f"{kind} {info.name} {info.variant_test_name}[{number}]: {message}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))


def _database(kind: str) -> list[Any]:
    if kind == "op":
        from torch.testing._internal.common_methods_invocations import op_db

        return list(op_db)
    from torch.testing._internal.hop_db import hop_db

    return list(hop_db)


def _samples(info: Any, dtype: torch.dtype, count: int) -> Iterator[tuple[int, Any, bool]]:
    """(number, sample, whether it has gradients), spread over all that there are."""
    if any(name in info.name for name in _RANDOM) or dtype not in info.dtypes:
        return
    inexact = dtype.is_floating_point or dtype.is_complex
    grad = info.supports_autograd and inexact and dtype in info.supported_backward_dtypes("cpu")
    found = list(info.sample_inputs("cpu", dtype, requires_grad=grad))
    for i in sorted({(len(found) - 1) * k // max(1, count - 1) for k in range(count)} if found else ()):
        yield i, found[i], grad


def _judge(op: Any, sample: Any, grad: bool, dynamic: bool) -> tuple[str, str]:
    try:
        want = _run(op, sample, grad)
    except Exception:  # what eager refuses is no case
        return "ok", ""
    message = _difference("lamina", op, sample, grad, dynamic, want)
    if not message:
        return "ok", ""
    return ("both" if _difference("aot_eager", op, sample, grad, dynamic, want) else "BAD"), message


def _difference(backend: str, op: Any, sample: Any, grad: bool, dynamic: bool, want: list[Any]) -> str:
    torch._dynamo.reset()
    compiled = torch.compile(lambda *a, **k: op(*a, **k), backend=backend, dynamic=dynamic, **_OPTIONS.get(backend, {}))
    try:
        torch.testing.assert_close(_run(compiled, sample, grad), want, rtol=1e-4, atol=1e-5, equal_nan=True)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ""


def _run(op: Any, sample: Any, grad: bool) -> list[Any]:
    """Results, gradients, and the arguments after the call, dense."""
    args = (sample.input, *sample.args), sample.kwargs
    args, kwargs = pytree.tree_map_only(Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), args)
    torch.manual_seed(0)
    found = pytree.tree_leaves(op(*args, **kwargs))
    outputs = [t for t in found if isinstance(t, Tensor) and t.requires_grad]
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.requires_grad]
    if grad and outputs and leaves:
        losses = [(_dense(t).abs() if t.is_complex() else _dense(t)).double().sum() for t in outputs]
        found += torch.autograd.grad(losses, leaves, allow_unused=True)
    found += pytree.tree_leaves((args, kwargs))
    return [_dense(t).detach() if isinstance(t, Tensor) else t for t in found if isinstance(t, Tensor | int | float | bool)]


def _dense(tensor: Tensor) -> Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


if __name__ == "__main__":
    main()
