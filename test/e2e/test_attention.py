"""Attention that models write out, through both front doors, against float64."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from attention_forms import FORMS, Form, Model, casts, filled_from_inputs, inputs, llama, minus_infinity_from_inputs
from oracle import compare
from torch import Tensor

import lamina

OPTIONS = {"strict": True, "cache": False}
F32_INSIDE = (llama, casts)


def compiled(form: Callable[..., Any], given: tuple[Tensor, ...], door: str) -> Callable[..., Any]:
    if door == "compile":
        return lamina.compile(Model(form), given, options=OPTIONS)
    torch._dynamo.reset()
    return torch.compile(Model(form), backend="lamina", options=OPTIONS)


def gradients(run: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """The result, and the gradients of the first three tensors where that of the result is the fifth."""
    q, k, v = (t.detach().clone().requires_grad_() for t in tensors[:3])
    out = run(q, k, v, tensors[3])
    return [out, *torch.autograd.grad(out, (q, k, v), tensors[4].to(out.dtype))]


@pytest.mark.parametrize("door", ["compile", "torch.compile"])
@pytest.mark.parametrize(("rows", "columns", "dtype"), [(3, 127, torch.float32), (127, 3, torch.bfloat16), (1, 3, torch.float32)])
@pytest.mark.parametrize("form", FORMS)
def test_values(form: Form, rows: int, columns: int, dtype: torch.dtype, door: str) -> None:
    given = inputs(dtype, rows, columns)
    with torch.no_grad():
        compare(form, given, [compiled(form, given, door)(*given)])


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        (form, dtype)
        for dtype in (torch.float32, torch.bfloat16, torch.float64)
        for form in FORMS
        if form not in F32_INSIDE or dtype.itemsize < 8
    ],
)
def test_gradients(form: Form, dtype: torch.dtype) -> None:
    given = inputs(dtype, 7, 7)
    run = compiled(form, given, "torch.compile")

    grad = torch.randn(form(*given).shape)
    compare(lambda *tensors: gradients(form, tensors), (*given, grad), gradients(run, (*given, grad)), ulps=8)


@pytest.mark.parametrize("door", ["compile", "torch.compile"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_hidden_by_infinity_are_nan(dtype: torch.dtype, door: str) -> None:
    """As in eager, with gradients that are NaN wherever eager's are; fused kernels have zeros."""
    given = inputs(dtype)
    given[3][1] = -1.0
    with torch.no_grad():
        found = compiled(minus_infinity_from_inputs, given, door)(*given)
    assert found[1].isnan().all()
    compare(minus_infinity_from_inputs, given, [found])
    given = (*given, torch.ones(given[0].shape))
    ours = gradients(compiled(minus_infinity_from_inputs, given[:4], door), given)
    for mine, eager in zip(ours, gradients(minus_infinity_from_inputs, given), strict=True):
        assert bool((mine.isnan() | ~eager.isnan()).all())


def added(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT + m).softmax(-1) @ v


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", [added, filled_from_inputs])
@pytest.mark.parametrize("low", [-math.inf, None, -1e9])
def test_rows_hidden_as_a_whole(form: Form, low: float | None, dtype: torch.dtype) -> None:
    given = inputs(dtype)
    given[3][1] = torch.finfo(dtype).min if low is None else low
    with torch.no_grad():
        compare(form, given, [compiled(form, given, "compile")(*given)])
