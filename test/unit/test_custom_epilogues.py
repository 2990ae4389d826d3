"""Tests users' Triton kernels with epilogues, against float64 by Triton's interpreter, and compiled to cubins."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from custom_kernels import TARGET, compiled, planned, run, scaled_add, scaled_add_kernel, scaled_add_of
from oracle import compare
from torch import Tensor

import lamina
from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.core.target import Target
from lamina.frontend.compiling import stages
from lamina.frontend.compiling.lowering import run_passes
from lamina.frontend.entry.export import inference_graph
from lamina.frontend.entry.levels import emit
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.families.custom.family import CustomFamily
from lamina.targets.kernel_calls.user import compile_user
from lamina.targets.ptx import assemble
from lamina.tune.problems.subgraph_extraction import Subgraph


@triton.jit
def hooked_kernel(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr, epilogue: tl.constexpr, operands):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0).to(tl.float32)
    y = tl.load(y_ptr + at, mask=mask, other=0).to(tl.float32)
    tl.store(out_ptr + at, epilogue(x + alpha * y, at, mask, operands), mask=mask)


@triton.jit
def product_kernel(
    a_ptr, b_ptr, out_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, epilogue: tl.constexpr, operands
):
    """Rows of a times columns of b."""
    rows, columns = tl.program_id(0) * M + tl.arange(0, M)[:, None], tl.program_id(1) * N + tl.arange(0, N)[None, :]
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows * k + inner[None, :], mask=(rows < m) & (inner[None, :] < k), other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns, mask=(inner[:, None] < k) & (columns < n), other=0.0)
        acc = tl.dot(a, b, acc)
    at, mask = rows * n + columns, (rows < m) & (columns < n)
    tl.store(out_ptr + at, epilogue(acc, at, mask, operands), mask=mask)


@torch.library.custom_op("lamina_test::hooked_product", mutates_args=())
def product(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


@product.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


HOOK = ("epilogue", "operands")


def hooked(**changes: Any) -> lamina.CustomKernel:
    return scaled_add_of(**{"kernel": hooked_kernel, "epilogue": HOOK, **changes})


def product_of(**blocks: int) -> lamina.CustomKernel:
    return lamina.custom_kernel(
        product,
        kernel=product_kernel,
        when=lambda a, b: a.is_contiguous() and b.is_contiguous(),
        arguments=lambda a, b, out: (a, b, out, a.shape[0], b.shape[1], a.shape[1]),
        grid=lambda out, M, N: (triton.cdiv(out.shape[0], M), triton.cdiv(out.shape[1], N)),
        constants=blocks or {"M": 16, "N": 32, "K": 16},
        num_warps=8,
        epilogue=HOOK,
    )


def agree(fn: Callable[..., Any], inputs: list[Tensor], found: list[Tensor]) -> None:
    eager = fn(*inputs)
    dtypes = [t.dtype for t in ([eager] if isinstance(eager, Tensor) else eager)]
    compare(fn, inputs, [mine.to(dtype) for mine, dtype in zip(found, dtypes, strict=True)])


X = torch.randn(6, 5, 8)
FUSED: dict[str, Callable[..., Any]] = {
    "activation": lambda x, y: F.gelu(scaled_add(x, y, 0.5)),
    "of a constant": lambda x, y: torch.where(scaled_add(x, y) > 0, 0.0, float("-inf")),
    "large numbers": lambda x, y: torch.where(scaled_add(x, y) > 0, 100000, 1) * 100000,
    "bias": lambda x, y: scaled_add(x, y) + y[0, 0],
    "residual": lambda x, y: scaled_add(x, y, 2.0) * 0.5 + x,
    "by rows": lambda x, y: scaled_add(x, y) * y[:, :, :1] + y[:1, :, :1],
    "by batch": lambda x, y: scaled_add(x, y) - y[:1],
    "across": lambda x, y: scaled_add(x, y) + y[:, :1],
    "of another order": lambda x, y: scaled_add(x, y) + x.reshape(8, 5, 6).permute(2, 1, 0),
    "two results": lambda x, y: (torch.tanh(v := scaled_add(x, y)), (v * 2).to(torch.float16)),
    "a mask": lambda x, y: scaled_add(x, y) < 0.25,
    "a choice": lambda x, y: torch.where(scaled_add(x, y) > 0, 1.0, y),
    "reshaped": lambda x, y: torch.relu(scaled_add(x, y).view(30, 8) + y[0, 0]),
    "reshaped within": lambda x, y: torch.relu(scaled_add(x, y).view(30, 8) + (x * y).view(30, 8)).view(2, 15, 8) * 3,
    "used twice": lambda x, y: (v := scaled_add(x, y), torch.relu(v)),
    "used twice, reshaped": lambda x, y: (v := scaled_add(x, y).view(30, 8), torch.relu(v + y[0, 0])),
    "twice the same": lambda x, y: torch.relu(scaled_add(x * 2, x * 2) + x),
    "both kernels": lambda x, y: scaled_add(x, y) * scaled_add(y, x, 0.5),
    "the other's input": lambda x, y: scaled_add(scaled_add(x, y) + 1, y, 0.5).sigmoid(),
}


@pytest.mark.parametrize("case", FUSED)
def test_what_follows_is_computed_inside(case: str) -> None:
    fn, x, y = FUSED[case], X, torch.randn_like(X)
    found, program = run(fn, [x, y], [hooked()])
    agree(fn, [x, y], found)
    names = [s.name for s in program.steps]
    assert names.count("hooked_kernel") == (2 if case in ("both kernels", "the other's input") else 1)
    assert len(names) == names.count("hooked_kernel") + (case == "twice the same"), names


APART: dict[str, Callable[..., Any]] = {
    "nothing": lambda x, y: scaled_add(x, y),
    "a sum": lambda x, y: scaled_add(x, y).sum(-1),
    "another order": lambda x, y: torch.relu(scaled_add(x, y).transpose(0, 1).contiguous()),
    "another place": lambda x, y: scaled_add(x, y) + scaled_add(x, y).roll(1, 0),
    "the first part": lambda x, y: torch.relu(scaled_add(x, y)[:2]),
    "an element": lambda x, y: torch.relu(scaled_add(x, y)[0, 0, 0]),
    "returned before": lambda x, y: (v := scaled_add(x, y), torch.relu(v).sum(), v.t() if v.dim() == 2 else v.flatten()),
    "f64": lambda x, y: scaled_add(x, y).double() * 1.1,
    "a part": lambda x, y: torch.relu(scaled_add(x, y)[1:]),
}


@pytest.mark.parametrize("case", APART)
def test_what_stays_apart(case: str) -> None:
    fn, x, y = APART[case], X, torch.randn_like(X)
    found, program = run(fn, [x, y], [hooked()])
    want = fn(x, y)
    for mine, eager in zip(found, [want] if isinstance(want, Tensor) else want, strict=True):
        torch.testing.assert_close(mine, eager)
    assert program.steps[0].ops == ("lamina_test.scaled_add.default",)


def test_half_types() -> None:
    """The epilogue starts from the kernel's f32 value, unless intermediate values are to be rounded as in eager."""
    x, y = (torch.randn(8, 40).half() for _ in range(2))

    def fn(x: Tensor, y: Tensor) -> Tensor:
        return F.silu(scaled_add(x, y, 0.3)) + y

    found, program = run(fn, [x, y], [hooked()])
    assert len(program.steps) == 1 and found[0].dtype == torch.float16
    agree(fn, [x, y], found)
    *_, (user,) = planned(fn, [x, y], [hooked()])
    assert "float16)).to" not in user.text
    built = compiled(fn, [x, y], [hooked()], round_intermediates=True)
    assert [s.name for s in built.program.steps] == ["hooked_kernel"]


