"""Compares products whose kernels compute their factors, or statistics of their results, with float64."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from test_on_gpu_products import all_on_gpu, loaded, on_gpu
from torch import Tensor

SCHEDULES = (
    "prologue triton{m=16 n=32 k=128 warps=2 stages=5 descriptors=0}",
    "prologue triton{m=16 n=64 k=128 warps=4 stages=5 descriptors=0 parts=2}",
    "prologue triton{m=128 n=128 k=64 warps=4 stages=3}",
)
Inputs = Callable[[int, int, int], list[Tensor]]


def random(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda").bfloat16()


FUNCTIONS: dict[str, tuple[Callable[..., Tensor], Inputs]] = {
    "int8": (
        lambda x, w, s, b: F.silu(F.linear(x, w.to(x.dtype) * s[:, None], b)),
        lambda m, n, k: [random(m, k), torch.randint(-127, 128, (n, k), device="cuda").char(), random(n) * 1e-3, random(n)],
    ),
    "silu(gate) * up": (
        lambda g, u, w: F.linear(F.silu(g) * u, w),
        lambda m, n, k: [random(m, k), random(m, k), random(n, k) * k**-0.5],
    ),
    "norm": (
        lambda x, mean, rstd, w: ((x - mean) * rstd).to(w.dtype) @ w,
        lambda m, n, k: [random(m, k), random(m, 1), random(m, 1).abs(), random(k, n) * k**-0.5],
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_prologues(name: str, schedule: str) -> None:
    fn, inputs = FUNCTIONS[name]
    given = inputs(40, 200, 544)
    found, want = on_gpu(fn, given, schedule), fn(*(x.double() if x.is_floating_point() else x for x in given))
    assert (found.double() - want).norm() < 1e-2 * want.norm()


@pytest.mark.parametrize("schedule", ["m=256 n=128 warps=8 resident=1 split=2", "m=128 n=128 warps=4 resident=2"])
def test_every_run_is_right(schedule: str) -> None:
    """With many blocks and two steps: while tensor cores read a factor from registers, the next one must not overwrite it."""
    x, scale, w = (random(*shape).half() for shape in ((96, 25088), (25088, 1), (96, 96)))
    run = loaded(lambda x, scale, w: (x.t() * scale) @ w, [x, scale, w], f"prologue triton{{{schedule} k=64 stages=3}}")
    want = (x.double().t() * scale.double()) @ w.double()
    for _ in range(20):
        (found,) = run(x, scale, w)
        assert (found.double() - want).norm() < 2e-3 * want.norm()


def norm(x: Tensor, w: Tensor, r: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return (y := x @ w + r), F.layer_norm(y, g.shape, g)


@pytest.mark.parametrize("shift", [0.0, 300.0])
@pytest.mark.parametrize("schedule", ["triton{m=128 n=128 k=64 warps=8 stages=3}", "triton{m=64 n=64 k=64 warps=4 split=2}"])
def test_statistics_of_norms(schedule: str, shift: float) -> None:
    """Statistics are of the stored rows: their rounding is not part of the comparison."""
    inputs = [random(200, 72), random(72, 520) * 0.1, random(200, 520) + shift, random(520)]
    found, want = all_on_gpu(norm, inputs, schedule), norm(*(x.double() for x in inputs))
    assert (found[0].double() - want[0]).norm() < 1e-2 * want[0].norm()
    normed = F.layer_norm(found[0].double(), (520,), inputs[3].double())
    assert (found[1].double() - normed).norm() < 1e-2 * normed.norm()


def gradients(dy: Tensor, w: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    dx: Tensor = torch.ops.aten.gelu_backward(dy @ w, x)
    return dx, dx.sum(0)


@pytest.mark.parametrize("rows", [200, 2048])  # the sum of many is of parts of them
@pytest.mark.parametrize(
    "schedule", ["triton{m=128 n=128 k=64 warps=8 stages=3}", "triton{m=64 n=64 k=64 warps=4 split=2 resident=1}"]
)
def test_gradients_of_biases(schedule: str, rows: int) -> None:
    inputs = [random(rows, 72), random(72, 520) * 0.1, random(rows, 520)]
    found, want = all_on_gpu(gradients, inputs, schedule), gradients(*(x.double() for x in inputs))
    for one, other in zip(found, want, strict=True):
        assert (one.double() - other).norm() < 1e-2 * other.norm()


def chunked(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    value, gate = F.linear(x, w, b).chunk(2, -1)
    return F.gelu(gate) * value


@pytest.mark.parametrize("schedule", ["triton{m=128 n=64 k=64 warps=8 stages=3}", "triton{m=128 n=64 k=64 warps=8 joint=1}"])
def test_halves_of_one_weight(schedule: str) -> None:
    inputs = [random(200, 72), random(1024, 72) * 0.1, random(1024)]
    found, want = on_gpu(chunked, inputs, schedule), chunked(*(x.double() for x in inputs))
    assert (found.double() - want).norm() < 1e-2 * want.norm()
