"""Tests users' kernels for graph patterns: where they match, through both entry points, and where they do not."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from custom_kernels import TARGET, compiled, launches, planned, run
from torch import Tensor, fx

import lamina
from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.frontend.compiling import stages
from lamina.frontend.entry.dynamo import autograd
from lamina.frontend.entry.export import inference_graph

BF16 = torch.bfloat16


@triton.jit
def gated_kernel(x_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    w = tl.load(w_ptr + at, mask=at < n).to(tl.float32)
    tl.store(out_ptr + at, x / (1 + tl.exp(-x)) * w, mask=at < n)


def gated(x: Tensor, w: Tensor) -> Tensor:
    return F.silu(x) * w


def gated_of(**changes: Any) -> lamina.CustomKernel:
    given: dict[str, Any] = {
        "pattern": gated,
        "example_inputs": (torch.empty(4, 8), torch.empty(4, 8)),
        "kernel": gated_kernel,
        "when": lambda x, w: x.shape == w.shape and x.is_contiguous() and w.is_contiguous(),
        "arguments": lambda x, w, out: (x, w, out, x.numel()),
        "grid": lambda x, BLOCK: triton.cdiv(x.numel(), BLOCK),
        "constants": {"BLOCK": 128},
    }
    return lamina.custom_kernel(**{**given, **changes})


@triton.jit
def norm_kernel(x_ptr, w_ptr, out_ptr, columns, eps: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    x = tl.load(x_ptr + start + at, mask=at < columns, other=0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 0) / columns + eps)
    w = tl.load(w_ptr + at, mask=at < columns).to(tl.float32)
    tl.store(out_ptr + start + at, x * scale * w, mask=at < columns)


def norm(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def norm_of(pattern: Callable[..., Any] = norm) -> lamina.CustomKernel:
    return lamina.custom_kernel(
        pattern=pattern,
        example_inputs=(torch.empty(4, 8), torch.empty(8)),
        kernel=norm_kernel,
        when=lambda x: x.is_contiguous(),
        arguments=lambda x, w, out: (x, w, out, x.shape[-1], 1e-6, triton.next_power_of_2(x.shape[-1])),
        grid=lambda x: x.numel() // x.shape[-1],
    )


def names(fn: Callable[..., Any], inputs: Sequence[Tensor], *kernels: lamina.CustomKernel) -> list[str]:
    """Of the launches."""
    return [step.name for step in planned(fn, inputs, kernels)[1].steps]


def check(fn: Callable[..., Any], inputs: Sequence[Tensor], *kernels: lamina.CustomKernel) -> list[str]:
    """The same, with values as in f64."""
    (found,), program = run(fn, inputs, kernels)
    want, eager = fn(*(x.double() for x in inputs)), fn(*inputs)
    assert found.dtype is eager.dtype and found.shape == eager.shape
    assert (found.double() - want).norm() <= 1.5 * (eager.double() - want).norm() + 1e-6 * want.norm()
    return [step.name for step in program.steps]


@pytest.mark.parametrize("dtype", [torch.float32, BF16, torch.float16])
@pytest.mark.parametrize("shape", [(300,), (5, 60), (2, 3, 50)])
def test_sizes_and_types_are_open(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x, w = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    assert check(lambda x, w: gated(x, w), [x, w], gated_of()) == ["gated_kernel"]


def test_amid_a_model() -> None:
    def fn(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        y = x * 2
        return torch.relu(gated(y @ a, y @ b)) + 1

    inputs = [torch.randn(n, m) for n, m in ((20, 16), (16, 24), (16, 24))]
    _, program, _ = planned(fn, inputs, [gated_of()])
    assert [s.name for s in program.steps] == ["mul", "mm", "mm", "gated_kernel", "relu_add"]
    assert program.steps[3].ops == ("pattern gated",)
    assert program.steps[3].where[0].startswith(__file__)


def test_patterns_are_traced_for_the_target() -> None:
    """Written-out attention with few scores is one op on a GPU, and several on a CPU, which these tensors are on."""

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.mT, -1) @ v

    example = (torch.empty(2, 3, 16, 8),) * 3
    rules = {"when": None, "arguments": lambda q, k, out: (q, k, out, q.numel()), "grid": lambda q: q.numel()}
    assert names(
        attention, [torch.randn(2, 3, 16, 8) for _ in example], gated_of(pattern=attention, example_inputs=example, **rules)
    ) == ["gated_kernel"]


def test_operands_may_be_swapped() -> None:
    x, w = torch.randn(300), torch.randn(300)
    assert check(lambda x, w: w * F.silu(x), [x, w], gated_of()) == ["gated_kernel"]
    assert check(lambda x, w: w * (x * torch.sigmoid(x)), [x, w], gated_of(pattern=lambda x, w: (x * x.sigmoid()) * w)) == [
        "gated_kernel"
    ]


def test_every_occurrence() -> None:
    x, w = torch.randn(4, 75), torch.randn(4, 75)
    assert check(lambda x, w: gated(gated(x, w), w), [x, w], gated_of()) == ["gated_kernel"] * 2


@pytest.mark.parametrize("shape", [(6, 50), (2, 3, 50)])
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_norms(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, w = torch.randn(shape).to(dtype), torch.randn(50).to(dtype)
    assert check(lambda x, w: norm(x, w), [x, w], norm_of()) == ["norm_kernel"]


def test_ops_that_torch_takes_apart() -> None:
    def pattern(x: Tensor, w: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), w, 1e-6)

    x, w = torch.randn(6, 50), torch.randn(50)
    assert check(lambda x, w: torch.relu(F.rms_norm(x, (50,), w, 1e-6)), [x, w], norm_of(pattern)) == ["norm_kernel", "relu"]


OTHERS: dict[str, Callable[..., Any]] = {
    "another number": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w,
    "another op": lambda x, w: x * torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
    "another dimension": lambda x, w: x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-6) * w,
    "a value inside is used": lambda x, w: norm(x, w) + x.pow(2).mean(-1, keepdim=True),
    "not served": lambda x, w: norm(x.t().contiguous().t(), w),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_is_not_the_pattern(case: str) -> None:
    assert "norm_kernel" not in names(OTHERS[case], [torch.randn(50, 50), torch.randn(50)], norm_of())


def test_several_results() -> None:
    kernel = gated_of(
        pattern=lambda x, w: ((y := x + w), torch.relu(y)),
        kernel=both_kernel,
        arguments=lambda x, w, out0, out1: (x, w, out0, out1, x.numel()),
    )
    x, w = torch.randn(200), torch.randn(200)
    (found,), program = run(lambda x, w: torch.sin(x + w) * torch.relu(w + x), [x, w], [kernel])
    assert torch.allclose(found, torch.sin(x + w) * torch.relu(x + w), atol=1e-6)
    assert launches(program)[0].name == "both_kernel" and launches(program)[0].n_out == 2


@triton.jit
def both_kernel(x_ptr, w_ptr, sum_ptr, relu_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x_ptr + at, mask=at < n) + tl.load(w_ptr + at, mask=at < n)
    tl.store(sum_ptr + at, y, mask=at < n)
    tl.store(relu_ptr + at, tl.maximum(y, 0), mask=at < n)


def test_operands_that_share_elements_are_copied() -> None:
    x, w = torch.randn(1, 60), torch.randn(5, 60)
    kernel = gated_of(when=lambda x, w: x.shape == w.shape and x.is_contiguous())
    (found,), program = run(lambda x, w: gated(x.expand(5, 60), w), [x, w], [kernel])
    assert torch.allclose(found, gated(x, w), atol=1e-6) and [s.name for s in launches(program)][-1] == "gated_kernel"


@pytest.mark.parametrize("training", [False, True])
def test_by_dynamo(training: bool) -> None:
    """Dynamo's graphs match as well, and gradients are the pattern's own."""
    seen: list[stages.Built] = []
    kernels = (gated_of(), norm_of(lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-6)))

    def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        def keep(gm: fx.GraphModule, **given: Any) -> Any:
            seen.append(stages.build(gm, **given))
            return gm.forward

        return autograd(gm, inputs, options=Options(kernels=kernels, cache=False), target=TARGET, compile=keep)

    def fn(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return gated(F.rms_norm(x, (50,), v, 1e-6), w)

    x, w, v = (torch.randn(shape, requires_grad=training) for shape in ((6, 50), (6, 50), (50,)))
    found = torch.compile(fn, backend=backend)(x, w, v)
    assert torch.allclose(found, fn(x, w, v), atol=1e-5)
    steps = [step.name for step in seen[0].program.steps]
    assert "gated_kernel" in steps and (training or steps == ["norm_kernel", "gated_kernel"])


def test_down_to_the_cubin() -> None:
    x, w = torch.randn(6, 50).to(BF16), torch.randn(6, 50).to(BF16)
    assert compiled(lambda x, w: gated(x, w), [x, w], [gated_of()]).kernels == ("custom_gated_kernel",)


def test_beside_calls_with_effects() -> None:
    """Two random draws stay two."""

    def fn(x: Tensor, w: Tensor) -> Tensor:
        return gated(x, w) + torch.poisson(x.abs()) - torch.poisson(x.abs())

    options = Options(kernels=(gated_of(),), cache=False)
    inputs = (torch.randn(300), torch.randn(300))
    steps = stages.build(inference_graph(fn, inputs, options, TARGET), options=options, target=TARGET).program.steps
    assert [step.name for step in steps].count("poisson") == 2 and "gated_kernel" in [step.name for step in steps]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "both": ({"op": "aten::gelu"}, "a kernel is for an op or for a pattern"),
    "neither": ({"pattern": None}, "a kernel is for an op or for a pattern"),
    "no function": ({"pattern": 7}, "pattern must be a function, 7 given"),
    "no examples": ({"example_inputs": ()}, "example_inputs must be a tensor for each of the pattern's parameters x, w"),
    "it fails": ({"pattern": lambda x, w: x @ w}, f"{__file__}:.*pattern cannot be traced"),
    "nothing computed": ({"pattern": lambda x, w: x}, "pattern has to compute each of its results"),
    "unknown name": ({"grid": lambda y: 1}, "grid takes 'y', which nobody gives it .one of x, w, out, BLOCK"),
    "results": ({"grid": lambda out1: 1}, "grid takes 'out1'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(case: str) -> None:
    changes, message = WRONG[case]
    with pytest.raises(CompileError, match=f"(?s){message}"):
        gated_of(**changes)


def test_errors_of_rules_name_the_place() -> None:
    x = torch.randn(8)
    with pytest.raises(CompileError, match=f"parameter 'n' gets no value, at {__file__}:"):
        planned(lambda x, w: gated(x, w), [x, x], [gated_of(arguments=lambda x, w, out: (x, w, out))])
