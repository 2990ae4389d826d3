"""Compares users' kernels in CUDA C++, and users' Triton kernels with epilogues, with float64 on a GPU."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton
from custom_kernels import scaled_add
from test_custom_cuda import cuda_of
from test_custom_epilogues import FUSED, HOOK, hooked, product, product_kernel
from test_on_gpu_custom import BF16, ENTRY_POINTS, compiled, near, stands_between_ours
from torch import Tensor

import lamina

TYPED = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <typename T> __global__ void scaled_add(const T* x, const T* y, T* out, int n, float alpha) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = T(float(x[i]) + alpha * float(y[i]));
}
"""
TURNED = r"""
extern "C" __global__ void __launch_bounds__(SIDE * SIDE / 4) turned(const float* x, float* out, int rows, int columns) {
    extern __shared__ float tile[];
    int row = blockIdx.y * SIDE + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
    for (int i = 0; i < SIDE; i += blockDim.y)
        if (row + i < rows && column < columns) tile[(threadIdx.y + i) * (SIDE + 1) + threadIdx.x] = x[(row + i) * columns + column];
    __syncthreads();
    row = blockIdx.x * SIDE + threadIdx.y, column = blockIdx.y * SIDE + threadIdx.x;
    for (int i = 0; i < SIDE; i += blockDim.y)
        if (row + i < columns && column < rows) out[(row + i) * rows + column] = tile[threadIdx.x * (SIDE + 1) + threadIdx.y + i];
}
"""
NUMBERS = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__constant__ float twice[2] = {2, 4};
__device__ __noinline__ float sum(float a, float b) { return a + b; }
extern "C" __global__ void numbers(const float4* x, float* out, bool yes, signed char a, unsigned short b, long long c, double d,
                                   __half e, __nv_bfloat16 f, const float* none) {
    float v = (yes ? 1 : 100) + a + b + float(c >> 32) + float(d) + __half2float(e) + __bfloat162float(f) + (none ? 1000 : 0);
    out[threadIdx.x] = sum(x[threadIdx.x / 4].x, v) * twice[1];
}
"""


@torch.library.custom_op("lamina_test::turned", mutates_args=())
def turned(x: Tensor) -> Tensor:
    return x.t().contiguous()


@turned.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(x.shape[1], x.shape[0])


def typed_of(**changes: Any) -> lamina.CustomKernel:
    return cuda_of(TYPED, **{"kernel": "scaled_add<ELEMENT>", "constants": {"ELEMENT": lambda x: x.dtype}, **changes})


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("dtype", [torch.float32, BF16, torch.float16])
def test_between_kernels_of_ours(entry_point: str, dtype: torch.dtype) -> None:
    stands_between_ours(typed_of(), entry_point, dtype)


@pytest.mark.parametrize("graphs", [True, False])
def test_blocks_of_two_dimensions_with_shared_memory(graphs: bool) -> None:
    kernel = lamina.custom_kernel(
        turned,
        source=TURNED,
        when=lambda x: x.is_contiguous(),
        arguments=lambda x, out: (x, out, *x.shape),
        constants={"SIDE": 32},
        threads=lambda SIDE: (SIDE, SIDE // 4),
        shared=lambda SIDE: 4 * SIDE * (SIDE + 1),
        grid=lambda x, SIDE: (triton.cdiv(x.shape[1], SIDE), triton.cdiv(x.shape[0], SIDE)),
    )
    x = torch.randn(333, 70, device="cuda")
    run = compiled("lamina.compile", lambda x: turned(x + 1) * 2, (x,), kernels=[kernel], cuda_graphs=graphs)
    for _ in range(4):
        near(run(x), (x.double() + 1).t() * 2)


def test_numbers_of_all_kinds() -> None:
    kernel = cuda_of(
        NUMBERS, arguments=lambda x, out: (x, out, True, -3, 65535, 5 << 32, 0.25, 1.5, -2.5, None), grid=lambda: 1, threads=64
    )
    x = torch.zeros(64, device="cuda")
    found = compiled("lamina.compile", scaled_add, (x, x), kernels=[kernel])(x, x)
    assert (found == (1 - 3 + 65535 + 5 + 0.25 + 1.5 - 2.5) * 4).all()


def test_configs_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(tmp_path / "store.json"))
    x, y = (torch.randn(1 << 24, device="cuda") for _ in range(2))
    kernel = typed_of(configs=[{"threads": 32}, {"threads": 512}], grid=lambda x, threads: triton.cdiv(x.numel(), threads))
    found = lamina.explain(scaled_add, (x, y), options={"kernels": [kernel], "tune": "full"}, show=False)
    assert [k.programs for k in found.graphs[0].kernels] == [(1 << 24) // 512]
    near(lamina.compile(scaled_add, (x, y), options={"kernels": [kernel]})(x, y), x.double() + y.double())


@pytest.mark.parametrize("case", FUSED)
def test_what_follows(case: str) -> None:
    fn = FUSED[case]
    x, y = (torch.randn(6, 5, 8, device="cuda") for _ in range(2))
    found, want = compiled("lamina.compile", fn, (x, y), kernels=[hooked()])(x, y), fn(x.double(), y.double())
    for mine, exact in zip(*((v,) if isinstance(v, Tensor) else v for v in (found, want)), strict=True):
        assert torch.equal(mine.isfinite(), exact.isfinite())
        if not mine.is_floating_point():
            assert torch.equal(mine, exact)
        else:
            near(mine[mine.isfinite()], exact[exact.isfinite()], of=8.0)


def test_several_results_of_what_follows() -> None:
    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        v = scaled_add(x, y)
        return torch.tanh(v), (v * 2).to(torch.float16), v < 0.25

    x, y = (torch.randn(1000, 33, device="cuda") for _ in range(2))
    for entry_point in ENTRY_POINTS:
        tanh, twice, less = compiled(entry_point, fn, (x, y), kernels=[hooked()])(x, y)
        near(tanh, torch.tanh(x.double() + y.double()), 8.0)
        near(twice, (x.double() + y.double()) * 2)
        assert torch.equal(less, x + y < 0.25)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_a_product_with_what_follows(entry_point: str) -> None:
    kernel = lamina.custom_kernel(
        product,
        kernel=product_kernel,
        when=lambda a, b: a.is_contiguous() and b.is_contiguous(),
        arguments=lambda a, b, out: (a, b, out, a.shape[0], b.shape[1], a.shape[1]),
        grid=lambda out, M, N: (triton.cdiv(out.shape[0], M), triton.cdiv(out.shape[1], N)),
        constants={"M": 128, "N": 128, "K": 64},
        num_warps=8,
        epilogue=HOOK,
    )

    def fn(a: Tensor, b: Tensor, bias: Tensor, more: Tensor) -> Tensor:
        return F.gelu(product(a, b) + bias) + more

    inputs = tuple(torch.randn(s, device="cuda", dtype=BF16) for s in ((300, 500), (500, 200), (200,), (300, 200)))
    near(compiled(entry_point, fn, inputs, kernels=[kernel])(*inputs), fn(*(t.double() for t in inputs)), 2.0)
    (graph,) = lamina.explain(fn, inputs, options={"kernels": [kernel]}, measure=True, show=False).graphs
    assert [k.name for k in graph.kernels] == ["product_kernel"] and "aten.gelu.default" in graph.kernels[0].ops
