"""Tests that graph passes keep a program's values, on inputs with NaN, infinities, denormals and -0.0."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from evaluated import evaluate
from linalg_runner import run
from torch_mlir import ir

from lamina.dialects import context
from lamina.passes.infra.base import Pass
from lamina.passes.simplify.cse import Cse
from lamina.passes.simplify.dce import Dce
from lamina.passes.simplify.demote_f64 import DemoteF64
from lamina.passes.simplify.fold_constants import FoldConstants
from lamina.passes.simplify.patterns.trace import to_linalg
from lamina.passes.simplify.rewrite_patterns import RewritePatterns
from lamina.passes.simplify.simplify import Simplify

f32, f64, bf16, i64 = torch.float32, torch.float64, torch.bfloat16, torch.int64
Case = tuple[Callable[..., Any], list[tuple[tuple[int, ...], torch.dtype]]]
EXACT: dict[str, Case] = {
    "identities": (lambda x: (-(-(x * 1 - 0.0) / 1)) / 4, [((3, 7), f32)]),
    "add_zero": (lambda x: (x + 0, torch.relu(x + 0), x.exp() + 0, (x + 0) * 2), [((5, 11), f32)]),
    "relu": (lambda x: torch.relu(torch.relu(x)) + x.clamp(min=-1).clamp(min=-1), [((13,), f32)]),
    "views": (lambda x, y: x.t().contiguous().t() + y[:, None].expand(3, 7) * y.view(3, 1), [((3, 7), f32), ((3,), f32)]),
    "heads": (lambda x: (x.view(2, 7, 3, 4).transpose(1, 2) + 1).transpose(1, 2).reshape(2, 7, 12) * 2, [((2, 7, 12), f32)]),
    "where": (lambda x: torch.where(torch.arange(9)[None, :] < 4, x, -1.0), [((3, 9), f32)]),
    "causal": (lambda x: x.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf), [((3, 9, 9), f32)]),
    "gather": (lambda x, i: x[:, i], [((3, 9, 4), f32), ((2,), i64)]),
    "onehot": (lambda i: F.one_hot(i, 5).float(), [((4,), i64)]),
    "ints": (lambda x: (x * 2 + x // 3 + (x // 4) * 1 + 0, x % 5, (x - 50) // 7), [((3, 9), i64)]),
    "bools": (lambda x: ((x > 0) & (x > 0), ~(~(x < 1)), (x > 0).any(1), (x == x).float()), [((3, 9), f32)]),
    "slices": (lambda x: torch.cat([x[:, 1:7:2], x[:, :2] * 1], 1) + F.pad(x[:, :4], (0, 1)), [((3, 9), f32)]),
    "softmax": (lambda x: torch.softmax(x, -1), [((3, 9), f32)]),
    "twice": (lambda x, y: torch.sin(x + y) * torch.sin(y + x), [((3, 9), f32), ((3, 9), f32)]),
    "constants": (lambda x: x * torch.tensor(2.0) + torch.arange(1, 8).float().sum(), [((3, 7), f32)]),
    "halves": (lambda x: x.float().exp().to(bf16).float() * 2 + x, [((3, 7), bf16)]),
    "doubles": (lambda x: (x * 0.1 + 3).floor(), [((3, 7), f64)]),
}  # fmt: skip
CLOSE: dict[str, Case] = {
    "powers": (lambda x: (x**2, x**3, x**4, x**-1, x**-2, x**0.5, x**-0.5), [((3, 7), f32)]),
    "variance": (lambda x: x.var(-1), [((3, 9), f32)]),
    "normalize": (lambda x: (x - x.mean()) / (x.std() + 1e-5), [((3, 9), f32)]),
    "norm": (lambda x: x / x.pow(2).sum(-1, keepdim=True).sqrt(), [((3, 9), f32)]),
    "gelu": (lambda x: F.gelu(x) + F.silu(x), [((3, 9), f32)]),
}
PASSES: list[Pass] = [DemoteF64(), FoldConstants(), Simplify(), RewritePatterns(), Cse(), Dce()]


def inputs(case: Case, special: bool) -> list[torch.Tensor]:
    made = []
    for shape, dtype in case[1]:
        x = torch.randint(0, 3, shape) if dtype == i64 else torch.randn(shape, dtype=f64).to(dtype)
        if special and dtype != i64:
            odd = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 0.0, 1e-40, 3e38], dtype=f64).to(dtype)
            flat = x.view(-1)
            flat[::2] = odd.repeat(flat.numel())[: flat[::2].numel()]
        made.append(x)
    return made


def values(module: ir.Module, xs: list[torch.Tensor]) -> list[np.ndarray]:
    arrays = [x.float().numpy() if x.dtype == bf16 else x.numpy() for x in xs]
    return evaluate(module.body.operations[0].operation, arrays)


def prepared(case: Case) -> tuple[str, ir.Module]:
    text = to_linalg(case[0], inputs(case, False), fused=False)
    return text, ir.Module.parse(text, context())


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Asserts equality, including NaN and the sign of zeros."""
    assert a.dtype == b.dtype and a.shape == b.shape
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    nan = np.isnan(a)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[~nan]), np.signbit(b[~nan]))


@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str) -> None:
    text, after = prepared(EXACT[name])
    for p in PASSES:
        p.run(after)
        assert after.operation.verify()
        for special in (False, True):
            xs = inputs(EXACT[name], special)
            for x, y in zip(values(ir.Module.parse(text, context()), xs), values(after, xs), strict=True):
                assert same(x, y), f"after {p.name}"


@pytest.mark.parametrize("name", CLOSE)
def test_close(name: str) -> None:
    _, after = prepared(CLOSE[name])
    for p in PASSES:
        p.run(after)
        assert after.operation.verify()
    xs = [x.abs() for x in inputs(CLOSE[name], False)]
    want = CLOSE[name][0](*(x.double() for x in xs))
    for x, y in zip(want if isinstance(want, tuple) else [want], values(after, xs), strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["views", "heads", "where", "ints", "softmax", "variance", "powers"])
def test_the_evaluator_agrees_with_the_machine(name: str) -> None:
    """The evaluator, which constant folding and these tests use, must agree with upstream's lowering about each op's meaning."""
    case = (EXACT | CLOSE)[name]
    xs = [x.abs() for x in inputs(case, False)]
    text, after = prepared(case)
    for p in PASSES:
        p.run(after)
    want = run(ir.Module.parse(text, context()), xs)
    for x, y in zip(want, values(after, xs), strict=True):
        np.testing.assert_allclose(y, x.numpy(), rtol=1e-5, atol=1e-6)


def test_passes_are_idempotent() -> None:
    case = EXACT["heads"]
    _, module = prepared(case)
    for p in PASSES + PASSES:
        p.run(module)
    once = str(module)
    for p in PASSES:
        p.run(module)
    assert str(module) == once


@pytest.mark.filterwarnings("error")
def test_folding_infinities_does_not_warn() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        logarithms = torch.arange(5).float().log()
        return x + logarithms + torch.stack([logarithms, -logarithms]).sum(0)

    _, module = prepared((function, [((3, 5), f32)]))
    for p in PASSES:
        p.run(module)
