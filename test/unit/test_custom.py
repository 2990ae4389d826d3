"""Tests custom kernels in graphs, plans and programs: against torch by Triton's interpreter, and compiled to cubins."""

import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from custom_kernels import compiled, launches, planned, run, scaled_add, scaled_add_kernel, scaled_add_of
from torch import Tensor, fx

import lamina
from lamina.core.custom_kernel import TABLE
from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.frontend.compiling import stages
from lamina.frontend.custom.substitute import with_registered
from lamina.frontend.entry.dynamo import autograd
from lamina.frontend.entry.export import inference_graph
from lamina.runtime import cubins
from lamina.runtime.cache import Cache
from lamina.targets.kernel_calls.user import compile_user

TARGET = "nvvm:sm_90a"
aten = torch.ops.aten


@triton.jit
def squared(v):
    return v * v


@triton.jit(noinline=True)
def plus_one(v):
    return v + 1


@triton.jit
def square_kernel(x_ptr, out_ptr, rows, columns, row_stride, column_stride, BLOCK: tl.constexpr, ADD: tl.constexpr = False):
    row, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = squared(tl.load(x_ptr + row * row_stride + at * column_stride, mask=at < columns))
    if ADD:
        v += 1
    tl.store(out_ptr + row * columns + at, v, mask=at < columns)


@torch.library.custom_op("lamina_test::square", mutates_args=())
def square(x: Tensor, add: bool = False) -> Tensor:
    return (x * x + add).contiguous()


@square.register_fake
def _(x: Tensor, add: bool = False) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def square_of(**changes: Any) -> lamina.CustomKernel:
    def arguments(x: Tensor, add: bool, out: Tensor) -> dict[str, Any]:
        (rows, columns), (row, column) = x.shape, x.stride()
        return {
            "x_ptr": x, "out_ptr": out, "rows": rows, "columns": columns, "row_stride": row, "column_stride": column, "ADD": add,
        }  # fmt: skip

    given: dict[str, Any] = {
        "kernel": square_kernel,
        "arguments": arguments,
        "grid": lambda x, BLOCK: (triton.cdiv(x.shape[1], BLOCK), x.shape[0]),
        "constants": {"BLOCK": 32},
    }
    return lamina.custom_kernel(square, **{**given, **changes})


