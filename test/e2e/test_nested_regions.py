"""Tests `torch.compiler.nested_compile_region`, whose regions are fused with what surrounds them."""

import pytest
import torch
from entry_points import same
from torch import Tensor, nn

import lamina


@torch.compiler.nested_compile_region
def halved(x: Tensor) -> Tensor:
    return x * torch.tensor([0.5, 0.25]).repeat(4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8, eps=0.125)

    @torch.compiler.nested_compile_region
    def forward(self, x: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        return halved(self.norm(x) * scale) + x, x.amax(0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total = x.new_zeros(8)
        for block in self.blocks:
            x, greatest = block(x, 2.0)
            total = total + greatest
        return x, total


@pytest.mark.parametrize("grad", [False, True])
def test_nested_regions(grad: bool) -> None:
    model = Model()
    with torch.set_grad_enabled(grad):
        compiled = torch.compile(model, backend="lamina", dynamic=False, options={"cache": False, "strict": True})
        for rows in (5, 3):
            x = torch.randn(rows, 8, requires_grad=True)
            got, want = compiled(x), model(x)
            same(got, want)
            if grad:
                leaves = [x, *model.parameters()]
                mine, theirs = (torch.autograd.grad([t.sin().sum() for t in results], leaves) for results in (got, want))
                same(mine, theirs)


def test_they_are_fused() -> None:
    def model(x: Tensor) -> Tensor:
        return halved(halved(x.sin()) + 1)

    found = lamina.explain(model, torch.randn(3, 8), show=False)
    assert len(found.kernels) == 1 and not found.externals


def test_they_are_fused_for_all_sizes() -> None:
    @torch.compiler.nested_compile_region
    def region(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * y, x.exp()

    def model(x: Tensor) -> Tensor:
        a, b = region(x, x + 1)
        return region(a, b)[0]

    x = torch.randn(3, 8)
    compiled = torch.compile(model, backend="lamina", dynamic=True, options={"cache": False, "strict": True})
    same(compiled(x), model(x))
