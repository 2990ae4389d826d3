"""Tests error messages for bad input: they name the argument or the model's line, what was expected, and a remedy."""

import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import BACKEND, NO_CACHE
from torch import Tensor, nn

import lamina
from lamina import CompileError


class Scale(nn.Module):
    def forward(self, a: Tensor, mask: Tensor | None = None, factor: float = 3.0) -> Tensor:
        return a * factor if mask is None else a * mask


@pytest.fixture
def compiled() -> Any:
    return lamina.compile(Scale(), (torch.randn(2, 3),), options=NO_CACHE)


def test_wrong_arguments_are_named(compiled: Any) -> None:
    good = torch.randn(2, 3)
    for args, kwargs, kind, message in [
        ((torch.randn(2, 4),), {}, ValueError, "argument 'a' must have shape [2, 3]; it has [2, 4]"),
        ((torch.randn(2),), {}, ValueError, "argument 'a' must have shape [2, 3]; it has [2]"),
        ((good.double(),), {}, TypeError, "argument 'a' must have dtype torch.float32; it has torch.float64"),
        ((good.to("meta"),), {}, ValueError, "argument 'a' must be on cpu; it is on meta"),
        (("text",), {}, TypeError, "argument 'a' must be a torch.Tensor; 'text' given"),
        ((None,), {}, TypeError, "argument 'a'"),
        (([good],), {}, TypeError, "argument 'a' must have the structure"),
        ((good, good), {}, TypeError, "argument 'mask' was None when compiled; a tensor of shape [2, 3] given"),
        ((good, None, 3.0, good), {}, TypeError, "too many positional arguments"),
        ((), {}, TypeError, "missing a required argument: 'a'"),
        ((good,), {"factor": 4.0}, ValueError, "argument 'factor' was 3.0 when compiled; 4.0 given"),
        ((good,), {"other": 4.0}, TypeError, "unexpected keyword argument 'other'"),
        ((good.to_sparse(),), {}, TypeError, "argument 'a' must be a dense tensor; its layout is torch.sparse_coo"),
    ]:
        for gradients in (True, False):
            with torch.set_grad_enabled(gradients), pytest.raises(kind, match=re.escape(message)):
                compiled(*args, **kwargs)
    torch.testing.assert_close(compiled(good), good * 3)


def test_arguments_inside_structures_are_named() -> None:
    compiled = lamina.compile(lambda batch, n: batch["ids"][1] * n, ({"ids": [torch.ones(2), torch.ones(3)]}, 2), options=NO_CACHE)
    with pytest.raises(ValueError, match=re.escape("argument \"batch['ids'][1]\"") + "|" + re.escape("argument 'batch['ids'][1]'")):
        compiled({"ids": [torch.ones(2), torch.ones(4)]}, 2)
    with pytest.raises(ValueError, match="argument 'n' was 2 when compiled; 3 given"):
        compiled({"ids": [torch.ones(2), torch.ones(3)]}, 3)
    with pytest.raises(TypeError, match="argument 'batch' must have the structure"):
        compiled({"ids": [torch.ones(2)]}, 2)


def test_example_inputs_of_the_wrong_kind() -> None:
    with pytest.raises(TypeError, match="example_inputs must be a tuple .* not int"):
        lamina.compile(Scale(), 3)
    with pytest.raises(TypeError, match="model must be a module or a function, not int"):
        lamina.compile(3, (torch.ones(2),))
    with pytest.raises(ValueError, match="the example input 'mask' is on meta"):
        lamina.compile(Scale(), (torch.ones(2), torch.ones(2, device="meta")))
    with pytest.raises(CompileError, match=r"layout torch.sparse_coo \(convert it by to_dense"):
        lamina.compile(Scale(), (torch.eye(2).to_sparse(),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strict": "yes"}, "option 'strict' must be of type bool, 'yes' given"),
        ({"fold_weights": True}, "option 'fold_weights' must be of type int, True given"),
        ({"cuda_graphs": "always"}, "option 'cuda_graphs' must be \"auto\", True or False, 'always' given"),
        ({"graph_limit": -1}, "option 'graph_limit' must not be negative, -1 given"),
        ({"graph_limit": True}, "option 'graph_limit' must be of type int, True given"),
        ({"tune": "always"}, 'option \'tune\' must be one of "off", "cached", "quick", "full", \'always\' given'),
        ({"tune": ["full"]}, 'option \'tune\' must be one of "off", "cached", "quick", "full", [\'full\'] given'),
        ({"fast_math": "explog"}, "unknown fast-math option 'explog' (did you mean 'exp-log'?)"),
        ({"fast_math": ("x",)}, "unknown fast-math option 'x' (one of exp-log"),
        (3, "options must be lamina.Options or a mapping, not int"),
    ],
)
def test_options_of_the_wrong_kind(options: Any, message: str) -> None:
    with pytest.raises((CompileError, TypeError), match=re.escape(message)):
        lamina.compile(Scale(), (torch.ones(2),), options=options)


