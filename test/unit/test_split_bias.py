"""Tests biases of products of f32 on GPUs: where Lamina's kernels add them, and that the results are equal."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distributed
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from lamina.core.options import Options
from lamina.core.program import Call, Launch
from lamina.frontend.compiling.stages import build
from lamina.frontend.decompositions.table import table
from lamina.frontend.importing import externs

ADDMM, MM = "aten.addmm.default", "aten.mm.default"


SMALL = ((5, 24), (40, 24), (40,), (16, 40), (16,))


def steps(
    fn: Callable[..., Any],
    dtype: torch.dtype = torch.float32,
    device: str = "cuda",
    target: str = "nvvm:sm_90a",
    shapes: tuple[tuple[int, ...], ...] = SMALL,
) -> list[str]:
    """What the program for a function of two linear layers' tensors calls, and "launch" for each kernel."""
    with FakeTensorMode(), torch.no_grad():
        gm = make_fx(fn, decomposition_table=table())(*(torch.empty(s, dtype=dtype, device=device) for s in shapes))
    program = build(gm, options=Options(cache=False, tune="off"), target=target).program
    return [s.callee if isinstance(s, Call) else "launch" for s in program.steps if isinstance(s, Call | Launch)]


def two_layers(x: Tensor, w: Tensor, b: Tensor, v: Tensor, c: Tensor) -> Tensor:
    return F.linear(F.relu(F.linear(x, w, b)), v, c)


def test_a_bias_that_something_follows_is_added_by_its_kernel() -> None:
    assert steps(two_layers) == [MM, "launch", ADDMM]


def test_a_product_with_two_readers_has_its_bias_added_by_both_or_in_the_call() -> None:
    assert steps(lambda x, w, b, v, c: ((y := F.linear(x, w, b)).sin(), y.sum(0))) == [MM, "launch"]
    assert MM not in steps(lambda x, w, b, v, c: ((y := F.linear(x, w, b)), y.sin()))


@pytest.mark.parametrize(("rows", "columns", "wanted"), [(64, 768, [MM, "launch"]), (4096, 768, [ADDMM]), (64, 16384, [ADDMM])])
def test_a_bias_of_few_tiles_is_added_by_a_kernel(rows: int, columns: int, wanted: list[str]) -> None:
    shapes = ((rows, 768), (columns, 768), (columns,), (1, 1), (1,))
    assert steps(lambda x, w, b, v, c: F.linear(x, w, b), shapes=shapes) == wanted


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_keep_the_bias_in_the_call(dtype: torch.dtype) -> None:
    assert MM not in steps(two_layers, dtype)


def test_the_cpu_keeps_the_bias_in_the_call() -> None:
    assert steps(two_layers, device="cpu", target="cpu") == [ADDMM, "launch", ADDMM]


def test_products_that_round_to_tf32_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(externs, "rounds_to_tf32", lambda: True)
    assert MM not in steps(two_layers)


@pytest.mark.parametrize("rows", [0, 1, 3, 127])
@pytest.mark.parametrize("columns", [1, 3, 64])
def test_values(rows: int, columns: int) -> None:
    def model(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.gelu(F.linear(x, w, b).view(-1, 1, columns)).transpose(0, 2) * 2

    inputs = torch.randn(rows, 7), torch.randn(columns, 7), torch.randn(columns)
    program = Simulated(*distributed(model, inputs))
    assert ADDMM not in [s.callee for s in program.program.steps if isinstance(s, Call)]
    want = [model(*(t.double() for t in inputs))] if rows else []  # no program computes what is empty
    torch.testing.assert_close([found.double() for found in program(*inputs)], want, rtol=1e-5, atol=1e-5)
