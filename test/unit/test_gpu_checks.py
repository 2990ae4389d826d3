"""Tests indices out of range on a GPU: a device assertion, as in eager, whose text names the model's line and the kernel."""

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import TARGET, Simulated, distributed, tiled
from gpu_simulator import Fault
from torch import Tensor

from lamina.core.target import Target
from lamina.targets import backend


def looked_up(at: Tensor, table: Tensor) -> Tensor:
    return F.embedding(at, table) * 2


@pytest.mark.parametrize("wrong", [100, -1, 1 << 40])
@pytest.mark.parametrize("fn", [looked_up, lambda i, w: w[i], lambda i, w: w.index_select(0, i), lambda i, w: w[:, 0].gather(0, i)])
def test_an_index_out_of_range_stops_the_kernel(fn: object, wrong: int) -> None:
    if wrong == -1 and fn.__name__ == "<lambda>":  # type: ignore[attr-defined]
        wrong = -101  # these count from the end
    at, table = torch.randint(0, 100, (37,)), torch.randn(100, 8)
    program = Simulated(*distributed(fn, [at, table]))  # type: ignore[arg-type]
    program(at, table)
    at[31] = wrong
    with pytest.raises(Fault, match="assertion failed: index out of range: expected .* < 100"):
        program(at, table)


@pytest.mark.parametrize("last", ["", "lamina-route-to-triton"], ids=["by LLVM", "by Triton"])
def test_what_the_driver_calls_is_in_the_code(last: str) -> None:
    module, _ = tiled(looked_up, [torch.randint(0, 100, (37,)), torch.randn(100, 64)], last=last)
    made = backend(Target.parse(TARGET)).compile(module)
    assert "call.uni __assertfail" in " ".join(made.ptx.split()) or "__assertfail, (" in " ".join(made.ptx.split())
    text = ", ".join(str(ord(c)) for c in "index out of range")
    assert text.replace(" ", "") in made.ptx.replace(" ", "") or "index out of range" in made.ptx
    (needs,) = made.resources
    assert needs.spill_loads == needs.spill_stores == 0


def test_kernels_without_checks_call_nothing() -> None:
    module, _ = tiled(lambda a: a.relu() + 1, [torch.randn(100, 64)])
    assert "__assertfail" not in backend(Target.parse(TARGET)).compile(module).ptx


def test_a_check_of_values_stops_the_kernel() -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return F.pad(x // y, (1, 2))  # tensors in a host's memory, where a division by zero is an error

    x, y = torch.randint(-50, 50, (37,)), torch.randint(1, 7, (37,))
    program = Simulated(*distributed(fn, [x, y]))
    torch.testing.assert_close(program(x, y)[0], fn(x, y))
    y[31] = 0
    with pytest.raises(Fault, match="ZeroDivisionError"):
        program(x, y)
