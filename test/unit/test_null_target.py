"""Tests the null target, which compiles everything and launches nothing."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

import lamina
from lamina.core.target import Target
from lamina.frontend.entry.dynamo import autograd
from lamina.frontend.entry.levels import levels

GPU = "null:nvvm:sm_90a"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.linear = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = F.relu(self.norm(self.convolution(x)))
        return self.linear(y.mean((2, 3))), y.transpose(1, 2)


@pytest.mark.parametrize("target", [GPU, "null:cpu"])
def test_results_are_laid_out_as_eager_has_them(target: str) -> None:
    model, x = Net().eval(), torch.randn(2, 3, 9, 9)
    compiled = lamina.compile(model, (x,), target=target, options={"cache": False})
    with torch.no_grad():
        for mine, right in zip(compiled(x), model(x), strict=True):
            assert (mine.shape, mine.dtype, mine.stride()) == (right.shape, right.dtype, right.stride()) and not mine.any()


def test_training_compiles_both_graphs() -> None:
    model, x = Net(), torch.randn(2, 3, 9, 9)

    def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return autograd(gm, inputs, options=lamina.Options(cache=False), target=GPU)

    torch._dynamo.reset()
    out, _ = torch.compile(model, backend=backend)(x)
    out.sum().backward()
    assert out.shape == (2, 10) and all(p.grad is not None and p.grad.shape == p.shape for p in model.parameters())


def test_what_is_compiled_is_what_the_target_runs() -> None:
    x = torch.randn(5, 70)
    texts = [dict(levels(torch.nn.Softmax(-1), (x,), target=target)) for target in (GPU, "nvvm:sm_90a")]
    assert texts[0]["ptx"] == texts[1]["ptx"] and texts[0]["tile"] == texts[1]["tile"]


def test_views_of_arguments_are_views() -> None:
    x = torch.randn(4, 6)
    found = lamina.compile(lambda x: (x.t(), x + 1), (x,), target=GPU, options={"cache": False})(x)
    assert torch.equal(found[0], x.t()) and found[0].data_ptr() == x.data_ptr() and not found[1].any()


def test_the_cache_tells_it_from_the_machine() -> None:
    null, machine = Target.parse("null:cpu"), Target.parse("cpu")
    assert null.identity != machine.identity and null.machine == machine and str(null) == "null:cpu"
    x = torch.randn(3, 3)
    assert not lamina.compile(torch.exp, (x,), target="null:cpu")(x).any()
    assert torch.allclose(lamina.compile(torch.exp, (x,), target="cpu")(x), x.exp())


def test_explain_times_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    found = lamina.explain(torch.exp, (torch.randn(3, 3),), target="null:cpu", measure=True, show=False)
    assert [kernel.seconds for kernel in found.kernels] == [None]


@pytest.mark.parametrize("text", ["null", "null:", "null:null:cpu"])
def test_null_of_nothing_and_of_null_are_none(text: str) -> None:
    with pytest.raises(lamina.CompileError, match=f"no target is called '{text}'"):
        Target.parse(text)
