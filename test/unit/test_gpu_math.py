"""Compares the GPU's formulas of f32 with float64 over the whole range, by an emulation of the hardware with its worst documented
errors."""

from collections.abc import Callable

import numpy as np
import pytest
from gpu_emulator import Emulator
from test_math import BINARY, COUNT, F32_BOUNDS, inputs, stated, worst_error
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects import context
from lamina.passes.infra.pipeline import run
from lamina.passes.lower.expand_math import ExpandMath
from lamina.passes.lower.gpu_math import F32, LATE

BOUNDS = F32_BOUNDS | stated("| f32 | ulp | instructions | computed from |\n")


def expanded(source: str) -> ir.Module:
    module = ir.Module.parse(source)
    ExpandMath(target="nvvm").run(module)
    assert module.operation.verify()
    return module


def unary(name: str, count: int = 1, shape: str = f"vector<{COUNT}xf32>") -> str:
    arguments = ", ".join(f"%x{i}" for i in range(count))
    typed = ", ".join(f"%x{i}: {shape}" for i in range(count))
    return f"func.func @f({typed}) -> {shape} {{ %r = {name} {arguments} : {shape} return %r : {shape} }}"


@pytest.mark.parametrize("function", sorted({name.removeprefix("math.") for name in F32} - {"fpowi"} | {"rsqrt"}))
def test_whole_range(function: str) -> None:
    with context(), ir.Location.unknown():
        module = expanded(unary(f"math.{function}", 1 + (function in BINARY)))
        for seed in range(3):
            rng = np.random.default_rng(seed)
            arrays = inputs(function, rng)
            worst_error(function, arrays, Emulator(rng)(module.body.operations[0].operation, *arrays), BOUNDS[function])


def op_names(module: ir.Module) -> list[str]:
    names: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        names.append(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return names


SILU = """func.func @f(%x: SHAPE) -> SHAPE {
  %one = arith.constant dense<1.0> : SHAPE
  %n = arith.negf %x : SHAPE
  %e = math.exp %n : SHAPE
  %d = arith.addf %one, %e : SHAPE
  %q = arith.divf %x, %d : SHAPE
  REST
}"""


def test_silu_of_f32() -> None:
    """The error is at most 5 * 2**-23, or what is lost where the reciprocal would be denormal."""
    source = SILU.replace("REST", "return %q : SHAPE").replace("SHAPE", f"vector<{COUNT}xf32>")
    check_silu(source, lambda exact: np.abs(exact) * 5 * 2.0**-23 + 2.0**-119)


def test_silu_of_half_results_is_shorter() -> None:
    """Before rounding the relative error is 2**-16."""
    rest = "%t = arith.truncf %q : SHAPE to HALF\n %w = arith.extf %t : HALF to SHAPE\n return %w : SHAPE"
    source = SILU.replace("REST", rest).replace("HALF", f"vector<{COUNT}xf16>").replace("SHAPE", f"vector<{COUNT}xf32>")
    with context(), ir.Location.unknown():
        text = str(expanded(source))
    assert "arith.maxnumf" not in text and text.count("fastmath<arcp,afn>") == 1
    check_silu(source, lambda exact: np.abs(exact) * (2.0**-11 + 2.0**-16) + 2.0**-24)


def check_silu(source: str, allowed: Callable[[np.ndarray], np.ndarray]) -> None:
    with context(), ir.Location.unknown():
        module = expanded(source)
        for seed in range(3):
            rng = np.random.default_rng(seed)
            x = inputs("exp", rng)[0]
            got = Emulator(rng)(module.body.operations[0].operation, x).astype(np.float64)
            with np.errstate(all="ignore"):
                wide = x.astype(np.float64)
                exact = wide / (1 + np.exp(-wide))
                usual = np.isfinite(exact) & (np.abs(exact) < 65000)
                assert (np.abs(got - exact)[usual] <= allowed(exact)[usual]).all()
                assert (np.isnan(got) == np.isnan(exact)).all()


@pytest.mark.parametrize("shape", ["f32", "vector<8xf32>", "bf16", "vector<4xf16>"])
def test_sigmoid_is_two_approximations(shape: str) -> None:
    source = f"""func.func @f(%x: {shape}) -> {shape} {{
      %one = arith.constant {"dense<1.0>" if "<" in shape else "1.0"} : {shape}
      %n = arith.negf %x : {shape}
      %e = math.exp %n : {shape}
      %d = arith.addf %e, %one : {shape}
      %r = arith.divf %one, %d : {shape}
      return %r : {shape}
    }}"""
    with context(), ir.Location.unknown():
        text = str(expanded(source))
    assert text.count("math.exp2") == 1 and text.count("afn>") == 2 and "math.exp " not in text


def test_quotients_that_become_integers_stay_exact() -> None:
    source = """func.func @f(%x: f32, %y: f32) -> f32 {
      %q = arith.divf %x, %y : f32
      %r = math.floor %q : f32
      return %r : f32
    }"""
    with context(), ir.Location.unknown():
        assert "afn" not in str(expanded(source))


def test_angles_are_left_to_threads() -> None:
    with context(), ir.Location.unknown():
        for name in LATE:
            assert name in op_names(expanded(unary(name, shape="vector<4xf32>")))


def test_f64_keeps_ieee_s_roots() -> None:
    with context(), ir.Location.unknown():
        assert "math.exp" not in op_names(expanded(unary("math.exp", shape="vector<4xf64>")))
        assert "afn" not in str(expanded(unary("math.sqrt", shape="f64")))


def test_unknown_targets_are_refused() -> None:
    with context(), ir.Location.unknown(), pytest.raises(CompileError, match="option 'target' .* is cpu or nvvm, given 'tpu'"):
        run("builtin.module(lamina-expand-math{target=tpu})", ir.Module.parse("module {}"))
