"""Tests torch's recurrent layers, compiled by `lamina.compile` (Dynamo does not capture them)."""

import copy
from collections.abc import Callable

import pytest
import torch
from ahead_of_time import ahead, x
from torch import Tensor, nn

KINDS = {
    "LSTM": lambda: nn.LSTM(5, 7, num_layers=2),
    "both ways, without biases": lambda: nn.LSTM(5, 7, bias=False, bidirectional=True, batch_first=True),
    "projections": lambda: nn.LSTM(5, 7, proj_size=3),
    "GRU": lambda: nn.GRU(5, 7),
    "RNN": lambda: nn.RNN(5, 7),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("grad", [False, True])
def test_recurrent_layers(name: str, grad: bool) -> None:
    model: nn.Module = KINDS[name]()
    exact = copy.deepcopy(model).double()
    a = x(4, 3, 5)
    with torch.set_grad_enabled(grad):
        compiled = ahead(model, a)
        for _ in range(2):
            mine, theirs, truth = (
                _results(run, of, v) for run, of, v in ((compiled, model, a), (model, model, a), (exact, exact, a.double()))
            )
            for one, other, want in zip(mine, theirs, truth, strict=True):
                bound = 4 * (other - want).abs().max() + 4 * torch.finfo(torch.float32).eps * want.abs().max()
                assert (one - want).abs().max() <= bound
            with torch.no_grad():
                for p, q in zip(model.parameters(), exact.parameters(), strict=True):
                    q.copy_(p.mul_(0.5))  # weights are read at each call


def _results(run: Callable[..., tuple[Tensor, object]], model: nn.Module, a: Tensor) -> list[Tensor]:
    """Returns the sequence that a layer returns and, in grad mode, the gradients of its weights."""
    out, _ = run(a)
    if not torch.is_grad_enabled():
        return [out]
    return [out.detach(), *torch.autograd.grad(out.sin().sum(), list(model.parameters()))]
