"""Compares every expanded math function of f32 with float64, and of f64 with long double: error in ulp over the whole range."""

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_mlir import ir

from lamina.core.device import host
from lamina.core.target import Target
from lamina.dialects import context
from lamina.passes.lower.polynomials import F32, F64
from lamina.runtime.loader import Code
from lamina.targets.cpu.backend import CpuBackend

COUNT = 1 << 16
LANES = 64
KERNEL = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64, ctypes.c_int64)
PAGE = Path(__file__).parents[2] / "docs" / "numerics.md"
# the float64 reference of each function
FUNCTIONS = {
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log10": torch.log10,
    "log1p": torch.log1p, "tanh": torch.tanh, "erf": torch.erf, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
    "rsqrt": torch.rsqrt, "powf": torch.pow, "atan": torch.atan, "atan2": torch.atan2, "asin": torch.asin, "acos": torch.acos,
    "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh,
}  # fmt: skip
# the inputs with the largest errors of all 2**32 (test/unit/sweep_math.py), on GPUs of 2**25, as bits; tests take neighbors too
WORST = {
    "exp": (0x40A664C0, 0x40A67634, 0x42B16CE4), "exp2": (0xBEFDF4FB, 0xBEFE866B), "expm1": (0x4187E3A0, 0x4187DD08),
    "log": (0x3FC7DD04, 0x3FC9D5D1), "log2": (0x3FB2DE7E, 0x3FB3159E, 0x3FAB9640), "log10": (0x3FA9A534, 0x3FAA5678, 0x3FAAAB5C),
    "log1p": (0x3EFFFFFF, 0xBE804C1B, 0x3EAAC6F3), "tanh": (0x3F1A430A, 0x3F1B4A3C, 0x3F0E62EA, 0x3F31AB4F), "erf": (0x3F7475A5, 0x3F745AB4),
    "sin": (0x4F171ABB, 0x595AB5D3), "cos": (0x74795BD1, 0x64BEBFD0), "tan": (0x47BE085A, 0x529DF8A0, 0x76C5B2F0),
    "asinh": (0x3F049176, 0x3F050B21), "sinh": (0x3DFE0996, 0x3DF81598), "atanh": (0x3DEA6044, 0x3C7EC7E1),
    "acosh": (0x3F834AD8, 0x3F80E515), "atan": (0x3F915914, 0x3FB28206), "asin": (0x3F0200B9, 0x3F01F06D), "acos": (0x3F11FAD6,),
    "cosh": (0x40A666ED, 0x3F88CFBB), "rsqrt": (0x0580CAB3, 0x3E55B7BD),
}  # fmt: skip
WORST_PAIRS = {"atan2": ((0xC1F1BA5A, 0x437077B7), (0x67FA018A, 0x6A7A0013)), "powf": ((0x3D77F691, 0x3E80C8EA),)}
BINARY = {"powf", "atan2"}
DOUBLE = {"exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh}
# the largest errors of millions of random inputs
WORST_DOUBLE = {
    "exp": (41.94373682518119, 0.3542813082093764), "expm1": (0.3605387005650999, 0.3578682068603326),
    "log": (1.4006500185863582, 0.699679641361299), "log1p": (-0.2537820009973365, 0.34051550115719437),
    "tanh": (0.12512356893408078, 0.21722107299716298, 0.24724269646109429),
}  # fmt: skip
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-45, -1e-45, 2.0**-126, 3.4028235e38,
     -3.4028235e38, 88.72283, 88.72284, -87.33654, -87.33655, -103.97208, -103.97209, -104.5, 89.41599, 89.416, 128.0, 127.99999,
     -149.0, -149.5, -150.0, 9.01, 9.02, 3.92, 4.05, 16777216.0, 16777215.0, 8388608.5, 1e5, 100000.01, 1e22, 0.9999999,
     1.0000001, -0.99999994, np.pi / 2, np.pi, 2.0**-25, -(2.0**-25), 2.0**-24, 710.0, 1e10, -1e10],
    dtype=np.float32,
)  # fmt: skip


def stated(section: str) -> dict[str, float]:
    """Returns the bounds in ulp from the table of docs/numerics.md with this heading: rows of names and a number, or as many
    numbers."""
    found = {}
    for line in PAGE.read_text().split(section, 1)[1].split("\n\n")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for names, bounds in zip(cells[0::2], cells[1::2], strict=False):
            numbers = [float(n) for n in bounds.split(",") if re.fullmatch(r"\s*[\d.]+\s*", n)]
            listed = [n.strip() for n in names.split(",")]
            if numbers:
                found |= dict(zip(listed, numbers if len(numbers) > 1 else numbers * len(listed), strict=True))
    return found


