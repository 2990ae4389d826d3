"""What a mask selects is overwritten, or added to, in a kernel of its surroundings: against eager."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor


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