def largest(a: Tensor) -> Tensor:
    return a.max() * 2


def test_what_a_decomposition_refuses_has_its_line() -> None:
    with pytest.raises(CompileError, match="zero-size dimension") as caught:
        lamina.compile(largest, (torch.randn(0),), options=NO_CACHE)
    assert caught.value.where == f"{__file__}:{largest.__code__.co_firstlineno + 1}"


def branch(a: Tensor) -> Tensor:
    b = a + 1
    if b.sum() > 0:
        return b
    return a


def test_a_branch_on_data_has_its_line_and_the_way_out() -> None:
    with pytest.raises(CompileError) as caught:
        lamina.compile(branch, (torch.randn(3),), options=NO_CACHE)
    assert caught.value.where == f"{__file__}:{branch.__code__.co_firstlineno + 2}"
    assert "torch.compile(model" in str(caught.value) and "torch.cond" in str(caught.value)
    assert "\n" not in str(caught.value)
    compiled = torch.compile(branch, backend=BACKEND, options=NO_CACHE)
    for a in (torch.ones(3), -torch.ones(3) * 5):
        torch.testing.assert_close(compiled(a), branch(a))


def sizes(a: Tensor) -> Tensor:
    return a.nonzero() + 1


def test_a_size_that_depends_on_data() -> None:
    compiled = lamina.compile(sizes, (torch.randn(3),), options=NO_CACHE)
    for a in (torch.randn(3), torch.tensor([0.0, 1.0, 0.0]), torch.zeros(3)):
        assert torch.equal(compiled(a), sizes(a))
    with pytest.raises(CompileError, match="aten.nonzero.default has no lowering.*depends on tensors' values") as caught:
        lamina.compile(sizes, (torch.randn(3),), options={"strict": True, "cache": False})
    assert caught.value.where == f"{__file__}:{sizes.__code__.co_firstlineno + 1}"


def mismatch(a: Tensor) -> Tensor:
    return a @ a


def test_a_model_that_fails_itself() -> None:
    with pytest.raises(
        CompileError, match="the model cannot be traced: RuntimeError: a and b must have same reduction dim"
    ) as caught:
        lamina.compile(mismatch, (torch.randn(2, 3),), options=NO_CACHE)
    assert caught.value.where == f"{__file__}:{mismatch.__code__.co_firstlineno + 1}"


def sorts(a: Tensor) -> Tensor:
    return (a * 2).sort().values


def test_gradients_that_the_model_takes_have_no_graph() -> None:
    """torch.export would keep the example's values in place of the argument."""
    with pytest.raises(CompileError, match=r"torch.func.grad .*use torch.compile"):
        lamina.compile(torch.func.grad(lambda a: a.sin().sum()), (torch.randn(5),))


def test_strict_refuses_fallbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({"strict": True, "cache": False}, NO_CACHE):
        if options is NO_CACHE:
            monkeypatch.setenv("LAMINA_STRICT", "1")
        with pytest.raises(CompileError, match="aten.sort.default has no lowering") as caught:
            lamina.compile(sorts, (torch.randn(300),), options=options)
        assert caught.value.where == f"{__file__}:{sorts.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize("gradients", [False, True])
def test_dynamo_does_not_wrap_the_error(gradients: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(sorts, backend=BACKEND, options={"strict": True, "cache": False})
    with pytest.raises(CompileError, match="^[^\\n]*aten.sort.default has no lowering[^\\n]*$") as caught:
        compiled(torch.randn(300, requires_grad=gradients))
    assert caught.value.where == f"{__file__}:{sorts.__code__.co_firstlineno + 1}"
    assert "strict is set" in caught.value.remedy and caught.value.__cause__ is None
    text = "".join(traceback.format_exception(caught.value))
    assert "raised:" not in text and "torch/_dynamo/convert_frame" not in text


def test_strict_allows_the_library() -> None:
    compiled = lamina.compile(nn.Linear(3, 4).eval(), (torch.randn(2, 3),), options={"strict": True, "cache": False})
    assert compiled(torch.randn(2, 3)).shape == (2, 4)


def z(a: torch.Tensor) -> torch.Tensor:
    return a.to(torch.complex64)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda a: a.to(torch.complex32), "a tensor of dtype torch.complex32"),
        (lambda a: a.to(torch.uint32), "a tensor of dtype torch.uint32"),
        (lambda a: a.to(torch.float8_e8m0fnu), "a tensor of dtype torch.float8_e8m0fnu"),
        (lambda a: torch.addmm(z(a), z(a)[:, None], z(a)[None], alpha=1j), "an argument of type complex"),
    ],
)
@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_what_no_program_holds_runs_eagerly_but_for_strict_mode(model: Any, message: str) -> None:
    a = torch.rand(3)
    for options in (NO_CACHE, {"strict": True, "cache": False}):
        for compiled in (
            lambda options=options: lamina.compile(model, (a,), options=options)(a),
            lambda options=options: torch.compile(model, backend=BACKEND, options=options)(a),
        ):
            torch._dynamo.reset()
            if options is NO_CACHE:
                got, want = compiled(), model(a)
                assert got.dtype == want.dtype and got.view(torch.uint8).equal(want.view(torch.uint8))
                continue
            with pytest.raises(CompileError, match=f"has no lowering.*{message}") as caught:
                compiled()
            assert caught.value.where.startswith(__file__) and "strict is set" in caught.value.remedy