F32_BOUNDS = stated("| f32 | ulp | f32 | ulp | f32 | ulp |\n")
F64_BOUNDS = stated("| f64 | ulp |\n")


def kernel(function: str, lanes: int, element: str = "f32") -> str:
    """o[i] = function(x[i], ...) for COUNT elements, `lanes` at a time (0: scalars)."""
    of = f"vector<{lanes}x{element}>" if lanes else element
    memory = f"memref<{COUNT}x{element}>"
    load, store = ("vector.load", "vector.store") if lanes else ("memref.load", "memref.store")
    tail = f", {of}" if lanes else ""
    inputs = range(2 if function in BINARY else 1)
    loads = "\n".join(f"%v{i} = {load} %x{i}[%j] : {memory}{tail}" for i in inputs)
    arguments = ", ".join(f"%x{i}: {memory}" for i in inputs)
    return f"""
    func.func @{function}_{lanes}_{element}({arguments}, %o: {memory}) attributes {{tile.grid = 1 : i64}} {{
      %c0 = arith.constant 0 : index
      %n = arith.constant {COUNT} : index
      %s = arith.constant {lanes or 1} : index
      scf.for %j = %c0 to %n step %s {{
        {loads}
        %r = math.{function} {", ".join(f"%v{i}" for i in inputs)} : {of}
        {store} %r, %o[%j] : {memory}{tail}
      }}
      return
    }}"""


class Compiled:
    def __init__(self, source: str, target: CpuBackend) -> None:
        with context(), ir.Location.unknown():
            artifact = target.compile(ir.Module.parse(source))
        self.code = Code(artifact.code, artifact.kernels)

    def __call__(self, name: str, *inputs: np.ndarray) -> np.ndarray:
        out = np.empty(COUNT, inputs[0].dtype)
        arrays = [*inputs, out]
        KERNEL(self.code.addresses[name])((ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays]), 0, 1)
        return out


