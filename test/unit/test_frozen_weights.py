"""Tests the native runner's products and convolutions with packed copies of weights, which only frozen inputs and constants
have."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import programs as p
import pytest
import torch
from programs import T

from lamina import _native
from lamina.core.program import Constant
from lamina.runtime import packing


def change(how: str, w: torch.Tensor) -> None:
    """Doubles a weight in ways that torch's version count does not see, but for the first."""
    if how == "in place":
        with torch.no_grad():
            w.mul_(2)
    elif how == "through data":
        w.data.mul_(2)
    elif how == "by numpy":
        w.detach().numpy()[:] *= 2
    else:
        w.data = w.data * 2


CHANGES = ["in place", "through data", "by numpy", "new data"]
SIZES = [(128, 192, 160), (17, 301, 515), (130, 1000, 33), (16, 4097, 127), (1000, 16, 129)]
# one of each rest of panels, tiles, chunks and blocks of native/product.cpp; the last are copied in several parts
ODD = [(m, 31 + m, k) for m, k in ((4, 1), (5, 7), (8, 255), (9, 256), (16, 257), (23, 1024), (64, 513), (101, 1025))]
ODD += [(7, 16, 1024), (24, 97, 4097), (1040, 19, 4099)]


class TestProductsThatPackNothing:
    """A weight that is not frozen is read at each call."""

    @pytest.mark.parametrize("transposed", [True, False])
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("sizes", [*SIZES, (1, 3000, 1000), (3000, 1, 1000), (3, 4097, 1000)])
    def test_right(self, sizes: tuple[int, int, int], bias: bool, transposed: bool) -> None:
        program, inputs, want = p.linear(*sizes, bias, transposed)
        run = p.executable(program)
        for _ in range(2):
            torch.testing.assert_close(run(*inputs)[0].double(), want, rtol=1e-4, atol=1e-3)

    @pytest.mark.parametrize("transposed", [True, False])
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("sizes", ODD)
    def test_as_exact_as_the_library(self, sizes: tuple[int, int, int], bias: bool, transposed: bool) -> None:
        program, inputs, want = p.linear(*sizes, bias, transposed)
        found = p.executable(program)(*inputs)[0].double()
        assert (found - want).norm() <= 6e-7 * want.norm()

    @pytest.mark.skipif(not _native.has_routine("product_tiles"), reason="this processor's products are a library's")
    def test_few_rows_read_the_weight_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        program, inputs, _ = p.linear(8, 3072, 768, True)
        tiles = p.executable(program)
        monkeypatch.setattr(packing, "ROWS_BY_TILES", 9)
        runs = {"tiles": tiles, "library": p.executable(program)}
        best = dict.fromkeys(runs, 1.0)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        for _ in range(20):
            for name, run in runs.items():
                start = time.thread_time()
                run(*inputs)
                best[name] = min(best[name], time.thread_time() - start)
        torch.set_num_threads(threads)
        assert best["tiles"] < 0.75 * best["library"]  # measured: 0.37

    @pytest.mark.parametrize("transposed", [True, False])
    def test_values_that_are_no_numbers_stay_in_their_rows_and_columns(self, transposed: bool) -> None:
        program, (x, w, b), _ = p.linear(37, 45, 130, True, transposed)
        x[5, 7], x[36, 129] = float("inf"), float("nan")
        (w if transposed else w.t())[44, 0] = float("inf")
        torch.testing.assert_close(p.executable(program)(x, w, b)[0], torch.addmm(b, x, w.t() if transposed else w), equal_nan=True)

    @pytest.mark.parametrize("how", CHANGES)
    def test_a_changed_weight_is_read(self, how: str) -> None:
        program, (x, w), want = p.linear(64, 256, 256, False)
        w = torch.nn.Parameter(w)
        run = p.executable(program)
        for _ in range(4):
            run(x, w)
        assert run.packed() == 0
        change(how, w)
        torch.testing.assert_close(run(x, w)[0].double(), 2 * want, rtol=1e-4, atol=1e-3)

    def test_one_changed_element_is_read(self) -> None:
        program, (x, w), _ = p.linear(64, 256, 256, False)
        run = p.executable(program)
        for _ in range(4):
            run(x, w)
        w.data[3, 5] = 100
        torch.testing.assert_close(run(x, w)[0], x @ w.t(), rtol=1e-4, atol=1e-2)


