"""Tests ops on tensors filled with one number, which are computed at compile time, and numbers that a half type rounds."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

FLOATS = [torch.bfloat16, torch.float16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BINARY: list[Callable[[Any, Any], Any]] = [
    *COMPARISONS, operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.and_, operator.xor, torch.fmod, torch.pow, torch.rsub, torch.maximum, torch.copysign, torch.atan2,
    lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    lambda a, b: torch.where(b < 0, -a, b),
    lambda a, b: torch.sqrt(torch.abs(a)) + torch.round(a / 2) * b,
    lambda a, b: torch.as_tensor(a * 2).to(torch.int32) // 3 - b,
    lambda a, b: torch.as_tensor(a < 1).clone() | (a == b),
]  # fmt: skip
FORMS: list[Callable[[Tensor, float], tuple[Any, Any]]] = [
    lambda x, n: (x, n),
    lambda x, n: (n, x),
    lambda x, n: (x, torch.full((3,), n)),
    lambda x, n: (torch.full((1,), n, dtype=x.dtype), x[1:]),
]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool], ids=str)
def test_uniform_operands(dtype: torch.dtype, rng: np.random.Generator) -> None:
    filling = rng.permutation([0, 3, 100, 2, 0.5, -0.75, -3] if dtype.is_floating_point else [0, 3, 100, 2, -3])
    cases, want = [], []
    for op in BINARY:
        for form in FORMS:
            drawn = filling[rng.integers(len(filling))], rng.choice([1.5, -2, 3, 0, 0.5]), bool(rng.integers(2))
            value, number = drawn[0].item() if dtype.is_floating_point else int(drawn[0]), drawn[1].item()
            case = op, form, abs(value) if dtype is torch.uint8 else value, int(number) if drawn[2] else number
            result = _eager(*case, dtype)
            if result is not None:
                cases.append(case)
                want.append(result)

    def f() -> list[Tensor]:
        return [op(*form(torch.full((3,), value, dtype=dtype), number)) for op, form, value, number in cases]

    for case, got, right in zip(cases, torch.compile(f, backend="lamina", dynamic=False)(), want, strict=True):
        bound = torch.finfo(got.dtype).eps if got.dtype.is_floating_point else 0
        torch.testing.assert_close(got, right, rtol=bound, atol=0, equal_nan=True, msg=lambda m, case=case: f"{case}: {m}")


def _eager(op: Any, form: Any, value: float, number: float, dtype: torch.dtype) -> Tensor | None:
    """Returns eager's result; None for what it refuses."""
    try:
        result = op(*form(torch.full((3,), value, dtype=dtype), number))
    except (RuntimeError, TypeError):
        return None
    return result if isinstance(result, Tensor) else None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("number", [0.1, -0.3, 1 / 3, 4099, 1e6])
def test_comparisons_round_numbers(dtype: torch.dtype, number: float) -> None:
    x = torch.cat([torch.tensor([number]), torch.randn(7), torch.tensor([float("nan"), float("inf")])]).to(dtype)
    x[1] = torch.nextafter(x[0].float(), torch.tensor(0.0)).to(dtype)

    def f(x: Tensor) -> list[Tensor]:
        beside = torch.tensor(number), torch.tensor(number, dtype=torch.float64)
        return [op(*pair) for op in COMPARISONS for n in (number, *beside) for pair in ((x, n), (n, x))]

    for got, want in zip(torch.compile(f, backend="lamina")(x), f(x), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_with_numbers_that_change(op: Callable[..., Tensor], dtype: torch.dtype) -> None:
    x = torch.randn(7).to(dtype)

    def f(x: Tensor, number: float) -> list[Tensor]:
        return [op(x, number), op(number, x), op(x.float(), number)]

    compiled = torch.compile(f, backend="lamina")
    for number in (0.1, 0.3, 1 / 3, -0.7):
        x[1] = number
        for got, want in zip(compiled(x, number), f(x, number), strict=True):
            assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_converted_constants_are_compared(dtype: torch.dtype) -> None:
    def f(x: Tensor) -> list[Tensor]:
        return [1.5 // x, 1.5 // x.float(), 3 // (x * 0 + 2)]

    x = torch.tensor([0.3, 2, -3]).to(dtype)
    for got, want in zip(torch.compile(f, backend="lamina")(x), f(x), strict=True):
        assert torch.equal(got, want)
