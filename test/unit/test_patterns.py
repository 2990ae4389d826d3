"""Tests lamina-rewrite-patterns: which graphs match, which do not, and that values stay the same."""

import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from evaluated import evaluate
from linalg_runner import run
from torch_mlir import ir

from lamina.dialects import context
from lamina.passes.ir.rewriting import tensor_blocks
from lamina.passes.simplify.dce import Dce
from lamina.passes.simplify.demote_f64 import DemoteF64
from lamina.passes.simplify.matching.rule import Rule
from lamina.passes.simplify.matching.rule_set import RuleSet
from lamina.passes.simplify.patterns.trace import to_linalg, traced
from lamina.passes.simplify.rewrite_patterns import RewritePatterns
from lamina.passes.simplify.simplify import Simplify

Function = Callable[..., Any]
SPECIAL = torch.tensor([0.0, -0.0, 1e-40, -1e-40, 88.0, -88.0, 1e20, -1e20, torch.inf, -torch.inf, torch.nan])


def module(function: Function, *inputs: torch.Tensor, fused: bool = False) -> ir.Module:
    return ir.Module.parse(to_linalg(function, inputs, fused=fused), context())


def main(m: ir.Module) -> ir.Operation:
    return m.body.operations[0].operation


def marks(m: ir.Module) -> list[str]:
    found = []
    for op in main(m).regions[0].blocks[0].operations:
        if "graph.pattern" in op.operation.attributes:
            found.append(op.operation.attributes["graph.pattern"].value)
    return found


def values(m: ir.Module, *inputs: torch.Tensor) -> np.ndarray:
    return evaluate(main(m), [x.float().numpy() if x.dtype == torch.bfloat16 else x.numpy() for x in inputs])[0]


def gelu_new(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


def rms(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


ELEMENTWISE: dict[str, list[Function]] = {
    "gelu_erf": [
        lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)),
        lambda x: x * (torch.erf(x * 0.7071) + 1) * 0.5,
        lambda x: (1 + torch.erf(0.70710678 * x)) * (x / 2),
        lambda x: x * (0.5 * (1.0 + torch.erf(x / 1.41421356237))),
        lambda x: -x * (1 + torch.erf(x * 0.7071067811865476)) * -0.5,
        lambda x: torch.nn.functional.gelu(x),
        lambda x: (lambda y: 0.5 * y * (1 + torch.erf(y * 0.7071067811865476)))(x + 1),
        lambda x: (lambda y: 0.5 * y * (1 + torch.erf(y * 0.7071067811865476)))(x * 3),
        lambda x: (lambda y: 0.5 * y * (1 + torch.erf(y * 0.7071067811865476)))(x * x.exp()),
    ],
    "gelu_tanh": [
        gelu_new,
        lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3))),
        lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x))),
        lambda x: x * 0.5 * (torch.tanh((x * x * x * 0.044715 + x) * 0.7978845) + 1.0),
        lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))),
    ],
    "silu": [
        lambda x: x * torch.sigmoid(x),
        lambda x: torch.sigmoid(x) * x,
        lambda x: x / (1 + torch.exp(-x)),
        lambda x: x / (torch.exp(x * -1.0) + 1.0),
        lambda x: torch.nn.functional.silu(x),
        lambda x: x * (0.5 * torch.tanh(x * 0.5) + 0.5),
    ],
}
ROWS: dict[str, list[Function]] = {
    "rms_norm": [
        rms,
        lambda x: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt(),
        lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6),
        lambda x: x / ((x**2).sum(-1, keepdim=True) / x.shape[-1] + 1e-6).sqrt(),
        lambda x: x * ((x**2).mean(-1) + 1e-6).pow(-0.5)[..., None],
        lambda x: (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x),
    ],
    "layer_norm": [
        lambda x: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5),
        lambda x: (lambda d: d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5))(x - x.mean(-1, keepdim=True)),
    ],
}
NOT: list[Function] = [
    lambda x: 0.5 * x * (1 + torch.erf(x * 0.7)),
    lambda x: x * (1 + torch.erf(x * 0.70710678)),
    lambda x: 0.5 * x * (1 - torch.erf(x * 0.70710678)),
    lambda x: 0.5 * x * (1 + torch.erf(x.flip(0) * 0.70710678)),
    lambda x: x * torch.sigmoid(-x),
    lambda x: x * torch.sigmoid(2 * x),
    lambda x: x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-6),
    lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6),
    lambda x: torch.softmax(x, -1),
]


def cases(table: dict[str, list[Function]]) -> list[tuple[str, Function]]:
    return [(name, function) for name, functions in table.items() for function in functions]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("name", "function"), cases(ELEMENTWISE))
