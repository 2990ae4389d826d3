"""Tests CUDA graphs of kernels alone, which are created without capturing a stream, since other threads may not wait for the
whole GPU during a capture. A driver stands in for NVIDIA's."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_gpu
import programs as p
import pytest
import torch
from fake_gpu import FakeGpu


def test_nothing_is_captured(gpu: FakeGpu) -> None:
    recorder = gpu.recorder()
    run = gpu.executable(p.inc_chain(64, 3), recorder=recorder)
    for i in range(5):
        assert (run(torch.full((64,), float(i)))[0] == i + 3).all()
    assert recorder.captures == 0 and gpu["graph_launches"] == 3 and gpu["sources"] == 1
    program, given = p.product()
    calls = gpu.executable(program, recorder=recorder)
    for _ in range(3):
        calls(*given)
    assert recorder.captures == 1 and gpu["sources"] == 1


def test_launches_stay_as_they_are(gpu: FakeGpu) -> None:
    program = p.inc_chain(128, 4)
    changes: list[dict[str, Any]] = [
        {"grid_yz": (3, 2)},
        {"cluster": 2, "shared": 1024},
        {"cluster": 2, "dependent": True},
        {"dependent": True},
    ]
    steps = tuple(replace(step, **change) for step, change in zip(program.steps, changes, strict=True))
    run = gpu.executable(replace(program, steps=steps), recorder=gpu.recorder())
    x = torch.zeros(128)
    run(x)
    launched = gpu.launches()
    for _ in range(2):
        assert (run(x)[0] == 4).all()
    shapes = [(n.kernel, n.grid, n.grid_yz, n.threads, n.shared, n.cluster, n.dependent) for n in gpu.nodes()]
    assert shapes == [(n.kernel, n.grid, n.grid_yz, n.threads, n.shared, n.cluster, n.dependent) for n in launched]
    assert [n.cluster for n in launched] == [1, 2, 2, 1] and [n.dependent for n in launched] == [False, False, True, True]


def test_the_first_kernel_has_nothing_to_wait_for(gpu: FakeGpu) -> None:
    program = p.inc_chain(64, 2)
    steps = tuple(replace(step, dependent=True) for step in program.steps)
    run = gpu.executable(replace(program, steps=steps), recorder=gpu.recorder())
    for _ in range(4):
        assert (run(torch.zeros(64))[0] == 2).all()
    assert [n.dependent for n in gpu.nodes()] == [False, True] and gpu["graph_launches"] == 2


def test_an_old_driver_starts_no_kernel_early(tmp_path: Path) -> None:
    for gpu in fake_gpu.clean(fake_gpu.build(tmp_path, "-DOLD")):
        program = p.inc_chain(64, 3)
        steps = tuple(replace(step, dependent=True) for step in program.steps)
        run = gpu.executable(replace(program, steps=steps), recorder=gpu.recorder())
        for _ in range(4):
            assert (run(torch.zeros(64))[0] == 3).all()
        assert [n.dependent for n in gpu.nodes()] == [False] * 3 and gpu["graph_launches"] == 2
        del run


@pytest.mark.parametrize(
    "function",
    [
        "cuGraphCreate",
        "cuGraphAddKernelNode_v2",
        "cuGraphKernelNodeSetAttribute",
        "cuGraphAddDependencies_v2",
        "cuGraphInstantiateWithFlags",
    ],
)
def test_one_that_cannot_be_made_is_given_up(gpu: FakeGpu, function: str) -> None:
    recorder = gpu.recorder()
    program = p.inc_chain(128, 3)
    steps = tuple(replace(step, cluster=2, dependent=True) for step in program.steps)
    run = gpu.executable(replace(program, steps=steps), recorder=recorder)
    gpu.fail(function, 1)
    for _ in range(5):
        assert (run(torch.zeros(128))[0] == 3).all()
    ((why, begun),) = recorder.given_up
    assert "CUDA_ERROR_INVALID_VALUE" in why and not begun
    status = run.status()
    assert status is not None and status.state == "given up" and why in status.why
    assert gpu["graph_launches"] == gpu["graphs"] == gpu["sources"] == 0
