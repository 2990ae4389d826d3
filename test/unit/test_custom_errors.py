"""Tests that errors in a user's kernel name the parameter or the rule at fault."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from custom_kernels import TARGET, compiled, planned, scaled_add, scaled_add_kernel, scaled_add_of
from torch import Tensor

import lamina
from lamina.core.errors import CompileError
from lamina.core.options import Options

aten = torch.ops.aten
HERE = __file__


@torch.library.custom_op("lamina_test::changes", mutates_args=("x",))
def changes(x: Tensor) -> None:
    x += 1


@triton.jit
def helper(v):
    return v + unknown_name  # noqa: F821


@triton.jit
def wrong_kernel(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, helper(tl.load(x_ptr + at)))


@triton.jit
def short_kernel(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 1024, "BLOCK is too small")


tuned_kernel = triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])(scaled_add_kernel)

DECLARED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "unknown op": ("lamina_test::nothing", {}, "there is no op 'lamina_test::nothing'.*import the module"),
    "unknown overload": ("aten::add.Nothing", {}, "aten.add has no overload 'Nothing'.*Tensor"),
    "several overloads": ("aten::add", {}, "aten.add has several overloads"),
    "no op": (F.gelu, {}, "op must be an op of torch.ops"),
    "in place": ("lamina_test::changes", {}, "changes its argument 'x'.*functional op"),
    "a view": ("aten::t", {}, "returns a view"),
    "composite": ("aten::linear", {}, "torch takes aten.linear.default apart"),
    "no tensor": ("aten::item", {}, "does not return tensors alone|apart"),
    "no kernel": ("", {"kernel": lambda x: x}, "kernel must be a @triton.jit function"),
    "autotuned": ("", {"kernel": tuned_kernel}, "kernel must be a @triton.jit function.*under triton.autotune"),
    "constants": ("", {"constants": {"BLOK": 1}}, "no parameter 'BLOK'.*did you mean 'BLOCK'"),
    "no rule": ("", {"grid": (1,)}, r"grid must be a function, \(1,\) given"),
    "unknown name": ("", {"grid": lambda x, BLOK: 1}, f"{HERE}:.*grid takes 'BLOK', which nobody gives it .did you mean 'BLOCK'"),
    "results": ("", {"when": lambda out: True}, "when takes 'out', which nobody gives it"),
    "several results": ("aten::var_mean.correction", {"arguments": lambda out: ()}, "takes 'out'.*did you mean 'out[01]'"),
    "by place": ("", {"grid": lambda *x: 1}, r"grid takes \*x, but gets all by name"),
    "warps": ("", {"num_warps": 3}, "num_warps must be a power of two, 3 given"),
    "stages": ("", {"num_stages": 0}, "num_stages must be a positive number"),
}


@pytest.mark.parametrize("case", DECLARED)
def test_when_it_is_declared(case: str) -> None:
    op, changed, message = DECLARED[case]
    given = {
        "kernel": scaled_add_kernel, "arguments": lambda: (), "grid": lambda: 1, "constants": {"BLOCK": 128}, **changed,
    }  # fmt: skip
    with pytest.raises(CompileError, match=f"(?s){message}"):
        lamina.custom_kernel(op or "lamina_test::scaled_add", **given)


def fails(message: str, x: Tensor | None = None, y: Tensor | None = None, **changed: Any) -> None:
    x = torch.randn(64) if x is None else x
    with pytest.raises(CompileError, match=f"(?s){message}"):
        planned(lambda x, y: scaled_add(x, y, 0.5), [x, x if y is None else y], [scaled_add_of(**changed)])


ARGUMENTS: dict[str, tuple[Any, str]] = {
    "missing": (lambda x, y, out: (x, y, out), "parameter 'n' gets no value"),
    "missing by name": (lambda x, y, out: {"x_ptr": x, "y_ptr": y, "out_ptr": out, "n": 1}, "parameter 'alpha' gets no value"),
    "too many": (lambda x, out: (x, x, out, 1, 1.0, 7), "gives 6 values for 5 parameters.*x_ptr, y_ptr, out_ptr, n, alpha"),
    "unknown": (lambda x: {"x_prt": x}, "parameter 'x_prt', which it does not have .did you mean 'x_ptr'"),
    "given twice": (lambda x: {"BLOCK": 7}, "parameter 'BLOCK', which constants gives already"),
    "no tuple": (lambda x: x, "arguments must give a tuple or a dict, FakeTensor given"),
    "another tensor": (lambda x, y, out: (x[1:], y, out, 1, 1.0), "parameter 'x_ptr' gets a tensor that is neither"),
    "no tensor": (lambda out: (out, out, out, 1, 1.0), "takes none of the tensors"),
    "an object": (lambda x, y, out: (x, y, out, object(), 1.0), "parameter 'n' gets <object"),
    "a dtype": (lambda x, y, out: (x, y, out, x.dtype, 1.0), "parameter 'n' gets torch.float32, but is not a tl.constexpr"),
    "a large number": (lambda x, y, out: (x, y, out, 2**64, 1.0), "parameter 'n' gets 18446744073709551616"),
    "it fails": (lambda x: x.nothing, f"{HERE}:.*arguments failed: AttributeError"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments(case: str) -> None:
    rule, message = ARGUMENTS[case]
    fails(message, arguments=rule)


def test_constants() -> None:
    fails(
        "parameter 'BLOCK' is a tl.constexpr, but gets a tensor",
        constants={},
        arguments=lambda x, y, out: (x, y, out, 1, 1.0, x),
        grid=lambda x: 1,
    )
    fails("parameter 'BLOCK' gets .*which is not a constant", constants={"BLOCK": [128]}, grid=lambda x: 1)


@pytest.mark.parametrize("grid", [(), (1, 2, 3, 4), -1, 1.0, "8", (1, 65536), None, (True,)])
def test_grids(grid: Any) -> None:
    fails("grid gives .*not one to three numbers of blocks", grid=lambda x: grid)


def test_types() -> None:
    fails("parameter 'x_ptr' gets a tensor of torch.complex64, which Triton has no type for", torch.randn(8, dtype=torch.complex64))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (lambda x: [], "outputs gives 0 tensors, lamina_test.scaled_add.default 1"),
        (lambda x: x.new_empty(3), r"output 0 has shape \(3,\), but lamina_test.scaled_add.default gives \(64,\)"),
        (lambda x: torch.empty_like(x, dtype=torch.int32), "output 0 has dtype torch.int32, but .* gives torch.float32"),
        (lambda x: "bf16", "outputs must give tensors"),
    ],
)
def test_outputs(outputs: Any, message: str) -> None:
    fails(message, outputs=outputs)


def test_strides_of_outputs() -> None:
    fails("output 0 has strides", torch.randn(4, 8), outputs=lambda x: x.new_empty_strided(x.shape, (1, 4)))


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(Path(HERE).read_text().splitlines(), 1) if text in line)


def test_what_triton_refuses_is_told_with_its_line() -> None:
    x = torch.randn(64)
    line = line_of("v + unknown_name")
    with pytest.raises(CompileError, match=f"{HERE}:{line}: Triton refuses kernel wrong_kernel.x_ptr=x0.*unknown_name"):
        compiled(scaled_add, [x, x], [scaled_add_of(kernel=wrong_kernel)])
    line = line_of("tl.static_assert")
    with pytest.raises(CompileError, match=f"{HERE}:{line}: Triton refuses kernel short_kernel.*BLOCK is too small"):
        compiled(scaled_add, [x, x], [scaled_add_of(kernel=short_kernel)])


def test_options() -> None:
    with pytest.raises(CompileError, match="option 'kernels' takes what lamina.custom_kernel gives"):
        Options.of({"kernels": [scaled_add_kernel]})
    kernel = scaled_add_of()
    assert Options.of({"kernels": kernel}).kernels == (kernel,)
    assert TARGET not in repr(kernel) and "kernels" not in repr(Options(kernels=(kernel,)))