def test_strides_of_another_order() -> None:
    """The result has the op's strides; the tensor that is added has its own."""
    x = torch.randn(6, 5).t()
    for fn in (
        lambda x: torch.relu(scaled_add(x, x)).flatten(),
        lambda x: torch.relu(scaled_add(x, x).reshape(6, 5) + x.reshape(6, 5)),
    ):
        found, program = run(fn, [x.clone()], [hooked()])
        agree(fn, [x.clone()], found)
    (found,), program = run(lambda x: torch.relu(scaled_add(x, x) + x[0] * x), [x], [hooked()])
    torch.testing.assert_close(found, torch.relu(2 * x + x[0] * x))
    assert len(program.steps) == 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_products_down_to_the_cubin(arch: str) -> None:
    def fn(a: Tensor, b: Tensor, bias: Tensor, more: Tensor) -> Tensor:
        return F.gelu(product(a, b) + bias) + more

    a, b, bias, more = (torch.randn(s) for s in ((48, 40), (40, 72), (72,), (48, 72)))
    found, program = run(fn, [a, b, bias, more], [product_of()])
    agree(fn, [a, b, bias, more], found)
    (step,) = program.steps
    assert step.ops == ("lamina_test.hooked_product.default", "aten.add.Tensor", "aten.gelu.default")
    half = [t.bfloat16() for t in (torch.randn(512, 256), torch.randn(256, 512), torch.randn(512), torch.randn(512, 512))]
    *_, (user,) = planned(fn, half, [product_of(M=128, N=128, K=64)])
    made = compile_user(user, product_kernel, Gpu.named(arch))
    (used,) = assemble(made.ptx, arch).resources
    assert "def custom_product_kernel_epilogue" in made.text and used.spill_stores == 0


