"""Tests errors that depend on values, raised by kernels as in eager: division of integers by zero, classes out of range."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pairs import pairwise
from torch import Tensor

import lamina

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
STRICT = {"cache": False, "strict": True}
Function = Callable[..., Tensor]


def compiled(fn: Function, dynamic: bool = False) -> Any:
    torch._dynamo.reset()
    return torch.compile(fn, backend="lamina", dynamic=dynamic, options=STRICT)


DIVISIONS: dict[str, Function] = {
    "floor": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
    "fmod": torch.fmod,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "of a number": lambda x, y: 7 // y + 7 % y,
    "mixed": lambda x, y: x.to(torch.int32) // y - x % y.to(torch.int64),
}


@pytest.mark.parametrize(("name", "dtype", "dynamic"), pairwise([*DIVISIONS], INTEGERS, [False, True]))
def test_integers_are_divided_in_kernels(name: str, dtype: torch.dtype, dynamic: bool) -> None:
    divide = DIVISIONS[name]
    x = torch.randint(-128, 128, (5, 37)).to(dtype)
    y = torch.randint(-6, 6, (5, 37)).to(dtype)
    y[y == 0] = 3
    run = compiled(divide, dynamic)
    torch.testing.assert_close(run(x, y), divide(x, y), rtol=0, atol=0)
    zero = y.clone()
    zero[3, 11] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(x, zero)
    torch.testing.assert_close(run(x, y), divide(x, y), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", INTEGERS[:4], ids=str)
def test_the_least_integer_divided_by_minus_one_wraps(dtype: torch.dtype) -> None:
    x = torch.full((9,), torch.iinfo(dtype).min, dtype=dtype)
    found = compiled(lambda x, y: x // y)(x, torch.full_like(x, -1))
    assert torch.equal(found, x)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: F.pad(x // y, (2, 3)),
        lambda x, y: torch.cat([x // y, x])[1:],
        lambda x, y: (x // y).cumsum(0),
        lambda x, y: (x % y).sum() + (x // y).amax(),
        lambda x, y: (x // y).flip(0).roll(3),
        lambda x, y: x[(x // y) % 4],
    ],
    ids=["pad", "cat", "scan", "reductions", "moves", "an index"],
)
def test_what_surrounds_a_division_needs_no_divisor(fn: Function) -> None:
    x, y = torch.randint(0, 100, (37,)), torch.randint(1, 9, (37,))
    run = compiled(fn)
    torch.testing.assert_close(run(x, y), fn(x, y), rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(x, y * (torch.arange(37) != 20))


def test_a_branch_divides_only_where_it_is_taken() -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x, y: x // y, lambda x, y: x + y, (x, y))

    x, y = torch.arange(1, 6), torch.tensor([1, 2, 0, 4, 5])
    run = compiled(fn)
    torch.testing.assert_close(run(x, y + 1), fn(x, y + 1))
    torch.testing.assert_close(run(-x, y), fn(-x, y))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(x, y)


@pytest.mark.parametrize("entry_point", ["torch.compile", "symbolic", "lamina.compile"])
def test_classes_are_checked_where_they_are_read(entry_point: str) -> None:
    def fn(x: Tensor, w: Tensor) -> Tensor:
        return F.one_hot(x, 5).to(torch.float32) @ w

    x, w = torch.tensor([[0, 4, 2], [1, 1, 3]]), torch.randn(5, 7)
    run = lamina.compile(fn, (x, w), options=STRICT) if entry_point == "lamina.compile" else compiled(fn, entry_point == "symbolic")
    with torch.no_grad():
        torch.testing.assert_close(run(x, w), fn(x, w))
        for wrong, message in ((5, "smaller than num_classes"), (-1, "non-negative")):
            outside = x.clone()
            outside[1, 1] = wrong
            with pytest.raises(RuntimeError, match=message):
                run(outside, w)
        torch.testing.assert_close(run(x, w), fn(x, w))


def test_an_assertion_of_what_nothing_reads_stays() -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        torch._assert_async((x > 0).all(), "all are positive")
        return y + 1

    x, y = torch.ones(3, dtype=torch.int64), torch.randn(4)
    torch._dynamo.reset()
    run = torch.compile(fn, backend="lamina", options={"cache": False})
    torch.testing.assert_close(run(x, y), y + 1)
    with pytest.raises(RuntimeError, match="all are positive"):
        run(x - 1, y)


def test_complex_numbers_are_divided_by_zero() -> None:
    """Dividing them by zero raises no error, although torch does not count them as floating-point numbers."""
    x, y = torch.randn(7, dtype=torch.complex64), torch.tensor([0.0, 1, 2, 0, 3, 4, 5])
    found, eager = compiled(torch.div)(x, y), x / y
    assert torch.equal(found.isfinite(), eager.isfinite())
    torch.testing.assert_close(found[y != 0], eager[y != 0])


READS: dict[str, Function] = {
    "index": lambda x, i: x[i],
    "index of the last": lambda x, i: x[:, i],
    "two": lambda x, i: x[i, i],
    "one": lambda x, i: x[i[1]],
    "index_select": lambda x, i: x.index_select(-1, i),
    "gather": lambda x, i: x.gather(1, i.expand(5, 3)),
    "take": lambda x, i: x[0].take(i),
    "embedding": lambda x, i: F.embedding(i, x),
}


@pytest.mark.parametrize(
    ("name", "dtype", "dynamic"), pairwise([*READS], [torch.float32, torch.bfloat16, torch.bool, torch.uint8], [False, True])
)
def test_indices_into_uniform_tensors_are_checked(name: str, dtype: torch.dtype, dynamic: bool) -> None:
    def fn(i: Tensor) -> list[Tensor]:
        return [READS[name](torch.full((5, 5), number, dtype=dtype), i) for number in (0, 1)]

    run = compiled(fn, dynamic)
    inside, outside = torch.tensor([0, 4, 2]), torch.tensor([0, 5, 2])
    for got, want in zip(run(inside), fn(inside), strict=True):
        assert got.dtype == want.dtype and torch.equal(got, want)
    with pytest.raises(IndexError):
        run(outside)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "symbolic"])
def test_numbers_of_repetitions_are_checked(dynamic: bool) -> None:
    run = compiled(lambda x, n, size: x.repeat_interleave(n, 0, output_size=size) * 2, dynamic)
    x = torch.randn(4, 3)
    for counts in ((2, 3, 0, 4), (0, 0, 5, 4), (9, 0, 0, 0)):
        assert torch.equal(run(x, n := torch.tensor(counts), 9), x.repeat_interleave(n, 0) * 2)
    for counts, message in (
        ((2, 3, 0, 5), "does not match"),
        ((2, 3, 0, 2), "does not match"),
        ((2, 3, -1, 5), "can not be negative"),
    ):
        with pytest.raises(RuntimeError, match=message):
            run(x, torch.tensor(counts), 9)
