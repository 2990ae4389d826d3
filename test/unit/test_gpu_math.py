"""The GPU's formulas of f32 against float64 over the whole range, by an emulation of the hardware at its worst documented error."""

import numpy as np
import pytest
import torch
from gpu_emulator import Emulator
from test_math import BINARY, COUNT, FUNCTIONS, inputs, ulp_error
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects import context
from lamina.passes.expand_math import ExpandMath
from lamina.passes.gpu_math import F32, LATE

# bounds that differ from the CPU's; the docstrings state them
BOUNDS = {"exp": 2.5, "exp2": 2.5, "tanh": 4, "erf": 2, "rsqrt": 2, "sinh": 3, "atan": 2.5, "atan2": 4.5, "asin": 3, "atanh": 4.5}


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
    bound, reference = FUNCTIONS[function]
    bound = BOUNDS.get(function, bound)
    with context(), ir.Location.unknown():
        module = expanded(unary(f"math.{function}", 1 + (function in BINARY)))
        for seed in range(3):
            rng = np.random.default_rng(seed)
            arrays = inputs(function, rng)
            got = Emulator(rng)(module.body.operations[0].operation, *arrays)
            with np.errstate(all="ignore"):
                exact = reference(*[torch.from_numpy(a.astype(np.float64)) for a in arrays]).numpy()
            error = ulp_error(got, exact)
            worst = int(np.argmax(error))
            assert error[worst] <= bound, (function, [a[worst] for a in arrays], got[worst], exact[worst], error[worst])
            zeros = (exact == 0) & (got == 0)
            assert (np.signbit(got) == np.signbit(exact))[zeros].all(), "sign of zero"


def op_names(module: ir.Module) -> list[str]:
    names: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        names.append(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return names


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
    assert text.count("math.exp2") == 1 and text.count("fastmath<afn>") == 2 and "math.exp " not in text


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


def test_f64_without_code_is_an_error() -> None:
    with context(), ir.Location.unknown():
        with pytest.raises(CompileError, match="math.sin of f64 has no GPU code"):
            expanded(unary("math.sin", shape="vector<4xf64>"))
        assert "math.exp" not in op_names(expanded(unary("math.exp", shape="vector<4xf64>")))
        assert "afn" not in str(expanded(unary("math.sqrt", shape="f64")))


def test_unknown_targets_are_refused() -> None:
    with context(), ir.Location.unknown(), pytest.raises(CompileError, match="knows no target 'tpu'"):
        ExpandMath(target="tpu").run(ir.Module.parse("module {}"))
