"""Compares the simulator's own arithmetic with Python's numbers; the rest is the compiler's evaluator's."""

import math
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from gpu_kernels import kernel
from gpu_simulator import poison, simulate

MASK = (1 << 32) - 1
INTS = [0, 1, -1, 7, -7, 8, 31, 1000, -1000, 123456789, -987654321, 2**31 - 1, -(2**31), 2**31 - 2, -(2**31) + 1, 65536] * 2
DIVISORS = [3, -3, 1, 2, 5, -7, 1000, 2**31 - 1, -(2**31), 16, 10, 4, 3, -2, 7, 9] * 2


def signed(n: int) -> int:
    """Returns the i32 with these bits."""
    return struct.unpack("<i", struct.pack("<I", n & MASK))[0]


def truncated(a: int, b: int) -> int:
    return int(Fraction(a, b))


@pytest.mark.parametrize(
    ("op", "want"),
    [
        ("arith.divsi", truncated),
        ("arith.remsi", lambda a, b: a - b * truncated(a, b)),
        ("arith.floordivsi", lambda a, b: a // b),
        ("arith.ceildivsi", lambda a, b: -(-a // b)),
        ("arith.divui", lambda a, b: (a & MASK) // (b & MASK)),
        ("arith.remui", lambda a, b: (a & MASK) % (b & MASK)),
        ("arith.ceildivui", lambda a, b: -(-(a & MASK) // (b & MASK))),
        ("arith.minui", lambda a, b: min(a & MASK, b & MASK)),
        ("arith.maxsi", max),
        ("arith.muli", lambda a, b: a * b),
        ("arith.shrui", lambda a, b: 0 if b & MASK > 31 else (a & MASK) >> b),
    ],
)
def test_integers(op: str, want: Callable[[int, int], int]) -> None:
    memref, vector = "memref<128xi32>", "vector<4xi32>"
    body = f"""
        %i = arith.muli %t, %c4 : index
        %a = vector.load %x[%i] : {memref}, {vector}
        %d = vector.load %y[%i] : {memref}, {vector}
        %r = {op} %a, %d : {vector}
        vector.store %r, %z[%i] : {memref}, {vector}"""
    a, b = np.array(INTS * 4, np.int32), np.array(DIVISORS * 4, np.int32)
    z = poison(128, torch.int32)
    simulate(kernel(f"%x: {memref}, %y: {memref}, %z: {memref}", body), "k", [a, b, z], 1, outputs=[2])
    assert z.tolist() == [signed(want(int(x), int(y))) for x, y in zip(a, b, strict=True)]


def on_each(ops: str, x: np.ndarray, source: str, to: str, dtype: torch.dtype) -> list:
    """Returns %r of `ops` for each of the 32 elements of `x` as %a."""
    body = f"""
        %a = memref.load %x[%t] : memref<32x{source}>
        {ops}
        memref.store %r, %z[%t] : memref<32x{to}>"""
    z = poison(32, dtype)
    simulate(kernel(f"%x: memref<32x{source}>, %z: memref<32x{to}>", body), "k", [x, z], 1, outputs=[1])
    return z.tolist()


def test_both_halves_of_a_product() -> None:
    x = np.array(INTS, np.int32)
    by = -766435501  # of Philox: 0xD2511F53
    ops = f"%m = arith.constant {by} : i32\n"
    unsigned = on_each(ops + "%lo, %r = arith.mului_extended %a, %m : i32", x, "i32", "i32", torch.int32)
    assert unsigned == [signed((n & MASK) * (by & MASK) >> 32) for n in INTS]
    assert on_each(ops + "%lo, %r = arith.mulsi_extended %a, %m : i32", x, "i32", "i32", torch.int32) == [
        n * by >> 32 for n in INTS
    ]


def test_bit_counts() -> None:
    x = np.array(INTS, np.int32)
    assert on_each("%r = math.ctlz %a : i32", x, "i32", "i32", torch.int32) == [32 - (n & MASK).bit_length() for n in INTS]
    assert on_each("%r = math.ctpop %a : i32", x, "i32", "i32", torch.int32) == [(n & MASK).bit_count() for n in INTS]
    lowest = [(n & -n).bit_length() - 1 if n else 32 for n in INTS]
    assert on_each("%r = math.cttz %a : i32", x, "i32", "i32", torch.int32) == lowest


def test_floats_to_integers_saturate() -> None:
    x = np.array([0.0, -0.5, 1.9, -1.9, 3e9, -3e9, math.inf, math.nan] * 4, np.float32)
    want = [0, 0, 1, -1, 2**31 - 1, -(2**31), 2**31 - 1, 0] * 4
    assert on_each("%r = arith.fptosi %a : f32 to i32", x, "f32", "i32", torch.int32) == want
    want = [signed(n) for n in (0, 0, 1, 0, 3000000000, 0, MASK, 0)] * 4
    assert on_each("%r = arith.fptoui %a : f32 to i32", x, "f32", "i32", torch.int32) == want


@pytest.mark.parametrize(("type_", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_fma_rounds_once(type_: str, dtype: type) -> None:
    x = np.random.default_rng(0).standard_normal(32).astype(dtype)
    ops = f"%p = arith.mulf %a, %a : {type_}\n%n = arith.negf %p : {type_}\n%r = math.fma %a, %a, %n : {type_}"
    got = on_each(ops, x, type_, type_, torch.float32 if dtype is np.float32 else torch.float64)
    assert got == [float(Fraction(float(v)) ** 2 - Fraction(float(v * v))) for v in x]


def test_nan_of_maximum() -> None:
    x = np.array([math.nan, 1.0, -1.0, -0.0] * 8, np.float32)
    zero = "%z0 = arith.constant 0.0 : f32\n"
    got = on_each(zero + "%r = arith.maximumf %a, %z0 : f32", x, "f32", "f32", torch.float32)
    assert math.isnan(got[0]) and got[1:4] == [1.0, 0.0, 0.0] and math.copysign(1, got[3]) == 1
    assert on_each(zero + "%r = arith.maxnumf %a, %z0 : f32", x, "f32", "f32", torch.float32)[:3] == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("ops", "want"),
    [
        ("%r = nvvm.rcp.approx.ftz.f %a : f32", lambda v: 1 / v),
        ('%r = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%a) : (f32) -> f32', lambda v: 2**v),
        ('%r = nvvm.inline_ptx "tanh.approx.f32 {$w0}, {$r0};" ro (%a : f32) -> f32', math.tanh),
        ('%r = llvm.inline_asm "lg2.approx.f32 $0, $1;", "=f,f" %a : (f32) -> f32', math.log2),
    ],
)
def test_hardware_approximations(ops: str, want: Callable[[float], float]) -> None:
    x = np.linspace(0.1, 5, 32, dtype=np.float32)
    np.testing.assert_allclose(on_each(ops, x, "f32", "f32", torch.float32), [want(float(v)) for v in x], rtol=1e-6, atol=1e-7)


def test_results_too_small_are_flushed() -> None:
    x = np.full(32, -130.0, np.float32)
    assert on_each("%r = math.exp2 %a fastmath<afn> : f32", x, "f32", "f32", torch.float32) == [0.0] * 32
    assert on_each("%r = math.exp2 %a : f32", x, "f32", "f32", torch.float32) == [2.0**-130] * 32