def test_elementwise_matches(name: str, function: Function, fused: bool) -> None:
    x = torch.cat([torch.randn(40), SPECIAL])
    m = module(function, x, fused=fused)
    DemoteF64().run(m)
    Simplify().run(m)
    RewritePatterns().run(m)
    Dce().run(m)
    assert marks(m) == [name]
    got, want = values(m, x), function(x.double())
    usual = slice(0, 40)
    np.testing.assert_allclose(got[usual], want[usual], rtol=1e-4, atol=2e-6)
    assert np.array_equal(np.isnan(got), np.isnan(want.numpy()))


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 1, 3, 7)])
@pytest.mark.parametrize(("name", "function"), cases(ROWS))
def test_rows_match(name: str, function: Function, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape) * 3 + 1
    m = module(function, x)
    DemoteF64().run(m)
    Simplify().run(m)
    RewritePatterns().run(m)
    Dce().run(m)
    assert set(marks(m)) == {name}
    np.testing.assert_allclose(values(m, x), function(x.double()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", NOT)
def test_near_misses_do_not_match(function: Function) -> None:
    m = module(function, torch.randn(5, 7))
    Simplify().run(m)
    RewritePatterns().run(m)
    assert marks(m) == []


def test_before_other_passes_and_through_the_machine() -> None:
    """Patterns run on the importer's output; upstream's lowering to loops computes the results before and after."""
    x = torch.cat([torch.randn(24), SPECIAL[:8]]).reshape(4, 8)
    want = run(module(gelu_new, x), [x])[0]
    m = module(gelu_new, x)
    RewritePatterns().run(m)
    Dce().run(m)
    assert marks(m) == ["gelu_tanh"] and "math.tanh" not in str(m)
    torch.testing.assert_close(run(m, [x])[0], want, rtol=1e-5, atol=1e-6)


def test_bf16_computes_in_f32() -> None:
    x = torch.randn(64).bfloat16()
    m = module(lambda x: x * 0.5 * (1 + torch.erf(x * 0.7071067811865476)), x)
    RewritePatterns().run(m)
    Dce().run(m)
    assert marks(m) == ["gelu_erf"]
    want = torch.nn.functional.gelu(x.double())
    np.testing.assert_allclose(values(m, x), want, rtol=2**-8, atol=1e-6)


def test_results_used_elsewhere_are_not_computed_twice() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        s = torch.sigmoid(x)
        return x * s, s

    m = module(function, torch.randn(8))
    RewritePatterns().run(m)
    assert marks(m) == []


def test_locations_of_what_was_matched_are_kept() -> None:
    m = module(gelu_new, torch.randn(8))
    RewritePatterns().run(m)
    Dce().run(m)
    block = main(m).regions[0].blocks[0]
    found = next(op.operation for op in block.operations if op.operation.name == "linalg.generic")
    assert isinstance(found.location, ir.FusedLoc) and len(found.location.locations) >= 7


def rewrite(m: ir.Module, rule: Rule) -> None:
    with m.context, ir.Location.unknown():
        rules = RuleSet.parse(traced((rule,)))
        for block in list(tensor_blocks(m)):
            rules.apply(block)


def test_rules_of_your_own() -> None:
    """log(1 + exp(x)) becomes softplus without overflow, a weight applies to rows, and a number matches the pattern's float."""

    def pattern(x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + torch.exp(x))

    def stable(x: torch.Tensor) -> torch.Tensor:
        return torch.maximum(x, torch.zeros_like(x)) + torch.log1p(torch.exp(-torch.abs(x)))

    x = torch.linspace(-200, 200, 41)
    m = module(lambda x: 2 * torch.log(torch.exp(x) + 1), x)
    rewrite(m, Rule(pattern, stable, "softplus"))
    Dce().run(m)
    assert marks(m) == ["softplus"]
    np.testing.assert_allclose(values(m, x), 2 * torch.nn.functional.softplus(x.double()), rtol=1e-5, atol=1e-30)


def test_a_rule_with_a_number() -> None:
    def pattern(x: torch.Tensor, a: float) -> torch.Tensor:
        return x * torch.sigmoid(x * a)

    def replacement(x: torch.Tensor, a: float) -> torch.Tensor:
        return x / (1 + torch.exp(-(x * a)))

    x = torch.randn(33)
    m = module(lambda x: x * torch.sigmoid(1.702 * x), x)
    rewrite(m, Rule(pattern, replacement, "gelu_quick"))
    Dce().run(m)
    assert marks(m) == ["gelu_quick"]
    np.testing.assert_allclose(values(m, x), x.double() * torch.sigmoid(1.702 * x.double()), rtol=1e-5)


def test_two_tensors() -> None:
    """SwiGLU: a rule with two tensors, one of them broadcast."""

    def pattern(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x) * y

    def replacement(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y / (1 + torch.exp(-x))

    x, y = torch.randn(5, 7), torch.randn(7)
    m = module(lambda x, y: y * (torch.sigmoid(x) * x), x, y)
    rewrite(m, Rule(pattern, replacement, "swiglu"))
    Dce().run(m)
    assert marks(m) == ["swiglu"]
    want = x.double() * torch.sigmoid(x.double()) * y.double()
    np.testing.assert_allclose(values(m, x, y), want, rtol=1e-5, atol=1e-7)


def test_library_is_up_to_date(run_module: list[str]) -> None:
    done = subprocess.run([*run_module, "lamina.passes.simplify.patterns.trace", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run python -m lamina.passes.simplify.patterns.trace: {done.stdout}{done.stderr}"
