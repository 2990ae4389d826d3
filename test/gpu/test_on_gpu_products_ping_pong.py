"""Compares ping-pong products (kernels in Gluon), with several blocks per program, with float64."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from test_on_gpu_products import all_on_gpu
from torch import Tensor

ONE = "triton{m=128 n=128 k=64 warps=4 stages=5 resident=1 ping_pong=1}"
SMALLER = "triton{m=64 n=128 k=64 warps=4 stages=3 resident=1 split=2 ping_pong=1}"
PAIR = "triton{m=128 n=64 k=64 warps=4 stages=5 resident=1 ping_pong=1}"


def gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w, b))


def swiglu(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def normed(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
    return F.layer_norm(F.linear(x, w, b) + r, (w.shape[0],))


CASES: dict[str, tuple[Callable[..., Tensor | tuple[Tensor, ...]], tuple[tuple[int, ...], ...], tuple[str, ...]]] = {
    "plain": (lambda x, w: x @ w, ((3000, 520), (520, 2056)), (ONE, SMALLER)),
    "gelu": (gelu, ((3000, 328), (2056, 328), (2056,)), (ONE, SMALLER)),
    "stored by pointers": (gelu, ((3000, 328), (2055, 328), (2055,)), (ONE, SMALLER)),
    "pair": (swiglu, ((3000, 328), (2056, 328), (2056, 328)), (PAIR,)),
    "pair of columns": (lambda x, a, b: torch.tanh(x @ a) * (x @ b), ((3000, 328), (328, 2056), (328, 2056)), (PAIR,)),
    "norm": (normed, ((5000, 1024), (768, 1024), (768,), (5000, 768)), (ONE,)),
    "several results": (lambda x, w: ((y := x @ w), torch.relu(y).float()), ((3000, 328), (328, 2056)), (SMALLER,)),
    "batches": (lambda a, b: torch.relu(torch.bmm(a.mT, b)), ((6, 200, 600), (6, 200, 1032)), (ONE, SMALLER)),
    "few blocks": (gelu, ((130, 64), (264, 64), (264,)), (ONE, SMALLER)),
}


@pytest.mark.parametrize(("name", "schedule"), [(name, s) for name, (_, _, schedules) in CASES.items() for s in schedules])
def test_ping_pong(name: str, schedule: str) -> None:
    fn, shapes, _ = CASES[name]
    inputs = [torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in shapes]
    inputs[1:] = [x * shapes[0][-1] ** -0.5 for x in inputs[1:]]
    wanted = fn(*(x.double() for x in inputs))
    for found, again, want in zip(
        all_on_gpu(fn, inputs, schedule),
        all_on_gpu(fn, inputs, schedule),
        wanted if isinstance(wanted, tuple) else (wanted,),
        strict=True,
    ):
        assert (found.double() - want).norm() < 5e-3 * want.norm()
        assert torch.equal(found, again)
