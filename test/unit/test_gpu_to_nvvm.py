"""Tests lamina-gpu-to-nvvm in the simulator: results are bit-identical before and after."""

import numpy as np
import pytest
from gpu_simulator import simulate
from torch_mlir import ir

from lamina.dialects import context
from lamina.passes.lower.expand_math import ExpandMath
from lamina.passes.lower.gpu_to_nvvm import GpuToNvvm

COUNT = 4096


def kernel(body: str, of: str, inputs: int = 1) -> str:
    """o[i] = %r of x0[i], x1[i], four lanes a thread."""
    element = of.removeprefix("vector<4x").removesuffix(">")
    memory = f"memref<{COUNT}x{element}>"
    names = [f"%x{i}" for i in range(inputs)]
    loads = "\n".join(f"%v{i} = vector.load {n}[%i] : {memory}, {of}" for i, n in enumerate(names))
    return f"""gpu.module @kernels {{
      gpu.func @k({", ".join(f"{n}: {memory}" for n in names)}, %o: {memory}) kernel
          attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
        %t = gpu.thread_id x
        %b = gpu.block_id x
        %c4 = arith.constant 4 : index
        %c512 = arith.constant 512 : index
        %p = arith.muli %b, %c512 : index
        %q = arith.muli %t, %c4 : index
        %i = arith.addi %p, %q : index
        {loads}
        {body}
        vector.store %r, %o[%i] : {memory}, {of}
        gpu.return
      }}
    }}"""


def run(source: str, *inputs: np.ndarray) -> np.ndarray:
    with context(), ir.Location.unknown():
        module = ir.Module.parse(source)
        ExpandMath(target="nvvm").run(module)
        GpuToNvvm().run(module)
        assert module.operation.verify()
        out = np.empty_like(inputs[0])
        simulate(module, "k", [*inputs, out], COUNT // 512)
    return out


def values(rng: np.random.Generator, dtype: type = np.float32) -> np.ndarray:
    scale = rng.choice([1e-3, 1.0, 30.0, 1e4, 1e9], COUNT)
    with np.errstate(over="ignore"):
        x = (rng.standard_normal(COUNT) * scale).astype(dtype)
    x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    return x


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles(name: str, rng: np.random.Generator) -> None:
    x = values(rng)
    with np.errstate(invalid="ignore"):
        got, exact = (
            run(kernel(f"%r = math.{name} %v0 : vector<4xf32>", "vector<4xf32>"), x),
            getattr(np, name)(x.astype(np.float64)),
        )
    np.testing.assert_allclose(got, exact, rtol=4e-7, atol=1e-30)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_are_exact(dtype: type, rng: np.random.Generator) -> None:
    x, y = values(rng, dtype), rng.permutation(values(rng, dtype))
    of = f"vector<4xf{np.dtype(dtype).itemsize * 8}>"
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run(kernel(f"%r = arith.remf %v0, %v1 : {of}", of, 2), x, y), np.fmod(x, y))


def test_reductions_are_trees() -> None:
    x = np.arange(COUNT, dtype=np.float32)
    body = "%s = vector.reduction <add>, %v0 : vector<4xf32> into f32\n %r = vector.broadcast %s : f32 to vector<4xf32>"
    np.testing.assert_array_equal(run(kernel(body, "vector<4xf32>"), x), np.repeat(x.reshape(-1, 4).sum(1), 4))


def test_quotients_and_roots(rng: np.random.Generator) -> None:
    x, y = values(rng), rng.permutation(values(rng))
    body = "%d = arith.divf %v0, %v1 : vector<4xf32>\n %a = math.absf %d : vector<4xf32>\n %r = math.rsqrt %a : vector<4xf32>"
    with np.errstate(all="ignore"):
        exact = 1 / np.sqrt(np.abs(x.astype(np.float64) / y.astype(np.float64)))
        np.testing.assert_allclose(run(kernel(body, "vector<4xf32>", 2), x, y), exact, rtol=4e-7)


def test_halves_compute_in_f32(rng: np.random.Generator) -> None:
    x = values(rng, np.float16)
    body = "%s = arith.mulf %v0, %v0 : vector<4xf16>\n %r = math.floor %s : vector<4xf16>"
    with np.errstate(all="ignore"):
        exact = np.floor((x.astype(np.float32) * x.astype(np.float32)).astype(np.float16))
        np.testing.assert_array_equal(run(kernel(body, "vector<4xf16>"), x), exact)
