"""Tests fake quantization in strict mode: eager's values bit by bit, and its gradients, which are 0 outside the range."""

from collections.abc import Callable

import pytest
import torch
from pairs import pairwise
from torch import Tensor

INF, NAN = float("inf"), float("nan")
SCALE, ZERO = torch.tensor([0.05]), torch.tensor([3], dtype=torch.int32)
SCALES, ZEROS = torch.tensor([0.1, 0.037, 2.5]), torch.tensor([0, -4, 7], dtype=torch.int32)

CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "numbers": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.037, 3, -128, 127),
    "tensors": lambda x: torch.fake_quantize_per_tensor_affine(x, SCALE, ZERO, 0, 255),
    "channels": lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, ZEROS, 0, -127, 127),
    "last channels": lambda x: torch.fake_quantize_per_channel_affine(x.t() * 2, SCALES, ZEROS, -1 % 2, -8, 7),
    "switched off": lambda x: torch.fused_moving_avg_obs_fake_quant(
        x, torch.tensor(0), torch.tensor(0), torch.tensor(-1.0), torch.tensor(1.0), SCALE.clone(), ZERO.clone(), 0.01, 0, 255, -1
    ),
}


@pytest.mark.parametrize(("case", "columns", "dynamic"), pairwise([*CASES], [1, 127], [False, True]))
def test_fake_quantization(case: str, columns: int, dynamic: bool) -> None:
    function, x = CASES[case], torch.randn(3, columns) * 8
    x[:, 0] = torch.tensor([INF, -INF, NAN])
    torch._dynamo.reset()
    compiled = torch.compile(
        function, backend="lamina", dynamic=dynamic, options={"cache": False, "strict": case != "switched off"}
    )
    mine, eager = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, want = compiled(mine), function(eager)
    assert torch.equal(found.nan_to_num(), want.nan_to_num()) and (columns == 1 or found.stride() == want.stride())
    weights = torch.randn_like(want)
    assert torch.equal(*(torch.autograd.grad(y, a, weights)[0] for y, a in ((found, mine), (want, eager))))
