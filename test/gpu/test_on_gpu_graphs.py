"""Tests programs that run as CUDA graphs."""

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lamina
from lamina.core.options import CudaGraphs
from lamina.frontend.compiling import stages
from lamina.runtime.executable import Executable


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Executable]]:
    """What was compiled in the test."""
    found: list[Executable] = []
    real = stages.load

    def load(*given: Any) -> Any:
        found.append(real(*given))
        return found[-1]

    monkeypatch.setattr(stages, "load", load)
    yield found


def compiled(fn: Any, *inputs: Tensor, graphs: CudaGraphs = "auto") -> Any:
    return lamina.compile(fn, inputs, options={"cache": False, "cuda_graphs": graphs})


def steps(x: Tensor) -> Tensor:
    """Several kernels over an arena, a library call among them."""
    y = torch.softmax(x, -1) @ x.t()
    return torch.softmax(y, 0).sum(1) + y.amax(1)


def steps_without_calls(x: Tensor) -> Tensor:
    y = torch.softmax(x, 1)
    return (y.sum(0) * x).amax(1) + torch.softmax(y, 0).sum(1)


class TestRecorded:
    """Wherever possible."""

    def record(self, fn: Any, *inputs: Tensor) -> Any:
        return compiled(fn, *inputs, graphs=True)

    def test_kernels_follow_arguments(self) -> None:
        run = self.record(steps_without_calls, torch.randn(64, 96, device="cuda"))
        kept = []
        for _ in range(12):
            x = torch.randn(64, 96, device="cuda")
            kept.append((run(x), steps_without_calls(x)))
        for mine, want in kept:
            torch.testing.assert_close(mine, want, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("same", [True, False])
    def test_models_with_library_calls(self, same: bool) -> None:
        """Arguments stay in one place with changing values, or move at every call."""
        module = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.Softmax(-1)).cuda().eval()
        x = torch.randn(32, 64, device="cuda")
        run = self.record(module, x)
        kept = []
        for i in range(12):
            given = x.copy_(torch.randn_like(x)) if same else torch.randn_like(x)
            kept.append((run(given), module(given), given))
            if i == 8:
                module[1].weight.data = module[1].weight.data * 2
        for mine, want, _ in kept:
            torch.testing.assert_close(mine, want, rtol=1e-4, atol=1e-5)

    def test_attention_and_results_of_libraries(self) -> None:
        def fn(q: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
            h = q * 2
            return F.scaled_dot_product_attention(h, h, h, is_causal=True) + 1, h.flatten(0, 2) @ w

        q, w = (
            torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16),
            torch.randn(64, 32, device="cuda", dtype=torch.bfloat16),
        )
        run = self.record(fn, q, w)
        kept = []
        for _ in range(8):
            q.copy_(torch.randn_like(q))
            kept.append((run(q, w), fn(q, w)))
        for mine, want in kept:
            torch.testing.assert_close(mine, want, rtol=2e-2, atol=2e-2)

    def test_torch_records_it_too_and_other_streams_run_it(self) -> None:
        x = torch.randn(128, 64, device="cuda")
        run = self.record(steps, x)
        for _ in range(5):
            run(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = run(x)
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.testing.assert_close(y, steps(x), rtol=1e-4, atol=1e-4)
        with torch.cuda.stream(torch.cuda.Stream()):
            z = run(x)
            torch.cuda.current_stream().synchronize()
        torch.testing.assert_close(z, steps(x), rtol=1e-4, atol=1e-4)

    def test_reduce_overhead_of_torch_compile(self) -> None:
        torch._dynamo.reset()
        from entry_points import BACKEND

        x = torch.randn(128, 64, device="cuda")
        run = torch.compile(steps, backend=BACKEND, mode="reduce-overhead")
        for _ in range(6):
            x.copy_(torch.randn_like(x))
            torch.testing.assert_close(run(x), steps(x), rtol=1e-4, atol=1e-4)

    def test_memory_returns(self) -> None:
        x = torch.randn(512, 1024, device="cuda")
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        run = self.record(steps, x)
        for _ in range(6):
            run(x)
        del run
        gc.collect()
        torch.cuda.synchronize()
        assert torch.cuda.memory_allocated() <= before + (1 << 20)


class TestChosen:
    """Options.cuda_graphs = "auto", the default."""

    def test_a_model_of_small_steps(self, loaded: list[Executable]) -> None:
        layers = [nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU()) for _ in range(12)]
        module = nn.Sequential(*layers).cuda().eval()
        run = compiled(module, torch.randn(32, 64, device="cuda"))
        kept = []
        for _ in range(24):
            x = torch.randn(32, 64, device="cuda")
            kept.append((run(x), x))
            torch.cuda.synchronize()
        for mine, x in kept:
            torch.testing.assert_close(mine, module(x), rtol=1e-3, atol=1e-4)
        status = loaded[0].status()
        print(status)
        assert status is not None and status.state == "recorded" and status.recorded == 1
        assert status.steps is not None and status.replays is not None
        assert status.replays.device < status.steps.device or status.replays.host < status.steps.host

    def test_without_waiting_between_calls(self, loaded: list[Executable]) -> None:
        x = torch.randn(64, 96, device="cuda")
        run = compiled(steps_without_calls, x)
        kept = [(run(given), given) for given in (torch.randn_like(x) for _ in range(60))]
        for mine, given in kept:
            torch.testing.assert_close(mine, steps_without_calls(given), rtol=1e-4, atol=1e-4)
        print(loaded[0].status())

    def test_work_that_fills_the_gpu_is_left_as_it_is(self, loaded: list[Executable]) -> None:
        x = torch.randn(1 << 13, 1 << 13, device="cuda")
        run = compiled(lambda x: torch.softmax((x.sum(0) * x), 1).sum(0), x)
        for _ in range(12):
            run(x)
            torch.cuda.synchronize()
        status = loaded[0].status()
        print(status)
        assert status is not None and status.state == "given up" and status.recorded == 0 and "takes longer" in status.why

    @pytest.mark.parametrize("graphs", ["auto", True])
    def test_random_numbers_differ_from_call_to_call(self, graphs: CudaGraphs) -> None:
        def fn(x: Tensor) -> Tensor:
            return F.dropout(torch.softmax(F.dropout(x + 1, 0.5, True) @ x, 0), 0.5, True).sum(1)

        x = torch.rand(64, 64, device="cuda")
        run = compiled(fn, x, graphs=graphs)
        torch.manual_seed(5)
        found = [run(x) for _ in range(16)]
        assert len({float(y.sum()) for y in found}) > 12
        torch.manual_seed(5)
        for y in found:  # recorded by now
            torch.testing.assert_close(run(x), y)

    def test_while_another_thread_records_a_graph(self) -> None:
        """In its usual mode of recording, torch forbids other threads many operations."""
        x = torch.randn(64, 96, device="cuda")
        runs = [compiled(steps_without_calls, x) for _ in range(4)]
        want, failed = steps_without_calls(x), []

        def call() -> None:
            try:
                with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                    for run in runs:
                        for _ in range(20):
                            torch.testing.assert_close(run(x), want, rtol=1e-4, atol=1e-4)
            except Exception as error:
                failed.append(error)

        torch.cuda.synchronize()
        y = torch.zeros(64, device="cuda")
        thread = threading.Thread(target=call)
        thread.start()
        for _ in range(20):
            with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
                y += 1
        thread.join()
        assert not failed

    def test_library_calls_are_captured_while_another_thread_launches(self, loaded: list[Executable]) -> None:
        """The other thread must not wait for the whole GPU, but may do its own work."""
        x = torch.randn(64, 96, device="cuda")
        runs = [compiled(steps, x, graphs=True) for _ in range(8)]
        want, failed, done = steps(x), [], threading.Event()

        def call() -> None:
            try:
                with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                    for run in runs:
                        for _ in range(8):
                            torch.testing.assert_close(run(x), want, rtol=1e-4, atol=1e-4)
            except Exception as error:
                failed.append(error)
            finally:
                done.set()

        torch.cuda.synchronize()
        y, count = torch.zeros(64, device="cuda"), 0
        thread = threading.Thread(target=call)
        thread.start()
        while not done.is_set():
            y += 1
            count += 1
            if count % 64 == 0:  # of the stream alone
                torch.cuda.current_stream().synchronize()
        thread.join()
        assert not failed and (y == count).all()
        found = [run.status() for run in loaded]
        assert len(found) == len(runs) and all(status is not None and status.state == "recorded" for status in found), found


class TestStaged:
    def test_arguments_of_libraries_that_move(self, loaded: list[Executable]) -> None:
        x = torch.randn(32, 64, device="cuda")
        run = compiled(lambda x, w: torch.softmax(x @ w, 1).sum(0) + (x @ w).amax(0), x, x.t().contiguous(), graphs=True)
        kept = []
        for _ in range(12):
            given = torch.randn(32, 64, device="cuda"), torch.randn(64, 32, device="cuda")
            kept.append((run(*given), given))
        for mine, (a, b) in kept:
            torch.testing.assert_close(mine, torch.softmax(a @ b, 1).sum(0) + (a @ b).amax(0), rtol=1e-3, atol=1e-3)
        status = loaded[0].status()
        assert status is not None and (status.state, status.copied_in) == ("recorded", 2), status

    def test_the_bound(self) -> None:
        x = torch.randn(64, 96, device="cuda")
        runs = [
            lamina.compile(steps_without_calls, (x,), options={"cache": False, "cuda_graphs": True, "graph_limit": 2})
            for _ in range(3)
        ]
        for _ in range(4):
            for run in runs:
                torch.testing.assert_close(run(x), steps_without_calls(x), rtol=1e-4, atol=1e-4)
