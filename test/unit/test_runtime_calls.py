"""Tests the native runner's calls of libraries, of packed products and of Python operators."""

from typing import Any

import programs as p
import pytest
import torch
from programs import T

from lamina import _native
from lamina.runtime.library import library_call


def check(program: Any, inputs: list[torch.Tensor], expected: list[torch.Tensor], tolerance: float = 1e-4) -> None:
    """Runs a program twice on fresh memory and compares with results in float64, strides included."""
    run = p.executable(program)
    for _ in range(2):
        results = run(*inputs)
        assert len(results) == len(expected)
        for got, want in zip(results, expected, strict=True):
            assert got.shape == want.shape
            torch.testing.assert_close(got.double(), want.double(), rtol=tolerance, atol=tolerance)


def transposed(*shape: int) -> torch.Tensor:
    return torch.randn(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2)


@pytest.mark.parametrize("make", [torch.randn, transposed])
@pytest.mark.parametrize("make_out", [torch.empty, lambda *s: torch.empty(*s[::-1]).t()])
def test_mm_into_our_memory(make: Any, make_out: Any) -> None:
    a, b, out = make(5, 7), make(7, 3), make_out(5, 3)
    program = p.call_program("aten.mm.default", [a, b], [T(0), T(1)], [out], reason="library", in_place=True)
    assert p.executable(program)(a, b)[0].stride() == out.stride()
    check(program, [a, b], [a.double() @ b.double()])


def test_addmm_with_factors() -> None:
    c, a, b = torch.randn(3), torch.randn(5, 7), transposed(7, 3)
    program = p.call_program(
        "aten.addmm.default", [c, a, b], [T(0), T(1), T(2)], [torch.empty(5, 3)], reason="library", in_place=True,
        kwargs=[("beta", 2), ("alpha", 0.5)],
    )  # fmt: skip
    check(program, [c, a, b], [2 * c.double() + 0.5 * (a.double() @ b.double())])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batched_products(dtype: torch.dtype) -> None:
    a, b, c = torch.randn(4, 5, 7, dtype=dtype), transposed(4, 7, 3).to(dtype), torch.randn(4, 5, 3, dtype=dtype)
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    program = p.call_program("aten.bmm.default", [a, b], [T(0), T(1)], [torch.empty_like(c)], reason="library", in_place=True)
    check(program, [a, b], [a.double() @ b.double()], tolerance)
    args = [T(0), T(1), T(2)]
    program = p.call_program("aten.baddbmm.default", [c, a, b], args, [torch.empty_like(c)], reason="library", in_place=True)
    check(program, [c, a, b], [c.double() + a.double() @ b.double()], tolerance)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_convolution(bias: bool, memory: torch.memory_format) -> None:
    x = torch.randn(2, 6, 11, 9).to(memory_format=memory)
    w, b = torch.randn(4, 3, 3, 3).to(memory_format=memory), torch.randn(4)
    inputs = [x, w, b] if bias else [x, w]
    args = [T(0), T(1), T(2) if bias else None, [2, 1], [1, 0], [1, 1], False, [0, 0], 2]
    out = torch.ops.aten.convolution.default(x, w, b if bias else None, [2, 1], [1, 0], [1, 1], False, [0, 0], 2)
    program = p.call_program("aten.convolution.default", inputs, args, [out], reason="library", in_place=False)
    want = torch.nn.functional.conv2d(x.double(), w.double(), b.double() if bias else None, (2, 1), (1, 0), 1, 2)
    check(program, inputs, [want])
    assert p.executable(program)(*inputs)[0].stride() == out.stride()


def test_a_result_in_another_layout_is_copied() -> None:
    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    out = torch.empty(2, 4, 6, 6).to(memory_format=torch.channels_last)
    args = [T(0), T(1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    program = p.call_program("aten.convolution.default", [x, w], args, [out], reason="library", in_place=False)
    check(program, [x, w], [torch.nn.functional.conv2d(x.double(), w.double())])
    assert p.executable(program)(x, w)[0].stride() == out.stride()


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("scale", [None, 0.25])
def test_attention(masked: bool, scale: float | None) -> None:
    q, k, v = (torch.randn(2, 3, 17, 8) for _ in range(3))
    mask = torch.zeros(17, 17).masked_fill(torch.ones(17, 17).triu(1).bool(), float("-inf"))
    inputs = [q, k, v, mask] if masked else [q, k, v]
    kwargs = ([("attn_mask", T(3))] if masked else []) + ([("scale", scale)] if scale else [])
    eager = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    results = list(eager(q, k, v, 0.0, not masked, **{name: mask if name == "attn_mask" else value for name, value in kwargs}))
    program = p.call_program(
        "aten._scaled_dot_product_flash_attention_for_cpu.default", inputs, [T(0), T(1), T(2), 0.0, not masked], results,
        reason="library", in_place=False, kwargs=kwargs,
    )  # fmt: skip
    want = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), mask.double(), scale=scale)
    check(program, inputs, [want, results[1].double()])