@pytest.mark.parametrize("shape", [(), (1, 1, 1)])
def test_a_scalar_is_resized(shape: tuple[int, ...]) -> None:
    def model(a: Tensor) -> Tensor:
        return a.clone().resize_(shape) * 2

    a = torch.randn(())
    torch.testing.assert_close(lamina.compile(model, (a,), options=NO_CACHE)(a), model(a))
    torch.testing.assert_close(torch.compile(model, backend=BACKEND, options=NO_CACHE)(a), model(a))


@pytest.mark.parametrize(
    "read",
    [
        lambda table, i: nn.functional.embedding(i, table),
        lambda table, i: table[i],
        lambda table, i: table.index_select(0, i),
        lambda table, i: table.gather(0, i[:, None]),
        lambda table, i: nn.functional.nll_loss(table[:2, :].t(), i.clamp(max=7).expand(3)[:3] * 0 + i[0]),
    ],
)
def test_an_index_out_of_range(read: Any) -> None:
    table = torch.randn(5, 3)
    with torch.no_grad():
        compiled = lamina.compile(read, (table, torch.tensor([1])), options=NO_CACHE)
        with pytest.raises(IndexError):
            compiled(table, torch.tensor([5]))
        torch.testing.assert_close(compiled(table, torch.tensor([0])), read(table, torch.tensor([0])))


@pytest.mark.parametrize(
    "read",
    [
        lambda i, x: torch.arange(5)[i] * 2.5,
        lambda i, x: torch.eye(5)[i, i],
        lambda i, x: (torch.arange(5.0).index_select(0, i)[:, None] * x).sum(),
        lambda i, x: torch.cat([x[0], torch.arange(2.0)])[i],
        lambda i, x: torch.arange(5)[torch.arange(5)[i]],
        lambda i, x: torch.cat([torch.arange(5)[i], i])[3:],
    ],
)
def test_an_index_into_a_computed_tensor_out_of_range(read: Any) -> None:
    x, inside = torch.randn(3, 3), torch.tensor([0, 4, 2])
    with torch.no_grad():
        compiled = lamina.compile(read, (inside, x), options=NO_CACHE)
        for outside in ([0, 5, 2], [0, 1, -6]):
            with pytest.raises(IndexError, match="index out of range: expected 0 <= index < 5"):
                compiled(torch.tensor(outside), x)
        torch.testing.assert_close(compiled(inside, x), read(inside, x))


def test_a_check_that_fails_at_run_time() -> None:
    with torch.no_grad():
        compiled = lamina.compile(torch.linalg.inv, (torch.eye(3),), options=NO_CACHE)
        torch.testing.assert_close(compiled(torch.eye(3) * 2), torch.eye(3) / 2)
        with pytest.raises(RuntimeError, match="singular"):
            compiled(torch.zeros(3, 3))


def test_an_integer_divided_by_zero_is_an_error() -> None:
    with torch.no_grad():
        compiled = lamina.compile(lambda a, b: a // b, (torch.tensor([7, 8]), torch.tensor([2, 3])), options=NO_CACHE)
        torch.testing.assert_close(compiled(torch.tensor([7, -8]), torch.tensor([2, 3])), torch.tensor([3, -3]))
        with pytest.raises(RuntimeError, match="ZeroDivision"):
            compiled(torch.tensor([7, 8]), torch.tensor([2, 0]))


def test_options_of_the_backend() -> None:
    torch._dynamo.reset()
    with pytest.raises(CompileError, match="mode='max-autotune' is not known"):
        torch.compile(Scale(), backend=BACKEND, mode="max-autotune")(torch.randn(2, 3))
    torch._dynamo.reset()
    with pytest.raises(CompileError, match="unknown option 'strickt'.*'strict'"):
        torch.compile(Scale(), backend=BACKEND, options={"strickt": True})(torch.randn(2, 3))


@pytest.mark.parametrize("entry_point", [lamina.compile, lamina.explain])
def test_what_is_no_model_or_target_is_a_type_error(entry_point: Callable[..., Any]) -> None:
    x = torch.ones(3)
    with pytest.raises(TypeError, match="model must be a module or a function, not int"):
        entry_point(3, (x,))
    with pytest.raises(TypeError, match="a target is text, not int"):
        entry_point(torch.sin, (x,), target=5)
