"""Tests optimizers that are compiled whole: one call and one program for all parameters."""

from typing import Any

import pytest
import torch
from torch import nn

import lamina  # noqa: F401  # the backend's name

CASES: list[tuple[str, dict[str, Any]]] = [
    ("AdamW", {"foreach": True}),
    ("AdamW", {"foreach": False}),
    ("Adam", {"amsgrad": True, "foreach": True}),
    ("SGD", {"momentum": 0.9, "foreach": True}),
    ("RMSprop", {"foreach": True}),
]


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_steps_against_float64(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Powers of the decay are computed in f32, as in all of torch's compiled optimizers: 1 - 0.999 has few digits there."""
    monkeypatch.setenv("LAMINA_STRICT", "1")
    torch._dynamo.reset()
    torch.manual_seed(0)
    mine = nn.Sequential(nn.Linear(7, 13), nn.LayerNorm(13), nn.Linear(13, 5))
    exact = nn.Sequential(nn.Linear(7, 13), nn.LayerNorm(13), nn.Linear(13, 5)).double()
    exact.load_state_dict(mine.state_dict())
    x = torch.randn(4, 7)
    steps = []
    for model in (mine, exact):
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-2, **options)
        steps.append((model, optimizer, torch.compile(optimizer.step, backend="lamina") if model is mine else optimizer.step))
    for _ in range(3):
        for model, optimizer, step in steps:
            optimizer.zero_grad()
            model(x.to(next(model.parameters()).dtype)).square().sum().backward()
            step()
    for a, b in zip(mine.parameters(), exact.parameters(), strict=True):
        assert (a.double() - b).norm() <= 2e-5 * b.norm()
