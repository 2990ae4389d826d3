"""Tests forms of arguments that torch's decompositions refuse, or for which they give other types than eager."""

import pytest
import torch
from entry_points import ENTRY_POINTS
from pairs import pairwise
from torch import Tensor


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("index", [torch.tensor(1), torch.tensor(1, dtype=torch.int32)], ids=["int64", "int32"])
def test_indices_without_dimensions(entry_point: str, index: Tensor) -> None:
    def f(x: Tensor, i: Tensor) -> list[Tensor]:
        row = torch.full((1, x.shape[1]), 0.5)
        return [x.index_add(0, i, row, alpha=2), x.index_copy(0, i.long(), row), x.index_fill(0, i.long(), 3.0), x.take(i.long())]

    x = torch.randn(3, 5).requires_grad_()
    got, want = ENTRY_POINTS[entry_point](f, (x, index))(x, index), f(x, index)
    torch.testing.assert_close(got, want)
    weights = [torch.rand_like(y) for y in want]
    torch.testing.assert_close(torch.autograd.grad(got, x, weights), torch.autograd.grad(want, x, weights))


@pytest.mark.parametrize(
    ("dtype", "entry_point", "number"),
    pairwise([torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], [*ENTRY_POINTS], [True, -2, 1.7]),
)
def test_a_number_is_copied(entry_point: str, dtype: torch.dtype, number: float) -> None:
    def f(x: Tensor) -> Tensor:
        y = torch.cat([x, x])
        y[1:].copy_(number)  # type: ignore[arg-type]
        return y

    x = torch.ones(3, 5).to(dtype)
    torch.testing.assert_close(ENTRY_POINTS[entry_point](f, (x,))(x), f(x))


@pytest.mark.parametrize(
    ("dtype", "entry_point", "start"),
    pairwise([torch.float32, torch.float64, torch.int64, torch.int32], [*ENTRY_POINTS], [3, -7, 0]),
)
def test_numbers_below_zero_beside_constants(entry_point: str, dtype: torch.dtype, start: int) -> None:
    def f(x: Tensor) -> list[Tensor]:
        c = torch.full((3,), start, dtype=dtype)
        sums = [c + -3, c - (-3), -3 - c, c * -3, torch.add(c, -3, alpha=2), torch.add(c, 2, alpha=-2), torch.sub(c, c, alpha=-2)]
        parts = [c % -3, torch.fmod(c, -3), c // -3, torch.div(c, -3, rounding_mode="trunc"), torch.add(c, 1.5, alpha=-2)]
        return [y + x.to(y.dtype) for y in (*sums, *parts)]

    x = torch.arange(3.0)
    torch.testing.assert_close(ENTRY_POINTS[entry_point](f, (x,))(x), f(x))


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_truth_values_beside_numbers(entry_point: str) -> None:
    def f(x: Tensor, y: Tensor) -> list[Tensor]:
        return [x + True, x * True, torch.add(x, False), True // y, True + y, y * True]

    x, y = torch.tensor([True, False, True]), torch.tensor([2.0, -3.0, 0.5]).to(torch.bfloat16)
    torch.testing.assert_close(ENTRY_POINTS[entry_point](f, (x, y))(x, y), f(x, y))


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_softmax_backward_of_another_type(entry_point: str) -> None:
    """On a CPU the gradient of a half-precision input is f32, like the gradients that it is computed from."""

    def f(g: Tensor, y: Tensor) -> list[Tensor]:
        ops = (torch.ops.aten._softmax_backward_data, torch.ops.aten._log_softmax_backward_data)
        return [op(g, y, 1, torch.bfloat16) for op in ops]

    g, y = torch.randn(3, 1000), torch.randn(3, 1000).softmax(1)
    exact = [y.double() * (g.double() - (g * y.double()).sum(1, True)), g.double() - y.double().exp() * g.double().sum(1, True)]
    terms = [y * ((g * y).abs().sum(1, True) + g.abs()), g.abs() + y.exp() * g.abs().sum(1, True)]
    ulp = 2.0**-23  # of what is added up, whatever the order
    for mine, eager, right, size in zip(ENTRY_POINTS[entry_point](f, (g, y))(g, y), f(g, y), exact, terms, strict=True):
        assert mine.dtype == eager.dtype
        worst = (eager.double() - right).abs().max()
        assert ((mine.double() - right).abs() <= 1.5 * worst + 2 * ulp * size).all()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.bool], ids=str)
def test_integers_to_powers_that_are_none(dtype: torch.dtype) -> None:
    """torch-mlir's own power crashed the process when it converted narrow integers to floats."""
    x = torch.tensor([1, 2, 3, 5]).to(dtype)
    for power in (1.5, 0.5, -1.0):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x, n=power: x**n, backend="lamina", options={"cache": False})
        torch.testing.assert_close(compiled(x), x**power)
