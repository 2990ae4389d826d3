"""Compares handwritten tile programs, compiled for this processor and for one with fewer features, with numpy through the native
ABI."""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from torch_mlir import ir

from lamina.core.device import Cpu, host
from lamina.core.errors import CompileError
from lamina.core.target import Target
from lamina.dialects import context
from lamina.runtime.elf import read
from lamina.runtime.loader import Code
from lamina.targets import backend
from lamina.targets.base import Artifact
from lamina.targets.cpu.backend import CpuBackend, check_converted, lowering_pipeline

KERNELS = Path(__file__).parents[1] / "targets" / "Inputs" / "kernels.mlir"
KERNEL = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64, ctypes.c_int64)


def compile_text(source: str, target: str = "cpu") -> Artifact:
    with context(), ir.Location.unknown():
        return backend(Target.parse(target)).compile(ir.Module.parse(source))


class Loaded:
    """Compiled tile programs, called by name with numpy arrays."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact, self.code = artifact, Code(artifact.code, artifact.kernels)
        self.error = ctypes.c_int64(0)

    def __call__(self, name: str, programs: int, *arrays: np.ndarray, first: int = 0) -> None:
        pointers = [a.ctypes.data for a in arrays] + [ctypes.addressof(self.error)]
        KERNEL(self.code.addresses[name])((ctypes.c_void_p * len(pointers))(*pointers), first, programs)


def _runs_here(processor: str) -> bool:
    return not processor or host().simd_bits >= Cpu.named(processor).simd_bits


@pytest.fixture(scope="module", params=["cpu", "cpu:haswell", "cpu:x86-64-v4"])
def run(request: pytest.FixtureRequest) -> Loaded:
    if not _runs_here(request.param.partition(":")[2]):
        pytest.skip("this processor lacks the instructions")
    return Loaded(compile_text(KERNELS.read_text(), request.param))


def bf16_of(x: np.ndarray) -> np.ndarray:
    """The bits of the nearest bf16, ties to even."""
    b = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((b + 0x7FFF + ((b >> 16) & 1)) >> 16).astype(np.uint16)


def bf16_values(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def test_softmax(run: Loaded, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((37, 200)) * 5).astype(np.float32)
    o = np.zeros_like(x)
    run("softmax", 37, x, o)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(o, e / e.sum(1, keepdims=True), rtol=2e-6, atol=1e-12)


def test_reductions_keep_nan(run: Loaded, rng: np.random.Generator) -> None:
    x = rng.standard_normal((37, 200)).astype(np.float32)
    for row, column in ((3, 0), (5, 63), (7, 199)):
        x[row, column] = np.nan
    o = np.zeros_like(x)
    run("softmax", 37, x, o)
    assert np.isnan(o[[3, 5, 7]]).all() and np.isfinite(np.delete(o, [3, 5, 7], 0)).all()


def test_programs_of_a_range_only(run: Loaded, rng: np.random.Generator) -> None:
    x = rng.standard_normal((37, 200)).astype(np.float32)
    o = np.full_like(x, 7)
    run("softmax", 5, x, o, first=3)
    assert (o[:3] == 7).all() and (o[5:] == 7).all() and np.allclose(o[3:5].sum(1), 1)


def test_bf16_keeps_every_value(run: Loaded) -> None:
    every = np.arange(65536, dtype=np.uint16)
    for chunk in np.array_split(every, 66)[:65]:
        x = np.resize(chunk, 1001)
        o = np.zeros(1001, np.uint16)
        run("relu_bf16", 16, x, o)
        expected = np.where(bf16_values(x) < 0, np.uint16(0), x)
        same = (o == expected) | (np.isnan(bf16_values(o)) & np.isnan(bf16_values(expected)))
        assert same.all()


def test_transposes(run: Loaded, rng: np.random.Generator) -> None:
    x = rng.standard_normal((48, 64)).astype(np.float32)
    o = np.zeros((64, 48), np.float32)
    run("transpose", 12, x, o)
    assert (o == 2 * x.T).all()
    b = rng.integers(0, 65536, (37, 50), dtype=np.uint16)
    t = np.zeros((50, 37), np.uint16)
    run("transpose_edges", 12, b, t)
    assert (t == b.T).all()
    x = rng.standard_normal((8, 16)).astype(np.float32)
    o = np.zeros((16, 8), np.float32)
    run("transpose_write", 1, x, o)
    assert (o == x.T).all()


def test_column_sums(run: Loaded, rng: np.random.Generator) -> None:
    x = rng.standard_normal((33, 100)).astype(np.float32)
    o = np.zeros(100, np.float32)
    run("colsum", 2, x, o)
    np.testing.assert_allclose(o, x.astype(np.float64).sum(0), atol=1e-5)


def test_strided_column(run: Loaded, rng: np.random.Generator) -> None:
    x = rng.standard_normal((20, 7)).astype(np.float32)
    o = np.full((20, 5), 9, np.float32)
    run("column", 2, x, o)
    assert (o[:, 2] == x[:, 3] + 1).all() and (np.delete(o, 2, 1) == 9).all()


def test_gathers(run: Loaded, rng: np.random.Generator) -> None:
    table, o = rng.standard_normal(50).astype(np.float32), np.zeros(64, np.float32)
    index = rng.integers(0, 50, 64)
    run("take", 1, table, index, o)
    assert (o == table[index]).all() and run.error.value == 0
    x, o = rng.standard_normal(400).astype(np.float32), np.zeros((4, 50), np.float32)
    run("every", 1, x, o)
    for row, step in enumerate((1, 2, 3, 7)):
        assert (o[row] == x[1::step][:50]).all()


def test_bools_and_strides(run: Loaded, rng: np.random.Generator) -> None:
    x, o = rng.standard_normal(128).astype(np.float32), np.zeros(64, np.uint8)
    run("positive", 1, x, o)
    assert (o == (x[::2] > 0)).all()


def test_scratch_and_scan(run: Loaded, rng: np.random.Generator) -> None:
    x, d = rng.integers(-99, 99, (3, 9)), np.array([1, -1, 0, 7, -7, 3, 2, -2, 9])
    o = np.zeros((3, 9), np.int64)
    run("scan", 3, x, d, o)
    assert (o == x.cumsum(1) // np.where(d == 0, 1, d)).all()


@pytest.mark.parametrize("offset", [0, 1, 5])
def test_streaming_stores_at_any_address(run: Loaded, rng: np.random.Generator, offset: int) -> None:
    x, memory = rng.standard_normal(256).astype(np.float32), np.zeros(256 + 64, np.float32)
    start = (-memory.ctypes.data // 4) % 16 + offset
    o = memory[start : start + 256]
    run("stream", 4, x, o)
    assert (o == x + x).all() and not memory[:start].any() and not memory[start + 256 :].any()


def test_in_place(run: Loaded, rng: np.random.Generator) -> None:
    x = rng.standard_normal(64).astype(np.float32)
    y = x.copy()
    run("in_place", 1, y, y)
    assert (y == x + (x + x)).all()


def test_halves(run: Loaded, rng: np.random.Generator) -> None:
    n, d = rng.integers(-3000, 3000, 16), rng.standard_normal(16) * 100
    f, b, i = np.zeros((3, 16), np.float16), np.zeros((2, 16), np.uint16), np.zeros(16, np.int32)
    run("halves", 1, n, d, f, b, i)
    single = d.astype(np.float32)
    assert (f == [n.astype(np.float32).astype(np.float16), single.astype(np.float16), single.astype(np.float16)]).all()
    assert (b == [bf16_of(n), bf16_of(single)]).all()
    assert (i == bf16_values(bf16_of(n)).astype(np.int32)).all()


def test_extrema_keep_nan(run: Loaded, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((2, 64)).astype(np.float32)
    x[3], y[7], x[9], y[9] = np.nan, np.nan, np.nan, np.nan
    o = np.zeros((3, 64), np.float32)
    run("extrema", 1, x, y, o)
    np.testing.assert_array_equal(o, [np.maximum(x, y), np.minimum(x, y), np.maximum(x, 0)])


def test_division_never_traps(run: Loaded) -> None:
    least = np.iinfo(np.int32).min
    x = np.array([7, -7, least, least, 5, 0, 13, -13] * 2, np.int32)
    y = np.array([0, 0, -1, 1, -2, 3, 4, 4] * 2, np.int32)
    o = np.zeros((4, 16), np.int32)
    run("divide", 1, x, y, o)
    a, b = x.astype(np.int64), np.where(y == 0, 1, y).astype(np.int64)
    quotient = np.trunc(a / b).astype(np.int64)
    for row, expected in zip(o, (a // b, a - quotient * b, quotient), strict=False):
        assert (row == expected.astype(np.int32)).all()
    assert o[3, 4:8].tolist() == [(-2) ** 5, 3**0, 4**13, 0]


def test_checks_report_their_number(run: Loaded) -> None:
    messages = run.artifact.messages
    n = np.array(3)
    for index, limit, expected in ((1, 3, ""), (-1, 3, "index must not be negative"), (1, 99, "index out of range")):
        run.error.value = 0
        n[...] = limit
        run("checks", 1, np.full(64, index), n)
        assert (messages[run.error.value - 1] if run.error.value else "") == expected
    run.error.value = 0


def test_no_library_calls(run: Loaded) -> None:
    assert read(run.artifact.code).undefined == ()


def test_pipeline_of_the_lit_test_is_the_target_s() -> None:
    assert f"{lowering_pipeline()})'" in (KERNELS.parents[1] / "cpu.mlir").read_text()


def test_assembly_on_demand() -> None:
    artifact = compile_text(KERNELS.read_text())
    text = CpuBackend(Target.host()).assembly(artifact)
    assert all(f"{name}:" in text for name in artifact.kernels)
    if host().avx512:
        assert "zmm" in text and not re.search(r"call\w*\s+\*", text)


def test_unconverted_ops_are_named() -> None:
    with context(), ir.Location.unknown():
        module = ir.Module.parse('func.func @f() { "tile.program_id"() : () -> index loc("model.py":3:1) return }')
        with pytest.raises(CompileError, match="did not lower to LLVM"):
            check_converted(module)


def test_dynamic_shapes_are_refused() -> None:
    with pytest.raises(CompileError, match="static shape"):
        compile_text("func.func @f(%x: memref<?xf32>) attributes {tile.grid = 1 : i64} { return }")


def test_unknown_symbols_are_an_error_not_a_crash() -> None:
    source = """
    func.func private @no_such_function(f64) -> f64
    func.func @f(%x: memref<f64>) attributes {tile.grid = 1 : i64} {
      %v = memref.load %x[] : memref<f64>
      %w = func.call @no_such_function(%v) : (f64) -> f64
      memref.store %w, %x[] : memref<f64>
      return
    }"""
    artifact = compile_text(source)
    with pytest.raises(CompileError, match="calls no_such_function"):
        Code(artifact.code, artifact.kernels)


def test_f64_functions_of_the_c_library() -> None:
    source = """
    func.func @f(%x: memref<16xf64>) attributes {tile.grid = 1 : i64} {
      %c0 = arith.constant 0 : index
      %v = vector.load %x[%c0] : memref<16xf64>, vector<16xf64>
      %w = math.sin %v : vector<16xf64>
      vector.store %w, %x[%c0] : memref<16xf64>, vector<16xf64>
      return
    }"""
    x = np.linspace(-3, 3, 16)
    y = x.copy()
    Loaded(compile_text(source))("f", 1, y)
    np.testing.assert_allclose(y, np.sin(x), rtol=1e-15)


def test_bad_objects_are_refused() -> None:
    artifact = compile_text(KERNELS.read_text())
    for code in (b"", b"no object", artifact.code[:100], artifact.code[: len(artifact.code) // 2]):
        with pytest.raises(CompileError):
            Code(code, artifact.kernels)
    with pytest.raises(CompileError, match="no kernel other"):
        Code(artifact.code, ("other",))


def test_loader_imports_neither_llvm_nor_torch() -> None:
    check = "import sys, lamina.runtime.loader; print([m for m in sys.modules if m.split('.')[0] in ('torch', 'torch_mlir', 'llvmlite')])"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip() == "[]"