@pytest.fixture(scope="module", params=["", "haswell"])
def compiled(request: pytest.FixtureRequest) -> Compiled:
    """For this processor and for one without AVX-512, where powers of two are multiplied otherwise."""
    if host().simd_bits < 256 and request.param:
        pytest.skip("this processor lacks the instructions")
    source = "".join(kernel(name, lanes) for name in FUNCTIONS for lanes in (LANES, 0))
    source += "".join(kernel(name, lanes, "f64") for name in DOUBLE for lanes in (LANES // 2, 0))
    return Compiled(source, CpuBackend(Target.parse(f"cpu:{request.param}" if request.param else "cpu")))


def any_floats(rng: np.random.Generator, count: int) -> np.ndarray:
    """Every exponent, denormals, infinities and NaN alike."""
    return rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)


def inputs(function: str, rng: np.random.Generator) -> list[np.ndarray]:
    """Arrays of COUNT: all bit patterns, then values where functions bend, then the special ones."""
    wide = [np.concatenate([any_floats(rng, COUNT // 2), scaled(rng, COUNT // 2)]) for _ in range(1 + (function in BINARY))]
    if function in BINARY:
        pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL], np.float32)
        for array, column in zip(wide, pairs.T, strict=True):
            array[: len(pairs)] = column
        worst = np.array(WORST_PAIRS[function], np.uint32).view(np.float32)
        for array, column in zip(wide, worst.T, strict=True):
            array[len(pairs) :][: len(worst)] = column
    else:
        wide[0][: len(SPECIAL)] = SPECIAL
        for i, bits in enumerate(WORST.get(function, ())):
            near = np.array(bits, np.uint32) + rng.integers(-256, 257, 512)
            near[0] = bits
            wide[0][len(SPECIAL) + 512 * i :][:512] = near.astype(np.uint32).view(np.float32)
    return wide


def scaled(rng: np.random.Generator, count: int) -> np.ndarray:
    scale = rng.choice([1e-3, 0.1, 1.0, 3.0, 10.0, 40.0, 100.0, 1e4], count)
    values = rng.standard_normal(count) * scale
    near_one = 1 + rng.standard_normal(count) * rng.choice([1e-6, 1e-3, 0.1], count)
    return np.where(rng.random(count) < 0.2, near_one, values).astype(np.float32)


def ulp_error(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the f32 result; 0 where both are NaN or the rounded values are equal."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        last = np.spacing(np.minimum(np.abs(rounded), np.float32(3.4028235e38))).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact) / np.abs(last)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error = np.where(same, np.minimum(np.nan_to_num(error, nan=0.0, posinf=0.0), 0.5), error)
    # one beyond the largest float, where rounding decides between it and infinity
    error = np.where(np.isinf(got) & (np.abs(exact) > 3.40282346e38) & (np.sign(got) == np.sign(exact)), 0.5, error)
    return np.where(np.isnan(got) != np.isnan(exact), np.inf, error)


def test_largest_errors_are_those_of_the_page(compiled: Compiled) -> None:
    stated = re.findall(r"(\d\.\d\d) for (\w+)", PAGE.read_text().split("The largest errors found", 1)[1].split("\n\n")[0])
    assert stated
    for number, name in stated:
        x = np.ones(COUNT, np.float32)
        x[: len(WORST[name])] = np.array(WORST[name], np.uint32).view(np.float32)
        exact = FUNCTIONS[name](torch.from_numpy(x.astype(np.float64))).numpy()
        assert ulp_error(compiled(f"{name}_{LANES}_f32", x), exact).max() <= float(number) + 0.005, name


def check(function: str, name: str, run: Compiled, seed: int) -> float:
    arrays = inputs(function, np.random.default_rng(seed))
    return worst_error(function, arrays, run(name, *arrays), F32_BOUNDS[function])


def worst_error(function: str, arrays: Sequence[np.ndarray], got: np.ndarray, bound: float) -> float:
    """Returns the largest error of a function's values, in units of the last place; it must be within a bound."""
    with np.errstate(all="ignore"):  # signalling NaNs become quiet ones
        exact = FUNCTIONS[function](*[torch.from_numpy(a.astype(np.float64)) for a in arrays]).numpy()
    error = ulp_error(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, (function, [a[worst] for a in arrays], got[worst], exact[worst], error[worst])
    zeros = (exact == 0) & (got == 0)
    assert (np.signbit(got) == np.signbit(exact))[zeros].all(), "sign of zero"
    return float(error[worst])


def test_table_is_complete() -> None:
    assert {f"math.{name}" for name in [*FUNCTIONS, "fpowi"]} == set(F32)
    assert {f"math.{name}" for name in [*DOUBLE, "fpowi"]} == set(F64)
    assert set(F32_BOUNDS) == set(FUNCTIONS) and set(F64_BOUNDS) == set(DOUBLE)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("lanes", [LANES, 0])
def test_whole_range(function: str, lanes: int, compiled: Compiled) -> None:
    for seed in range(4):
        check(function, f"{function}_{lanes}_f32", compiled, seed)


@pytest.mark.parametrize("function", DOUBLE)
@pytest.mark.parametrize("lanes", [LANES // 2, 0])
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is no wider than double")
def test_double(function: str, lanes: int, compiled: Compiled) -> None:
    bound, reference = F64_BOUNDS[function], DOUBLE[function]
    rng = np.random.default_rng(lanes)
    x = np.concatenate([rng.integers(0, 1 << 64, COUNT // 2, dtype=np.uint64).view(np.float64), scaled(rng, COUNT // 2)])
    x[: len(SPECIAL)] = SPECIAL
    x[len(SPECIAL) :][:8] = [709.78, 709.79, -745.1, -745.2, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308]
    for i, value in enumerate(WORST_DOUBLE[function]):
        x[1000 * (i + 1) :][:1000] = value * (1 + np.arange(1000) * 2.0**-52)
    got = compiled(f"{function}_{lanes}_f64", x)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.longdouble))
        rounded = exact.astype(np.float64)
        last = np.spacing(np.minimum(np.abs(rounded), np.finfo(np.float64).max)).astype(np.longdouble)
        error = np.abs(got.astype(np.longdouble) - exact) / last
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error = np.where(same, 0, np.where(np.isfinite(got) & np.isfinite(rounded), error, np.inf))
    worst = int(np.argmax(error))
    assert error[worst] <= bound, (x[worst], got[worst], exact[worst], error[worst])
    zeros = rounded == 0
    assert (np.signbit(got) == np.signbit(rounded))[zeros].all(), "sign of zero"
