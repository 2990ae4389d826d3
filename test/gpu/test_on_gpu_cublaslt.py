"""Products whose activation cuBLASLt computes, on a GPU."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lamina
from lamina.passes.families.gemm.library_epilogues import CUBLASLT
from lamina.tune.store.store import Store

Function = Callable[[Tensor, Tensor, Tensor], Tensor]


def after(activation: Callable[[Tensor], Tensor]) -> Function:
    return lambda x, w, b: activation(F.linear(x, w, b))


def inputs(dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor, Tensor]:
    made = (torch.randn(2, 96, 320, device="cuda"), torch.randn(200, 320, device="cuda"), torch.randn(200, device="cuda"))
    return made[0].to(dtype), made[1].to(dtype), made[2].to(dtype)


def pinned(model: Function, given: tuple[Tensor, Tensor, Tensor], file: Path, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """The results with cuBLASLt chosen, which tuning has measured and found right."""
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(file))
    lamina.compile(model, given, options={"tune": "quick", "cache": False})
    (record,) = Store().records()
    if "loses NaN" in dict(record.answer.dropped).get(CUBLASLT, ""):
        pytest.skip("cuBLASLt's ReLU loses NaN on this GPU, so it is not chosen")
    assert CUBLASLT in dict(record.answer.times), record.answer.dropped
    Store().pin(record.id, CUBLASLT)
    compiled = lamina.compile(model, given, options={"tune": "cached", "cache": False})
    made: Tensor = compiled(*given)
    found = lamina.explain(model, given, show=False, options={"tune": "cached"})
    assert [call.callee for call in found.externals] == ["aten._addmm_activation.default"] and not found.kernels
    return made


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("activation", [F.relu, partial(F.gelu, approximate="tanh")])
def test_activations(
    activation: Callable[[Tensor], Tensor], dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = inputs(dtype)
    found = pinned(after(activation), given, tmp_path / "store", monkeypatch).double()
    want, eager = after(activation)(*(x.double() for x in given)), after(activation)(*given).double()
    assert (found - want).norm() <= 1.5 * (eager - want).norm()


def test_nan_goes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, b = inputs()
    x[0, 3, 5] = float("nan")
    found = pinned(after(F.relu), (x, w, b), tmp_path / "store", monkeypatch)
    assert torch.equal(found.isnan(), F.linear(x, w, b).isnan())
