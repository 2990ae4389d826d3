"""Tests the native runner's calls of operators through torch's dispatcher, without Python."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fake_gpu
import programs as p
import pytest
import torch
from dispatcher_cases import Case, attention, convolution, convolutions, embeddings, others
from programs import T

from lamina import _native
from lamina.core.program import Call, Program
from lamina.runtime import spec
from lamina.runtime.dispatcher import dispatcher_call


def python_refuses(*_: Any, **__: Any) -> None:
    raise AssertionError("the call went through Python")


def check(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare a program of the call with eager and float64, and see that it runs without Python."""
    results = case.eager()
    program = case.program(results)
    monkeypatch.setattr(spec, "overload", lambda *_: python_refuses)
    case.check(p.executable(program), results)


def described(case: Case) -> dict[str, Any] | None:
    (step,) = case.program(case.eager()).steps
    assert isinstance(step, Call)
    return dispatcher_call(step, lambda ref: ref.buffer)


@pytest.mark.parametrize("make", [convolutions, embeddings, others])
def test_calls_without_python(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for case in make("cpu"):
        with monkeypatch.context() as patched:
            check(case, patched)


@pytest.mark.parametrize("n", [1, 3, 127])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_of_attention(n: int, dtype: torch.dtype, masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (torch.randn(2, n, 3, 8, dtype=dtype).transpose(1, 2) for _ in range(3))
    bias = torch.randn(n, n, dtype=dtype) if masked else None
    check(attention("flash_for_cpu", q, k, v, bias, causal=not masked, scale=0.25 if masked else None), monkeypatch)


def test_small_integers_that_may_lie_anywhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be an argument of the program, or the result of a call, through Python or not."""
    gpu = fake_gpu.build(tmp_path_factory.mktemp("fake"))
    x, n = torch.randn(2, 5), torch.tensor([3, 1])
    for callee, args in (("aten.neg.default", ()), ("aten.mul.Scalar", (-1,))):
        bufs = p.buffers(("input", 40), ("input", 16), ("owned", 16), ("owned", 160), ("owned", 16))
        calls = [
            p.Call(callee, "fallback", (p.ref(1, n), *args), (), (), (p.ref(2, n),), "neg"),
            p.Call("aten.neg.default", "fallback", (p.ref(2, n),), (), (), (p.ref(4, n),), "neg"),
            p.Call(
                "aten.embedding_dense_backward.default", "fallback", (p.ref(0, x), p.ref(1, n), 8, -1, False), (), (),
                (p.ref(3, torch.empty(8, 5)),), "embedding",
            ),
        ]  # fmt: skip
        run = gpu.executable(p.program([x, n], bufs, calls, [p.ref(3, torch.empty(8, 5)), p.ref(4, n)]))
        for _ in range(2):
            gradient, same = run(x, n)
            assert torch.equal(same, n) and torch.equal(gradient[n], x) and gradient.count_nonzero() == x.numel()


def test_results_in_another_layout_are_copied() -> None:
    case = convolution((2, 6, 9, 7), (4, 6, 3, 3))
    results = [t if t is None or t.dim() != 4 else t.to(memory_format=torch.channels_last) for t in case.eager()]
    case.check(p.executable(case.program(results)), results)


def test_a_result_that_is_an_argument_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """x -> arena -> dropout in eval mode, which returns its argument: it must not be overwritten by what the arena holds next."""
    x = torch.zeros(64)
    bufs = p.buffers(("input", 256), ("arena", 256), ("owned", 256), ("output", 256))
    call = p.Call("aten.dropout.default", "fallback", (p.ref(1, x), 0.5, False), (), (), (p.ref(2, x),), "dropout")
    steps = [p.inc(p.ref(0, x), p.ref(1, x)), call, p.inc(p.ref(1, x), p.ref(3, x)), p.inc(p.ref(3, x), p.ref(1, x))]
    program = p.program([x], bufs, steps, [p.ref(2, x)])
    monkeypatch.setattr(spec, "overload", lambda *_: python_refuses)
    assert torch.equal(p.executable(program)(x)[0], torch.ones(64))


@pytest.mark.parametrize("like", [torch.empty(3), torch.empty(4, dtype=torch.float64), torch.empty(1, 4)])
def test_a_result_of_another_kind_is_an_error(like: torch.Tensor) -> None:
    program = p.call_program("aten.neg.default", [torch.empty(4)], [T(0)], [like], reason="fallback", in_place=False)
    with pytest.raises(RuntimeError, match=r"aten.neg.default returned a tensor of another dtype, shape or device"):
        p.executable(program)(torch.ones(4))


def test_a_result_that_is_missing_is_an_error() -> None:
    case = convolution((2, 3, 5, 5), (4, 3, 3, 3), mask=(True, True, False))
    x, w, _ = case.eager()
    with pytest.raises(RuntimeError, match="returned something else"):
        p.executable(case.program([x, w, torch.empty(4)]))(*case.tensors)


def test_a_call_that_fails_raises_torchs_error(capfd: pytest.CaptureFixture[str]) -> None:
    case = Case("aten.embedding_dense_backward.default", [torch.ones(2, 3), torch.tensor([0, 1])], [T(0), T(1), 4, -1, False])
    program = case.program(case.eager())
    (step,) = program.steps
    assert isinstance(step, Call)
    wrong: Program = p.replace(program, steps=(p.replace(step, args=(*step.args[:2], -4, *step.args[3:])),))
    with pytest.raises(RuntimeError, match="negative"):
        p.executable(wrong)(*case.tensors)
    capfd.readouterr()  # the shim prints what it caught


def test_several_threads_at_once() -> None:
    case = convolution((2, 6, 9, 7), (4, 6, 3, 3))
    results = case.eager()
    run = p.executable(case.program(results))
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: run(*case.tensors), range(200)):
            torch.testing.assert_close(list(got), results)


@pytest.mark.parametrize(
    ("callee", "args", "kwargs"),
    [
        ("aten.add.Tensor", [T(0), T(0)], {}),  # alpha is a number of either kind
        ("aten.select.int", [T(0), 0, 1], {}),  # returns a view
        ("aten.cumsum.default", [T(0), 0], {"dtype": torch.float64}),
        ("aten.split.Tensor", [T(0), 2], {}),  # returns a list
        ("aten.view_as_complex.default", [T(0)], {}),
        ("aten.fft_fft.default", [T(0)], {}),  # complex
    ],
)
def test_what_stays_in_python(callee: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    assert described(Case(callee, [torch.randn(4, 2)], args, kwargs)) is None


def test_a_torch_without_the_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    case = convolution((2, 3, 5, 5), (4, 3, 3, 3))
    assert described(case) is not None
    monkeypatch.setattr(_native, "has_routine", lambda *_: False)
    assert described(case) is None
    results = case.eager()
    case.check(p.executable(case.program(results)), results)
