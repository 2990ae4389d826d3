"""Tests how events of the profiler on a GPU are assigned to steps."""

import pytest

from lamina.core.program import Call, Launch, Step
from lamina.report.gpu import by_step
from lamina.report.tables import cuda_graph
from lamina.runtime.recording.graph_status import Status, Times


def launch(kernel: str, grid: int = 1) -> Launch:
    return Launch(kernel, (), 0, grid, 0, 0, kernel, threads=32)


def call(name: str) -> Call:
    return Call(f"aten.{name}.default", "library", (), (), (), (), name)


STEPS: tuple[Step, ...] = (call("t"), launch("a"), launch("nothing", 0), call("mm"), call("bmm"), launch("a"), call("mm"))


def events(scale: float, start: float) -> list[tuple[str, float, float]]:
    out = []
    for name, length in (("cast", 1), ("a", 2), ("gemm", 3), ("reduce", 5), ("a", 4), ("gemm", 7)):
        out.append((name, start, start + length * scale))
        start += length * scale + 1
    return out


def test_kernels_of_ours_have_names_and_calls_what_lies_between() -> None:
    found = by_step(STEPS, [*events(2, 1000), *events(1, 0)], 2)
    assert found == pytest.approx([1e-6, 2e-6, 0, 4e-6, 4e-6, 4e-6, 7e-6])


def test_nothing_ran() -> None:
    assert by_step((launch("a", 0),), [], 3) == [0.0]


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="saw b where a was expected"):
        by_step((launch("a"),), [("b", 0, 1)], 1)
    with pytest.raises(RuntimeError, match="saw 3 kernels in 2 calls"):
        by_step((launch("a"),), [("a", 0, 1)] * 3, 2)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Status("watching"), "CUDA graph: chosen after some calls"),
        (Status("off", "aten.rand.default draws random numbers"), "CUDA graph: no, aten.rand.default draws random numbers"),
        (
            Status("given up", "replays were not faster", Times(3e-5, 4e-5), Times(2e-5, 5e-5), aligned=1),
            "CUDA graph: no, replays were not faster; one by one the host takes 30.0 us, the GPU 40.0 us; "
            "as a graph the host takes 20.0 us, the GPU 50.0 us; 1 argument copied to a multiple of 16 bytes",
        ),
        (
            Status("recorded", recorded=1, copied_in=2, copied_in_bytes=4096, copied_out=1, copied_out_bytes=1000),
            "CUDA graph: yes; 2 arguments of library calls copied by every replay (4.1 kB); "
            "1 result of library calls copied by every replay (1 kB)",
        ),
    ],
)
def test_what_is_said_of_cuda_graphs(status: Status, text: str) -> None:
    assert cuda_graph(status) == text
