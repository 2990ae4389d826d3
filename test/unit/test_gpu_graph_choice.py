"""Tests whether a program runs as a recorded CUDA graph, which is measured and bounded, with a driver that stands in for
NVIDIA's."""

import programs as p
import pytest
import torch
from fake_gpu import FakeGpu

from lamina.core.options import Options
from lamina.runtime.recording.graph_status import Status
from lamina.runtime.recording.graphs import recorder_for


class TestMeasured:
    """Options.cuda_graphs = "auto"."""

    def run(self, gpu: FakeGpu, calls: int = 12, **costs: int) -> Status:
        for name, value in costs.items():
            gpu[name] = value
        run = gpu.executable(p.inc_chain(64, 4), recorder=gpu.recorder(measured=True))
        for i in range(calls):
            assert (run(torch.full((64,), float(i)))[0] == i + 4).all()
        status: Status = run.status()
        return status

    def test_bound_by_launches_and_faster_as_a_graph(self, gpu: FakeGpu) -> None:
        found = self.run(gpu, kernel_us=100, launch_us=200, graph_us=400, replay_us=100)
        assert (found.state, found.why, found.recorded) == ("recorded", "", 1) and gpu["graph_launches"] == 12 - 5
        assert found.steps is not None and found.replays is not None
        assert found.steps.device == pytest.approx(400e-6) and 800e-6 <= found.steps.host < 0.1
        assert found.replays.device == pytest.approx(400e-6) and 100e-6 <= found.replays.host < 800e-6

    def test_bound_by_the_gpu(self, gpu: FakeGpu) -> None:
        found = self.run(gpu, kernel_us=100_000)
        assert (found.state, found.recorded) == ("given up", 0) and "the GPU takes longer" in found.why
        assert gpu["graph_launches"] == 0 and found.replays is None

    def test_not_faster_as_a_graph(self, gpu: FakeGpu) -> None:
        found = self.run(gpu, launch_us=100, replay_us=2000, graph_us=50)
        assert (found.state, found.recorded) == ("given up", 1) and found.why == "replays were not faster"
        assert gpu["graph_launches"] == 3 and gpu["graphs"] == 0

    def test_a_little_slower_while_the_gpu_waits_for_the_host(self, gpu: FakeGpu) -> None:
        costs = {"launch_us": 200, "kernel_us": 100, "replay_us": 100, "graph_us": 470}
        found = self.run(gpu, busy=1, **costs)
        assert found.why == "replays were not faster"
        assert self.run(gpu, busy=0, **costs).state == "recorded"
        assert self.run(gpu, busy=0, **{**costs, "graph_us": 600}).why == "replays were not faster"

    def test_nothing_waits_for_the_gpu(self, gpu: FakeGpu) -> None:
        gpu["late"], before = 30, gpu["synchronizations"]
        found = self.run(gpu, launch_us=200)
        assert found.state == "watching" and found.steps is None and gpu["synchronizations"] == before
        assert self.run(gpu, 40, launch_us=200).state == "recorded"

    def test_a_graph_that_takes_too_much_memory(self, gpu: FakeGpu) -> None:
        gpu["memory_mib"] = 0
        found = self.run(gpu, launch_us=200)
        assert found.state == "given up" and "it would keep" in found.why


def test_every_recording_is_judged(gpu: FakeGpu) -> None:
    """A recording that copies arguments that have moved may be slower than the one before."""
    gpu["launch_us"], gpu["kernel_us"], gpu["graph_us"] = 500, 100, 200
    program, (x, w) = p.product()
    run = gpu.executable(program, recorder=gpu.recorder(measured=True))
    for _ in range(12):
        run(x, w)
    status = run.status()
    assert status is not None and status.state == "recorded"
    gpu["replay_us"] = 10_000
    for other in (w.clone(), w.clone()):
        for _ in range(30):
            torch.testing.assert_close(run(x, other)[0], (x + 1) @ w)
    status = run.status()
    assert status is not None and (status.state, status.why) == ("given up", "replays were not faster")


def test_the_least_recently_used_graphs_go_first(gpu: FakeGpu) -> None:
    runs = [gpu.executable(p.inc_chain(64, 3), recorder=gpu.recorder(limit=2)) for _ in range(3)]
    x = torch.zeros(64)
    for run in runs[:2] * 3:
        run(x)
    assert gpu["graphs"] == 2
    runs[0](x)
    for _ in range(3):
        runs[2](x)
    assert gpu["graphs"] == 2 and [r.status().state for r in runs] == ["recorded", "watching", "recorded"]
    for i in range(7):  # it comes back, after twice as many runs
        assert runs[1](x)[0].sum() == 192 and gpu["graphs"] == 2
        assert runs[1].status().recorded == 1 + int(i == 6)


def test_an_interrupt_while_recording_reaches_the_user(gpu: FakeGpu) -> None:
    """An interrupt must not disable graphs for good."""
    recorder = gpu.recorder()
    program, given = p.product()
    run = gpu.executable(program, recorder=recorder)
    begin = recorder.begin

    def interrupted(gpu: int) -> object:
        raise KeyboardInterrupt

    recorder.begin = interrupted
    with pytest.raises(KeyboardInterrupt):
        for _ in range(4):
            run(*given)
    recorder.begin = begin
    for _ in range(4):
        torch.testing.assert_close(run(*given)[0], (given[0] + 1) @ given[1])
    assert gpu["graph_launches"] and run.status().state == "recorded"


def test_a_limit_of_no_graphs_means_none() -> None:
    assert recorder_for(Options(graph_limit=0)) is None and recorder_for(Options()) is not None
