"""Tests eight-bit floats, which Lamina kernels convert and move with the same bits as eager."""

import pytest
import torch
from gpu_programs import Simulated, distribute, tiled
from torch import Tensor

from lamina.core.program import Launch
from lamina.core.target import Target
from lamina.frontend.decompositions.ops import pointwise
from lamina.targets.nvvm.backend import NvvmBackend

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
EDGES = (
    0.0,
    -0.0,
    torch.inf,
    -torch.inf,
    torch.nan,
    447,
    448,
    449,
    463.9,
    464,
    464.1,
    480,
    57344,
    61439,
    61440,
    65536,
    1e30,
    2**-10,
)


def all_of(dtype: torch.dtype) -> Tensor:
    return torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)


def numbers(dtype: torch.dtype) -> Tensor:
    """Returns numbers of all magnitudes, all exact ones, and those half way between two of them."""
    exact = all_of(dtype).float()
    wide = torch.randn(2000) * 10 ** torch.linspace(-9, 6, 2000)
    return torch.cat([wide, torch.tensor(EDGES), exact, (exact[1:] + exact[:-1]) / 2])


def same(found: Tensor, want: Tensor) -> bool:
    """Asserts equality, except that NaNs may have other bits."""
    assert found.dtype == want.dtype and found.shape == want.shape
    a, b = found.float(), want.float()
    return bool(((a == b) & (a.signbit() == b.signbit()) | a.isnan() & b.isnan()).all())


def simulated(fn: object, *inputs: Tensor) -> tuple[list[Tensor], Simulated]:
    module, program = tiled(fn, inputs)  # type: ignore[arg-type]
    assert all(isinstance(step, Launch) for step in program.steps)
    distribute(module)
    made = Simulated(module, program)
    return made(*inputs), made


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_every_number(dtype: torch.dtype) -> None:
    def widened(x: Tensor) -> list[Tensor]:
        return [x.float(), x.bfloat16(), x.half()]

    def narrowed(*xs: Tensor) -> list[Tensor]:
        return [x.to(dtype) for x in xs]

    x = all_of(dtype)
    assert all(map(same, simulated(widened, x)[0], widened(x)))
    xs = (numbers(dtype), numbers(dtype).bfloat16(), numbers(dtype).half())
    assert all(map(same, simulated(narrowed, *xs)[0], narrowed(*xs)))


def test_quantized_rows() -> None:
    def quantize(x: Tensor) -> tuple[Tensor, Tensor]:
        scale = x.abs().amax(1, True).float() / 448
        return (x.float() / scale).clamp(-448, 448).to(E4M3), scale

    x = torch.randn(40, 88).bfloat16()
    (q, scale), made = simulated(quantize, x)
    want, wanted = quantize(x)
    assert (
        same(scale, wanted) and (q.float() - want.float()).abs().max() <= 32 and (q.float() != want.float()).float().mean() < 0.01
    )
    assert len(made.program.steps) == 1, "one kernel finds the scale and divides by it"


def test_moved() -> None:
    def moved(x: Tensor, y: Tensor) -> list[Tensor]:
        return [torch.cat([x.t(), y.view(40, 24)], 1), y.view(8, 3, 40)[:, ::2].contiguous()]

    x, y = torch.randn(24, 40).to(E4M3), torch.randn(24, 40).to(E4M3)
    assert all(map(same, simulated(moved, x, y)[0], moved(x, y)))


@pytest.mark.parametrize("name", ["sm_90a", "sm_80"])
def test_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_programs.TARGET", f"nvvm:{name}")
    module, _ = tiled(lambda x: [x.float() + 1, x.float().to(E5M2), torch.cat([x.t(), x.t()])], (torch.randn(40, 88).to(E4M3),))
    assert NvvmBackend(Target.parse(f"nvvm:{name}")).compile(module).code


def test_what_is_too_large_for_a_torch_that_makes_it_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "overflows", lambda: True)
    x = torch.tensor(EDGES)
    (found,), _ = simulated(lambda x: x.to(E4M3), x)
    assert torch.equal(found.isnan(), x.isnan() | (x.abs() > 464))