@pytest.fixture
def packs_products(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes products be packed on any processor; by default they are packed if that is faster."""
    monkeypatch.setattr(packing, "_packs_products", lambda: True)
    yield


@pytest.mark.usefixtures("packs_products")
@pytest.mark.skipif(not _native.has_routine("packed_gemm"), reason="this torch was built without MKL")
class TestPackedProducts:
    """Products with a frozen weight."""

    @pytest.mark.parametrize("transposed", [True, False])
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("sizes", SIZES)
    def test_right(self, sizes: tuple[int, int, int], bias: bool, transposed: bool) -> None:
        program, inputs, want = p.linear(*sizes, bias, transposed)
        run = p.executable(program, frozen=(1,))
        for _ in range(3):
            torch.testing.assert_close(run(*inputs)[0].double(), want, rtol=1e-4, atol=1e-3)
            assert run.packed() == 1

    def test_constants_are_packed(self) -> None:
        x, w = torch.randn(64, 256), torch.randn(256, 256)
        out = torch.empty(64, 256)
        bufs = p.buffers(("input", p.nbytes(x)), ("constant", p.nbytes(w)), ("output", p.nbytes(out)))
        result = p.ref(2, out)
        call = p.Call("aten.mm.default", "library", (p.ref(0, x), p.ref(1, w)), (), (result,), (), "mm")
        constant = Constant("f32", tuple(w.shape), w.numpy().tobytes())
        run = p.executable(p.program([x], bufs, [call], [result], [constant]))
        for _ in range(3):
            torch.testing.assert_close(run(x)[0].double(), x.double() @ w.double(), rtol=1e-4, atol=1e-3)
        assert run.packed() == 1

    def test_small_products_are_not_packed(self) -> None:
        program, inputs, _ = p.linear(8, 64, 64, False)
        run = p.executable(program, frozen=(1,))
        for _ in range(4):
            run(*inputs)
        assert run.packed() == 0

    @pytest.mark.parametrize("how", ["in place", "new data"])
    def test_another_weight_is_packed(self, how: str) -> None:
        program, (x, w), want = p.linear(64, 256, 256, False)
        w = torch.nn.Parameter(w)
        run = p.executable(program, frozen=(1,))
        for _ in range(3):
            run(x, w)
        change(how, w)
        torch.testing.assert_close(run(x, w)[0].double(), 2 * want, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(run(x, w.detach() * 2)[0].double(), 4 * want, rtol=1e-4, atol=1e-3)

    def test_threads_share_packed_weights(self) -> None:
        program, (x, w), _ = p.linear(64, 256, 256, False)
        run, other = p.executable(program, frozen=(1,)), w * 2
        wrong: list[int] = []

        def work(seed: int) -> None:
            weight = other if seed == 3 else w
            for i in range(12):
                given = x * (seed + i)
                if not torch.allclose(run(given, weight)[0], given @ weight.t(), rtol=1e-3, atol=1e-2):
                    wrong.append(seed)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert not wrong

    def test_packed_memory_is_bounded(self) -> None:
        program, inputs, want = p.linear(64, 256, 256, False)
        run = p.executable(program, frozen=(1,))
        used = _native.pack_bytes()
        try:
            _native.set_pack_limit(0)
            for _ in range(4):
                torch.testing.assert_close(run(*inputs)[0].double(), want, rtol=1e-4, atol=1e-3)
            assert run.packed() == 0 and _native.pack_bytes() == used
        finally:
            _native.set_pack_limit(1 << 32)
        run(*inputs)
        assert run.packed() == 1 and _native.pack_bytes() > used
        del run
        assert _native.pack_bytes() == used


@pytest.mark.skipif(not _native.has_routine("packed_convolution"), reason="this torch was built without oneDNN")
class TestConvolutions:
    """Convolutions with a channels-last result, whose weight is packed where it is frozen."""

    def make(self, groups: int, bias: bool, memory: torch.memory_format) -> tuple[Any, list[torch.Tensor], torch.Tensor]:
        x = torch.randn(2, 6, 13, 11).to(memory_format=memory)
        w, b = torch.randn(8, 6 // groups, 3, 3), torch.randn(8)
        inputs = [x, w, b] if bias else [x, w]
        args = [T(0), T(1), T(2) if bias else None, [2, 1], [1, 0], [1, 2], False, [0, 0], groups]
        want = torch.nn.functional.conv2d(x.double(), w.double(), b.double() if bias else None, (2, 1), (1, 0), (1, 2), groups)
        out = want.float().contiguous(memory_format=torch.channels_last)
        program = p.call_program("aten.convolution.default", inputs, args, [out], reason="library", in_place=False)
        return program, inputs, want

    @pytest.mark.parametrize("groups", [1, 2])
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
    @pytest.mark.parametrize("frozen", [(), (1,)])
    def test_right(self, groups: int, bias: bool, memory: torch.memory_format, frozen: tuple[int, ...]) -> None:
        program, inputs, want = self.make(groups, bias, memory)
        run = p.executable(program, frozen)
        for _ in range(3):
            (y,) = run(*inputs)
            torch.testing.assert_close(y.double(), want, rtol=1e-4, atol=1e-4)
            assert y.is_contiguous(memory_format=torch.channels_last)
            assert run.packed() == len(frozen)

    @pytest.mark.parametrize("how", CHANGES)
    def test_a_changed_weight_is_read(self, how: str) -> None:
        program, (x, w), want = self.make(1, False, torch.channels_last)
        run, w = p.executable(program), torch.nn.Parameter(w)
        for _ in range(4):
            run(x, w)
        assert run.packed() == 0
        change(how, w)
        torch.testing.assert_close(run(x, w)[0].double(), 2 * want, rtol=1e-4, atol=1e-3)

    @pytest.mark.parametrize("how", ["in place", "new data"])
    def test_another_weight_is_packed(self, how: str) -> None:
        program, (x, w), want = self.make(1, False, torch.channels_last)
        run, w = p.executable(program, frozen=(1,)), torch.nn.Parameter(w)
        used = _native.pack_bytes()
        for _ in range(3):
            run(x, w)
        assert run.packed() == 1 and _native.pack_bytes() > used
        change(how, w)
        torch.testing.assert_close(run(x, w)[0].double(), 2 * want, rtol=1e-4, atol=1e-3)
        del run
        assert _native.pack_bytes() == used
