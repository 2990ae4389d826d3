"""Tests the native runner on a GPU: streams, recorded graphs, threads, several devices, memory, errors."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import by_dynamo, by_export
from torch import Tensor, nn

import lamina

SLEEP = 100_000_000  # cycles: some 50 ms
ENTRY_POINTS = (by_export, by_dynamo)
several = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def chain(x: Tensor) -> Tensor:
    return ((x + 1) * 2 - 3).relu()


def steps(x: Tensor) -> Tensor:
    """Several kernels over an arena, a library call among them."""
    y = torch.softmax(x, -1) @ x.t()
    return torch.softmax(y, 0).sum(1) + y.amax(1)


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("fn", [chain, steps])
def test_the_current_stream_orders_the_work(fn: Callable[..., Tensor], entry_point: Any) -> None:
    x = torch.zeros(256, 256, device="cuda")
    run = entry_point(fn, (x,))
    run(x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    new = torch.randn(256, 256, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SLEEP)
        x.copy_(new)
        y = run(x)
        assert not stream.query(), "the call waited for the GPU"
    stream.synchronize()
    torch.testing.assert_close(y, fn(new), rtol=1e-4, atol=1e-4)


def test_memory_is_not_handed_on_while_another_stream_may_use_it() -> None:
    x = torch.ones(1 << 20, device="cuda")
    run = by_export(chain, (x,))
    side = torch.cuda.Stream()
    want = chain(x)
    for _ in range(20):
        y = run(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(SLEEP // 20)
            kept = y + 0
        y.record_stream(side)
        del y
        run(x * 5)
        side.synchronize()
        assert torch.equal(kept, want)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("fn", [chain, steps])
def test_torch_records_calls_as_a_graph(fn: Callable[..., Tensor], warm: bool, entry_point: Any) -> None:
    """Also without a call before, if the model was compiled ahead of time."""
    if entry_point is by_dynamo and not warm:
        pytest.skip("torch.compile compiles at the first call")
    x = torch.randn(128, 64, device="cuda")
    run = entry_point(fn, (x,))
    fn(x)  # cuBLAS makes its workspace
    if warm:
        run(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = run(x)
    for _ in range(3):
        new = torch.randn(128, 64, device="cuda")
        x.copy_(new)
        graph.replay()
        torch.testing.assert_close(y, fn(new), rtol=1e-4, atol=1e-4)
    del run
    gc.collect()
    x.fill_(1)
    graph.replay()
    torch.testing.assert_close(y, fn(x), rtol=1e-4, atol=1e-4)


def test_several_threads_with_streams_of_their_own() -> None:
    x = torch.randn(64, 96, device="cuda")
    run = by_export(steps, (x,))
    want = steps(x)
    torch.cuda.synchronize()

    def work(_: int) -> bool:
        with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
            results = [run(x) for _ in range(100)]
            torch.cuda.current_stream().synchronize()
            return all(torch.allclose(r, want, rtol=1e-4, atol=1e-4) for r in results)

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, range(4)))


def test_a_thread_that_has_not_used_the_gpu() -> None:
    x = torch.randn(64, 64, device="cuda")
    run = by_export(chain, (x,))
    found: list[Tensor] = []

    def work() -> None:
        with torch.no_grad():
            found.append(run(x))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert torch.equal(found[0], chain(x))


def test_memory_comes_from_torchs_allocator_and_returns() -> None:
    x = torch.randn(512, 1024, device="cuda")
    run = by_export(steps, (x,))
    run(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    results = [by_bytes(run(x)) for _ in range(3)]
    assert torch.cuda.memory_allocated() - before == sum(size for _, size in results)
    del results
    assert torch.cuda.memory_allocated() == before
    (y, _) = by_bytes(run(x))
    view = y[3:5]
    del y
    assert torch.cuda.memory_allocated() > before and view.isfinite().all()


def by_bytes(t: Tensor) -> tuple[Tensor, int]:
    return t, (t.untyped_storage().nbytes() + 511) // 512 * 512


def test_out_of_memory() -> None:
    x = torch.zeros(1, device="cuda")
    run = lamina.compile(lambda x: x.expand(1 << 38) + 1, (x,), options={"cache": False})
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError) as caught:
            run(x)
        assert any(f"results of {1 << 40} bytes" in note for note in caught.value.__notes__)
    assert by_export(chain, (x,))(x).item() == 0


def test_wrong_devices_are_named() -> None:
    x = torch.zeros(64, device="cuda")
    run = by_export(chain, (x,))
    with pytest.raises(ValueError, match="'x' must be on cuda:0; it is on cpu"):
        run(x.cpu())
    with pytest.raises(ValueError, match="different devices"):
        lamina.compile(lambda x, y: x + y, (x, torch.zeros(64)))
    with pytest.raises(lamina.CompileError, match="target 'cpu' is the CPU, but the model's tensors are on cuda:0"):
        lamina.compile(chain, (x,), target="cpu")
    with pytest.raises(lamina.CompileError, match="is on cpu, other tensors on cuda:0"):
        lamina.compile(lambda x: x.cpu() + 1, (x,))
    module = nn.Linear(64, 8)
    with pytest.raises((lamina.CompileError, RuntimeError), match=r"cpu|device"):
        lamina.compile(module, (x,))
    assert torch.equal(run(x), chain(x))


def test_code_for_another_gpu_is_refused() -> None:
    x = torch.zeros(64, device="cuda")
    other = "sm_100a" if torch.cuda.get_device_capability()[0] != 10 else "sm_90a"
    with pytest.raises(RuntimeError, match=f"for nvvm:{other}, which GPU 0 .* does not run"):
        lamina.compile(chain, (x,), target=f"nvvm:{other}", options={"cache": False})


@several
def test_other_devices_than_the_current_one() -> None:
    x = torch.randn(100, 64, device="cuda:1")
    for entry_point in ENTRY_POINTS:
        run = entry_point(steps, (x,))
        for _ in range(2):
            y = run(x)
            assert y.device == x.device and torch.cuda.current_device() == 0
            torch.testing.assert_close(y, steps(x), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="must be on cuda:1; it is on cuda:0"):
        by_export(steps, (x,))(x.to("cuda:0"))


@several
def test_two_devices_at_once() -> None:
    def work(index: int) -> bool:
        with torch.no_grad():
            x = torch.randn(300, 64, device=f"cuda:{index}")
            run = by_export(lambda x: F.silu(x) * torch.arange(64, device=x.device), (x,))
            return all(torch.allclose(run(x), F.silu(x) * torch.arange(64, device=x.device)) for _ in range(50))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, (0, 1)))


def test_a_warm_start_runs_what_the_cache_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    x = torch.randn(64, 96, device="cuda")
    for _ in range(2):
        torch.testing.assert_close(lamina.compile(steps, (x,))(x), steps(x), rtol=1e-4, atol=1e-4)
    assert len(list(tmp_path.glob("*.lamina"))) == 1


def test_a_launch_that_faults_is_named_step_by_step(tmp_path: Any) -> None:
    """In a separate process: a fault makes the GPU's context unusable."""
    import os
    import subprocess
    import sys

    program = """
import torch, lamina
from dataclasses import replace
from lamina.frontend.compiling import stages

real = stages.load
def smaller(built, *given):  # the arena's tensors lie beyond their end: an illegal address
    steps = tuple(replace(s, args=tuple(replace(r, offset=r.offset + (1 << 46)) for r in s.args)) for s in built.program.steps)
    return real(replace(built, program=replace(built.program, steps=steps)), *given)
stages.load = smaller
x = torch.zeros(1 << 16, device="cuda")
lamina.compile(lambda x: (x + 1).relu(), (x,), options={"cache": False})(x)
"""
    env = {**os.environ, "LAMINA_SYNC": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and "after add_relu: CUDA_ERROR_" in done.stderr, done.stderr[-2000:]


def test_explain_measures_on_the_gpu() -> None:
    def fn(x: Tensor, w: Tensor) -> Tensor:
        return torch.softmax(torch.mm(x, w) + 1, -1)

    x, w = torch.randn(4096, 512, device="cuda"), torch.randn(512, 4096, device="cuda")
    found = lamina.explain(fn, (x, w), measure=True, show=False)
    (kernel,), (product,) = found.kernels, found.externals
    assert kernel.seconds is not None and product.seconds is not None
    assert kernel.bytes / kernel.seconds < 1.5 * found.peaks.bandwidth and 0 < product.seconds < 0.1
    assert "multiprocessors" in str(found)


def test_explain_says_whether_it_is_a_cuda_graph() -> None:
    x = torch.randn(32, 64, device="cuda")
    module = nn.Sequential(*(nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU()) for _ in range(6))).cuda().eval()
    status = lamina.explain(module, (x,), measure=True, show=False).graphs[0].cuda_graph
    assert status is not None and status.is_settled and status.steps is not None and status.replays is not None
    assert "CUDA graph: " in str(lamina.explain(module, (x,), show=False))
