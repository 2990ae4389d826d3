"""Tests masked writes (`x[mask] = value`, `x[mask] += value`), which fuse with the ops around them, against eager."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def put(x: Tensor, at: tuple[Tensor | slice, ...], value: Tensor | float) -> Tensor:
    x = x.clone()
    x[at] = value  # type: ignore[assignment, index]
    return x


CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "a number": lambda x: put(x, (x > 0,), 7.5),
    "a sum": lambda x: put(x, (x > 0,), x.sum()),
    "columns": lambda x: put(x, (slice(None), x[0] > 0), x[:, :1]),
    "rows": lambda x: put(x, (x[:, 0] > 0,), x[0]),
    "rows of one": lambda x: put(x, (x[:, 0] > 0,), x[:1]),
    "beside a batch": lambda x: put(x.expand(2, 5, 33), (slice(None), x > 0), torch.tensor([[1.0], [2.0]])),
    "added": lambda x: x.clone().index_put_((x > 0,), torch.tensor(2.0), accumulate=True),
    "half types": lambda x: put(x.bfloat16(), (x > 0,), -torch.inf),
    "flags": lambda x: put(x > 1, (x < 0,), True),
    "integers": lambda x: put(torch.zeros(5, 33, dtype=torch.int64), (x > 0,), 7),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_masked_writes(name: str, dynamic: bool) -> None:
    fn, x = CASES[name], torch.randn(5, 33)
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="lamina", dynamic=dynamic, options={"cache": False, "strict": True})
    found, want = compiled(x), fn(x)
    torch.testing.assert_close(found, want)
    assert found.stride() == want.stride()


def test_gradients() -> None:
    def fn(x: Tensor) -> Tensor:
        return put(x * 2, (x > 0,), 0.0).square().sum()

    x = torch.randn(5, 33, requires_grad=True)
    torch._dynamo.reset()
    torch.compile(fn, backend="lamina", options={"cache": False, "strict": True})(x).backward()
    found, x.grad = x.grad, None
    fn(x).backward()
    torch.testing.assert_close(found, x.grad)


def test_an_argument_is_written_to() -> None:
    def fn(x: Tensor, mask: Tensor) -> None:
        x[mask] = 3.0

    x, want = torch.randn(5, 33), torch.randn(5, 33)
    want.copy_(x)
    torch._dynamo.reset()
    torch.compile(fn, backend="lamina", options={"cache": False, "strict": True})(x, x > 0)
    fn(want, want > 0)
    torch.testing.assert_close(x, want)


def _with(write: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return lambda x, mask, row: write(x * 2, mask, row).square()


LEARNED: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "assigned": _with(lambda x, mask, row: put(x, (mask,), row)),
    "with all columns": _with(lambda x, mask, row: put(x, (mask, slice(None)), row)),
    "beside a batch": _with(lambda x, mask, row: put(x, (slice(None), mask[0]), row.expand(5, 1, 33))),
    "as one row": _with(lambda x, mask, row: put(x, (mask,), row[None])),
    "in place": _with(lambda x, mask, row: x.clone().index_put_((mask,), row)),
    "a method": _with(lambda x, mask, row: x.index_put([mask], row)),
    "added": _with(lambda x, mask, row: torch.index_put(x, (mask,), row, accumulate=True)),
    "checkpointed": _with(
        lambda x, mask, row: checkpoint(lambda x, row: put(x, (mask,), row), x, row, use_reentrant=False)  # type: ignore[return-value]
    ),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", LEARNED)
def test_gradients_of_learned_rows(name: str, dynamic: bool) -> None:
    """One learned row is written to many positions (the token of masked pretraining): there is one graph, and no op runs in
    eager."""
    fn, mask = LEARNED[name], torch.rand(5, 7) > 0.5
    given = (torch.randn(5, 7, 33), torch.randn(33))
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="lamina", dynamic=dynamic, fullgraph=True, options={"cache": False, "strict": True})
    weights = torch.randn(5, 7, 33)
    results = []
    for run, dtype in ((compiled, torch.float32), (fn, torch.float64)):
        x, row = (t.detach().to(dtype).requires_grad_() for t in given)
        y = run(x, mask, row)
        (y * weights).sum().backward()
        results.append((y, x.grad, row.grad))
    torch.testing.assert_close(results[0], results[1], check_dtype=False)


def test_values_of_their_own_are_written() -> None:
    """As in torch, each element that the mask selects gets its own value."""

    def fn(x: Tensor, mask: Tensor, values: Tensor) -> Tensor:
        return put(x * 2, (mask,), values).square().sum()

    x, mask, values = torch.randn(5, 7), torch.rand(5, 7) > 0.5, torch.randn(35)
    values = values[: int(mask.sum())].requires_grad_()
    torch._dynamo.reset()
    torch.compile(fn, backend="lamina", options={"cache": False})(x, mask, values).backward()
    found, values.grad = values.grad, None
    fn(x, mask, values).backward()
    torch.testing.assert_close(found, values.grad)
