"""Compares calls of operators through torch's dispatcher, without Python, with eager and float64 on a GPU."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from dispatcher_cases import Case, attention, convolution, convolutions, embeddings, others
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.core.program import Program
from lamina.runtime import cubins, spec
from lamina.runtime.executable import Executable


class _NoKernels:
    """The code of a program that only calls."""

    code, kernels, messages = cubins.join([]), (), ()

    def __init__(self) -> None:
        self.target = "nvvm:sm_{}{}".format(*torch.cuda.get_device_capability())


def executable(program: Program) -> Executable:
    return Executable(replace(program, device="cuda"), _NoKernels())


def python_refuses(*_: Any, **__: Any) -> None:
    raise AssertionError("the call went through Python")


def check(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare a program of the call with eager and float64, and see that it runs without Python."""
    results = case.eager()
    program = case.program(results)
    with monkeypatch.context() as patched:
        patched.setattr(spec, "overload", lambda *_: python_refuses)
        run = executable(program)
    case.check(run, results)


@pytest.fixture(autouse=True)
def _exact() -> Iterator[None]:
    """No tf32, algorithms that give the same numbers twice, and no gradients."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False), torch.no_grad():
        yield


@pytest.mark.parametrize("make", [convolutions, embeddings, others])
def test_calls_without_python(make: Callable[[str], Iterator[Case]], monkeypatch: pytest.MonkeyPatch) -> None:
    for case in make("cuda"):
        check(case, monkeypatch)


@pytest.mark.parametrize("name", ["flash", "efficient", "cudnn"])
@pytest.mark.parametrize("n", [1, 3, 127, 256])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_gradients_of_attention(name: str, n: int, causal: bool, biased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if biased and (name == "flash" or causal):
        pytest.skip("takes no bias")
    q, k, v = (torch.randn(2, n, 4, 64, device="cuda", dtype=torch.float16).transpose(1, 2) for _ in range(3))
    bias = torch.randn(2, 4, n, (n + 7) // 8 * 8, device="cuda", dtype=torch.float16)[..., :n] if biased else None
    try:
        case = attention(name, q, k, v, bias, causal)
        case.eager()
    except RuntimeError as error:
        pytest.skip(f"eager: {str(error).splitlines()[0]}")
    check(case, monkeypatch)


def test_on_a_stream_of_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    case = convolution((2, 6, 9, 7), (4, 6, 3, 3), device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        check(case, monkeypatch)


class _Net(nn.Module):
    """A convolution, attention and a table of embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.convolution = nn.Embedding(32, 64), nn.Conv2d(4, 4, 3, padding=1)
        self.heads, self.norm = nn.Linear(64, 192), nn.LayerNorm(64)

    def forward(self, words: Tensor) -> Tensor:
        x = self.norm(F.silu(self.convolution(self.table(words))))
        q, k, v = self.heads(x).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).square().mean()


@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_training_steps(cuda_graphs: bool) -> None:
    """Consecutive steps, so that graphs are recorded and replayed where possible."""
    with torch.enable_grad():
        net = _Net().cuda()
        exact = _Net().cuda().double()
        exact.load_state_dict(net.state_dict())
        step = torch.compile(net, backend="lamina", options={"cuda_graphs": cuda_graphs, "cache": False})
        for _ in range(8):
            words = torch.randint(0, 32, (2, 4, 16), device="cuda")
            net.zero_grad()
            exact.zero_grad()
            step(words).backward()
            exact(words).backward()
            for got, want in zip(net.parameters(), exact.parameters(), strict=True):
                assert got.grad is not None and want.grad is not None
                torch.testing.assert_close(got.grad.double(), want.grad, rtol=1e-3, atol=1e-4)