def test_the_example() -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "kernels" / "epilogue.py"), run_name="__main__")
    inputs = [torch.randn(shape) for shape in ((200, 96), (96, 96), (96,))]
    found, program = run(example["model"], inputs, [example["KERNEL"]])
    agree(example["model"], inputs, found)
    assert [s.name for s in program.steps] == ["product_kernel"]
    options = Options(kernels=(example["KERNEL"],))
    text = emit(example["model"], tuple(inputs), target="nvvm:sm_90a", level="triton", options=options)
    assert "def custom_product_kernel_epilogue(value, at, mask, operands):" in text and "\ndef product_kernel(" in text


def test_the_text() -> None:
    x, bias = torch.randn(4, 6, 8), torch.randn(8)
    *_, (user,) = planned(lambda x, b: torch.relu(scaled_add(x, x) + b + x[:1] + x[:, :1]), [x, bias], [hooked()])
    lines = re.findall(r"operands\[\d\] \+ (.*), mask", user.text)
    assert sorted(lines) == ["(at // 48) * 48 + at % 8", "at % 48", "at % 8"] and user.text.endswith("operands=(x1, x0,))\n")


def test_tuning_asks_for_both() -> None:
    options, keys = Options(kernels=(hooked(constants={}, configs=[{"BLOCK": 128}, {"BLOCK": 256}]),)), []
    for fn in (scaled_add, lambda x, y: torch.relu(scaled_add(x, y)), lambda x, y: torch.relu(scaled_add(x, y))):
        module = stages.import_linalg(normalize(inference_graph(fn, (X, X), options, TARGET)), options)
        run_passes(module, "linalg", "graph", Target.parse(TARGET), options)
        with module.context:
            keys += [Subgraph(problem).key for problem in CustomFamily().problems(module)]
    first, second, third = keys
    assert first != second and second == third


DECLARED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"epilogue": ("epilog", "operands")}, "epilogue names parameter 'epilog', which it does not have .did you mean"),
    "constant": ({"epilogue": ("BLOCK", "operands")}, "epilogue names parameter 'BLOCK', which constants names already"),
    "one": ({"epilogue": "epilogue"}, "epilogue gives 'epilogue' .name the parameters that get the function, and its operands"),
    "no hook": ({"epilogue": None, "arguments": lambda x, y, out: (x, y, out, 1, 1.0)}, "parameter 'epilogue' gets no value"),
    "given": ({"arguments": lambda x, y, out: {"operands": ()}}, "gives parameter 'operands', which Lamina gives"),
    "plain": ({"kernel": scaled_add_kernel}, "epilogue names parameter 'epilogue', which it does not have"),
}


@pytest.mark.parametrize("case", DECLARED)
def test_what_does_not_fit(case: str) -> None:
    changed, message = DECLARED[case]
    with pytest.raises(CompileError, match=message):
        planned(scaled_add, [X, X], [hooked(**changed)])


def test_hooks_are_for_one_result() -> None:
    with pytest.raises(CompileError, match="several results, and epilogue is for one"):
        lamina.custom_kernel("aten::var_mean.correction", kernel=hooked_kernel, arguments=lambda: (), grid=lambda: 1, epilogue=HOOK)