@triton.jit
def split_kernel(x_ptr, low_ptr, high_ptr, n, limit, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    tl.store(low_ptr + at, tl.minimum(x, limit), mask=at < n)
    tl.store(high_ptr + at, x > limit, mask=at < n)


@torch.library.custom_op("lamina_test::split", mutates_args=())
def split(x: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    return x.float().clamp(max=limit), x > limit


@split.register_fake
def _(x: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x, dtype=torch.float32), torch.empty_like(x, dtype=torch.bool)


def test_an_op_of_the_users_between_kernels_of_ours() -> None:
    x, y = torch.randn(1000), torch.randn(1000)
    (found,), program = run(lambda x, y: torch.relu(scaled_add(x * 2, y, 0.5)), [x, y], [scaled_add_of()])
    assert torch.allclose(found, torch.relu(x * 2 + 0.5 * y))
    first, own, last = launches(program)
    assert (own.name, own.ops, own.grid, own.bytes, own.n_out) == (
        "scaled_add_kernel", ("lamina_test.scaled_add.default",), 8, 12000, 1,
    )  # fmt: skip
    assert own.where[0].startswith(__file__)
    assert first.args[1] == own.args[0] and own.args[2] == last.args[0], "it writes into the plan's memory"


def test_down_to_the_cubin() -> None:
    x, y = torch.randn(1000), torch.randn(1000)
    built = compiled(lambda x, y: torch.relu(scaled_add(x * 2, y, 0.5)), [x, y], [scaled_add_of(num_warps=8, name="mine")])
    own = launches(built.program)[1]
    assert own.kernel == "custom_mine" and own.threads == 256 and own.kernel in built.kernels
    assert all(code[:4] == b"\x7fELF" for code in cubins.divide(built.code))
    assert len(own.scratch) == 2 and "custom kernels" in built.seconds


def test_alone() -> None:
    x = torch.randn(130)
    (found,), program = run(lambda x: scaled_add(x, x), [x], [scaled_add_of()])
    assert torch.allclose(found, 2 * x)
    assert len(program.steps) == 1 and len(launches(program)[0].args) == 2, "one pointer for one tensor"
    assert compiled(lambda x: scaled_add(x, x), [x], [scaled_add_of()]).kernels == ("custom_scaled_add_kernel",)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_numbers_are_what_the_launcher_makes_of_them(dtype: torch.dtype) -> None:
    """A Python float is an f32, so half types are multiplied in f32."""
    x, y = torch.randn(300).to(dtype), torch.randn(300).to(dtype)
    (found,), _ = run(lambda x, y: scaled_add(x, y, 0.3), [x, y], [scaled_add_of()])
    assert found.dtype is dtype
    want = x.double() + torch.tensor(0.3).double() * y.double()
    assert torch.equal(found, want.to(dtype)) or torch.allclose(found.double(), want, rtol=torch.finfo(dtype).eps, atol=1e-7)


LAYOUTS = {
    "as it is": lambda x: x,
    "transposed": lambda x: x.t(),
    "made transposed": lambda x: x.t() + 1,
    "part": lambda x: x[:, 3:20],
    "part of what is made": lambda x: (x.t() + 1)[1:9, 2:],
    "expanded": lambda x: x[:1].expand(5, x.shape[1]),
    "every other": lambda x: (x + 1)[:, ::2],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    """The strides that a kernel gets as numbers are those of the tensors that it gets."""
    x = torch.randn(24, 37)
    (found,), program = run(lambda x: square(LAYOUTS[name](x), True), [x], [square_of()])
    assert torch.allclose(found, square(LAYOUTS[name](x), True))
    own = launches(program)[-1]
    want = LAYOUTS[name](x)
    assert own.grid_yz == (want.shape[0], 1) and own.grid == -(-want.shape[1] // 32)


def test_a_value_is_copied_where_it_cannot_lie_as_its_kernel_needs_it() -> None:
    """An argument has the caller's strides; a value with two users that need different strides is copied for one."""

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(x)
        return square(y), torch.mm(y.t().contiguous(), y)

    x = torch.randn(24, 36)
    (found, _), _ = run(both, [x], [square_of()])
    assert torch.allclose(found, torch.relu(x) ** 2)


def test_several_results_of_other_types() -> None:
    kernel = lamina.custom_kernel(
        "lamina_test::split",
        kernel=split_kernel,
        arguments=lambda x, limit, out0, out1: (x, out0, out1, x.numel(), limit),
        grid=lambda x: (triton.cdiv(x.numel(), 64),),
        constants={"BLOCK": 64},
    )

    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        low, high = split(x, 0.25)
        return low * 2, ~high

    x = torch.randn(5, 40).half()
    (low, low_is), _ = run(fn, [x], [kernel])
    assert torch.equal(low, fn(x)[0]) and torch.equal(low_is.bool(), fn(x)[1])
    compiled(fn, [x], [kernel])


def gelu_of(**changes: Any) -> lamina.CustomKernel:
    given: dict[str, Any] = {
        "kernel": scaled_add_kernel,  # not what gelu is
        "arguments": lambda self, out: (self, self, out, self.numel(), 1.0),
        "grid": lambda self, BLOCK: triton.cdiv(self.numel(), BLOCK),
        "constants": {"BLOCK": 128},
    }
    return lamina.custom_kernel(aten.gelu.default, **{**given, **changes})


def test_an_op_of_torch_instead_of_its_decomposition() -> None:
    x = torch.randn(64)
    (found,), program = run(F.gelu, [x], [gelu_of()])
    assert torch.equal(found, 2 * x) and [s.name for s in program.steps] == ["scaled_add_kernel"]


def test_where_it_does_not_serve_the_op_is_compiled_as_without_it() -> None:
    kernel = gelu_of(when=lambda self, approximate, BLOCK: approximate == "tanh" and self.numel() > BLOCK)
    x = torch.randn(64)
    for fn in (F.gelu, lambda x: F.gelu(x, approximate="tanh")):
        (found,), program = run(fn, [x], [kernel])
        assert torch.allclose(found, fn(x), atol=1e-6) and launches(program)[0].name != "scaled_add_kernel"
    (found,), _ = run(lambda x: F.gelu(torch.cat([x, x, x]), approximate="tanh"), [x], [kernel])
    assert torch.equal(found, 2 * torch.cat([x, x, x]))


def test_the_first_that_serves_is_taken() -> None:
    never, second, third = scaled_add_of(when=lambda x: False), scaled_add_of(name="second"), scaled_add_of(name="third")
    x = torch.randn(8)
    _, program = run(scaled_add, [x, x], [never, second, third])
    assert program.steps[0].name == "second"


def test_equal_launches_share_their_code() -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return scaled_add(scaled_add(x, y), y) + scaled_add(x[:64], y[:64]).sum() + scaled_add(x[1:65], y[:64]).sum()

    x, y = torch.randn(128), torch.randn(128)
    (found,), program = run(fn, [x, y], [scaled_add_of()])
    assert torch.allclose(found, fn(x, y), atol=1e-4)
    own = [s for s in launches(program) if s.name == "scaled_add_kernel"]
    assert [s.kernel for s in own] == [f"custom_scaled_add_kernel{n}" for n in ("", "", "_1", "_2")], "sizes and alignment differ"


def test_names_in_the_code_do_not_meet() -> None:
    x = torch.randn(24, 37)
    kernel = square_of(kernel=noisy_kernel)
    assert len(compiled(lambda x: square(square(x), True), [x], [kernel]).kernels) == 2


@triton.jit
def noisy_kernel(x_ptr, out_ptr, rows, columns, row_stride, column_stride, BLOCK: tl.constexpr, ADD: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + at, mask=at < columns)
    tl.device_assert(tl.program_id(1) < rows, "too many rows")
    tl.device_print("v", v)
    tl.store(out_ptr + at, tl.sin(v * 1e6) + plus_one(rows), mask=at < columns)


def test_memory_that_is_known_to_be_aligned() -> None:
    x, kernel = torch.randn(2048), scaled_add_of(constants={"BLOCK": 512})
    _, _, (near, far) = planned(lambda x: scaled_add(x[1:1025], x[4:1028]) + scaled_add(x[:1024], x[1024:]), [x], [kernel])
    assert [align for _, align in near.arguments] == [4, 16, 16] and [align for _, align in far.arguments] == [16, 16, 16]
    texts = [compile_user(kernel, scaled_add_kernel, Gpu.named("sm_90a")).ptx for kernel in (near, far)]
    loads = [re.findall(r"ld\.global(?:\.v(\d))?", text) for text in texts]
    assert sorted(loads[0]) == ["", "", "", "", "4"] and loads[1] == ["4", "4"]


def test_training() -> None:
    """The forward op is the user's kernel; gradients are the op's own."""
    seen: list[stages.Built] = []

    def keep(gm: fx.GraphModule, **given: Any) -> Any:
        seen.append(stages.build(gm, **given))
        return gm.forward

    kernels = (gelu_of(),)
    x = torch.randn(64, requires_grad=True)
    gm = torch.fx.symbolic_trace(lambda x: (F.gelu(x).square(),))
    run = autograd(gm, [x], options=Options(kernels=kernels, cache=False, strict=True), target=TARGET, compile=keep)
    with pytest.raises(RuntimeError, match="kernel scaled_add_kernel runs in compiled graphs alone"):
        run(x)
    assert [s.name for s in seen[0].program.steps][:1] == ["scaled_add_kernel"]


def test_dynamo_with_a_kernel_of_the_process() -> None:
    seen: list[stages.Built] = []

    def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        def keep(gm: fx.GraphModule, **given: Any) -> Any:
            seen.append(stages.build(gm, **given))
            return lambda *args: [torch.zeros(64)]

        return autograd(gm, inputs, options=with_registered(Options(cache=False)), target=TARGET, compile=keep)

    x = torch.randn(64)
    with scaled_add_of(name="mine"):
        torch.compile(lambda x: scaled_add(x, x) + 1, backend=backend)(x)
    torch.compile(lambda x: scaled_add(x, x) + 1, backend=backend)(x)
    assert [s.name for b in seen for s in b.program.steps] == ["mine", "add", "scaled_add", "add"]


def test_the_table_of_the_process() -> None:
    before = TABLE.kernels()
    first = lamina.register_kernel(
        "lamina_test::scaled_add",
        kernel=scaled_add_kernel,
        arguments=lambda x, y, alpha, out: (x, y, out, x.numel(), alpha),
        grid=lambda x: 1,
        constants={"BLOCK": 128},
    )
    second = scaled_add_of()
    TABLE.add(second)
    TABLE.add(second)
    assert TABLE.kernels() == (second, first, *before)
    assert with_registered(Options(kernels=(first,))).kernels == (first, second, *before)
    for kernel in (first, second, second):
        kernel.remove()
    assert TABLE.kernels() == before


def test_on_the_cpu_ops_run_as_without_kernels() -> None:
    x = torch.randn(64)
    found = lamina.compile(lambda x: F.gelu(scaled_add(x, x)), (x,), options={"kernels": [scaled_add_of(), gelu_of()]})
    assert torch.allclose(found(x), F.gelu(2 * x), atol=1e-6)


def test_nothing_to_do() -> None:
    x, y = torch.empty(0), torch.randn(3)
    (found,), _ = run(lambda x, y: torch.cat([scaled_add(x, x), y]), [x, y], [scaled_add_of()])
    assert torch.equal(found, y)
    _, program = run(scaled_add, [y, y], [scaled_add_of(grid=lambda x: (4, 0, 2))])
    assert (program.steps[0].grid, program.steps[0].grid_yz) == (0, (1, 1))


def test_the_cache_tells_kernels_and_their_numbers_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    x = torch.randn(64)

    def again(kernel: lamina.CustomKernel) -> bool:
        options = Options(kernels=(kernel,))
        return stages.build(
            inference_graph(lambda x: scaled_add(x, x), (x,), options, TARGET), options=options, target=TARGET
        ).cached

    assert [again(scaled_add_of()), again(scaled_add_of())] == [False, True]
    assert not again(scaled_add_of(constants={"BLOCK": 256})) and not again(scaled_add_of(num_warps=8))
    assert not again(scaled_add_of(kernel=other_kernel)) and again(scaled_add_of()) and Cache().root == tmp_path


@triton.jit
def other_kernel(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def test_explain_counts_it_as_a_kernel_of_ours() -> None:
    from lamina.report.collect import graph
    from lamina.report.explanation import Unfused

    x, y = torch.randn(24, 37), torch.randn(24, 37)
    report = graph("graph", compiled(lambda x: square(x), [x, y][:1], [square_of()]).program, Unfused(0, 0), {})
    (kernel,) = report.kernels
    assert not report.externals and kernel.name == "square_kernel" and kernel.ops == ("lamina_test.square.default",)
    assert kernel.programs == 48, "in both dimensions"


def test_the_example_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example runs without a GPU, and its kernel computes the same as its op."""
    page = (Path(__file__).parents[2] / "docs" / "custom-kernels.md").read_text()
    example = tmp_path / "example.py"
    example.write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])
    before = TABLE.kernels()
    try:
        found = runpy.run_path(str(example))
        (kernel,) = TABLE.kernels()[: len(TABLE.kernels()) - len(before)]
    finally:
        for kernel in TABLE.kernels()[: len(TABLE.kernels()) - len(before)]:
            kernel.remove()
    assert "scaled_add" in capsys.readouterr().out
    x, y = torch.randn(100, 30), torch.randn(100, 30)
    (result,), program = run(found["model"], [x, y], [kernel])
    assert torch.allclose(result, found["model"](x, y)) and [s.name for s in program.steps] == ["mul", "scaled_add_kernel", "relu"]