@pytest.mark.parametrize("shape", [(), (3,)])
def test_seeds_are_those_of_torchs_generator(shape: tuple[int, ...]) -> None:
    given = [-(2**63), 2**63 - 1, list(shape)]
    program = p.call_program(
        "aten.randint.low", [], given, [torch.empty(shape, dtype=torch.int64)], reason="library", in_place=False,
        kwargs=[("device", "cpu")],
    )  # fmt: skip
    (step,) = program.steps
    assert library_call(step, "cpu") is not None
    run = p.executable(program)
    torch.manual_seed(5)
    got = [run()[0], run()[0]]
    torch.manual_seed(5)
    assert all(torch.equal(g, torch.randint(*given[:2], shape)) for g in got)
    assert not torch.equal(*got)


def test_a_failing_library_call_raises_torchs_error(capfd: pytest.CaptureFixture[str]) -> None:
    a, b = torch.randn(5, 7), torch.randn(6, 3)
    program = p.call_program("aten.mm.default", [a, b], [T(0), T(1)], [torch.empty(5, 3)], reason="library", in_place=True)
    run = p.executable(program)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        run(a, b)
    assert _native.pool_stats()["used"] >= 0
    capfd.readouterr()  # the shim prints what it caught


def test_fallbacks_with_results_of_their_own() -> None:
    x = torch.randn(4, 9)
    values, places = torch.sort(x, 1, descending=True)
    program = p.call_program("aten.sort.default", [x], [T(0), 1, True], [values, places], reason="fallback", in_place=False)
    check(program, [x], [values, places], 0)


def test_fallbacks_written_in_place() -> None:
    x = torch.randn(4, 9)
    for callee, args, want in [
        ("aten.cumprod.default", [T(0), 1], x.cumprod(1)),  # has an out variant
        ("aten.roll.default", [T(0), [2], [1]], x.roll(2, 1)),  # has one that copies
        ("aten.digamma.default", [T(0)], x.digamma()),
    ]:
        program = p.call_program(callee, [x], args, [torch.empty(4, 9)], reason="fallback", in_place=True)
        check(program, [x], [want], 1e-5)


def test_lists_of_tensors_dtypes_and_keywords() -> None:
    x, y = torch.randn(2, 3), torch.randn(4, 3)
    program = p.call_program("aten.cat.default", [x, y], [[T(0), T(1)], 0], [torch.empty(6, 3)], reason="fallback", in_place=False)
    check(program, [x, y], [torch.cat([x, y])], 0)
    program = p.call_program(
        "aten.full.default", [], [[2, 3], 7], [torch.empty(2, 3, dtype=torch.float64)], reason="fallback", in_place=False,
        kwargs=[("dtype", "torch.float64"), ("layout", "torch.strided"), ("device", "cpu"), ("pin_memory", False)],
    )  # fmt: skip
    check(program, [], [torch.full((2, 3), 7.0, dtype=torch.float64)], 0)


def test_a_fallback_that_returns_a_view_of_an_argument() -> None:
    x = torch.randn(4, 9)
    program = p.call_program("aten.select.int", [x], [T(0), 1, 3], [x[:, 3]], reason="fallback", in_place=False)
    run = p.executable(program)
    (column,) = run(x)
    assert torch.equal(column, x[:, 3])
    given = x.clone()
    (column,) = run(given)
    del given
    torch.full((4, 9), 5.0)
    assert torch.equal(column, x[:, 3])


def test_a_fallback_that_returns_a_view_of_the_arena() -> None:
    """x -> arena -> select: the view must not be overwritten by what the arena holds next."""
    x = torch.zeros(64)
    bufs = p.buffers(("input", 256), ("arena", 256), ("owned", 4), ("output", 256))
    call = p.Call("aten.select.int", "fallback", (p.ref(1, x), 0, 5), (), (), (p.ref(2, x[5]),), "select")
    steps = [p.inc(p.ref(0, x), p.ref(1, x)), call, p.inc(p.ref(1, x), p.ref(3, x)), p.inc(p.ref(3, x), p.ref(1, x))]
    run = p.executable(p.program([x], bufs, steps, [p.ref(2, x[5])]))
    assert run(x)[0].item() == 1


def test_owned_memory_is_released_after_its_last_use() -> None:
    x = torch.randn(1 << 16)
    size = p.nbytes(x)
    bufs = list(p.buffers(("input", size), ("owned", size), ("output", size)))
    bufs[1] = p.replace(bufs[1], last=1)
    neg = p.Call("aten.neg.default", "fallback", (p.ref(0, x),), (), (), (p.ref(1, x),), "neg")
    run = p.executable(p.program([x], tuple(bufs), [neg, p.inc(p.ref(1, x), p.ref(2, x))], [p.ref(2, x)]))
    for _ in range(3):
        assert torch.equal(run(x)[0], 1 - x)


def test_calls_record_no_gradients() -> None:
    x = torch.randn(4, 9, requires_grad=True)
    program = p.call_program("aten.digamma.default", [x], [T(0)], [torch.empty(4, 9)], reason="fallback", in_place=False)
    (y,) = p.executable(program)(x)
    assert not y.requires_grad and torch.is_grad_enabled()


def test_an_exception_in_a_call_reaches_the_caller() -> None:
    x = torch.randn(3, 4)
    program = p.call_program("aten.linalg_cholesky.default", [x], [T(0)], [x], reason="fallback", in_place=False)
    run = p.executable(program)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="square"):
            run(x)
