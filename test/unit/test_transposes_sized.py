"""Tests GPU kernels that transpose with symbolic sizes: in the simulator against float64, and the width of their accesses."""

from typing import Any

import pytest
import torch
from gpu_programs import Simulated
from gpu_simulator import Result
from sized_graphs import leaves, sweep
from sized_programs import InParts, compiled, launches
from sized_transposes import TRANSPOSES

from lamina.core.program import Launch
from lamina.frontend.compiling.worker import finish

__all__ = ["launches"]
SIZES = ((70, 131), (6, 11), (3, 127), (64, 128), (72, 40), (129, 2), (5, 200))


@pytest.fixture
def results(launches: list[Launch], monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """What each launch did in the simulator, and its traffic."""
    found: list[Result] = []
    launch = Simulated.launch

    def watched(self: Simulated, *given: Any) -> None:
        before = len(self.results)
        launch(self, *given)
        found.extend(self.results[before:])

    monkeypatch.setattr(Simulated, "launch", watched)
    monkeypatch.setattr(InParts, "counts_traffic", True)
    return found


@pytest.mark.filterwarnings("error")  # such as that it is compiled per size
@pytest.mark.parametrize("name", TRANSPOSES)
def test_any_size(name: str, results: list[Result]) -> None:
    """Each size is computed twice: by the kernel for any size, and by the one for multiples of an access if it is a multiple."""
    graph = TRANSPOSES[name]
    run = compiled(graph.function)
    for sizes in SIZES:
        sweep(graph, run, all_sizes=[sizes])
        finish()
        sweep(graph, run, all_sizes=[sizes])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_reads_and_writes_are_coalesced(dtype: torch.dtype, results: list[Result]) -> None:
    """The later call's sizes are multiples of the tiles, so that no sector is read or written twice."""
    run = compiled(lambda a: a.t().contiguous() + 1)
    for sizes in ((70, 131), (128, 192)):
        run(torch.ones(sizes, dtype=dtype))
    (_, found) = results
    for t in (found.loads[0], found.stores[1]):
        assert t.sectors == t.distinct_sectors == 128 * 192 * dtype.itemsize // 32


def test_multiples_of_an_access_have_a_kernel(results: list[Result]) -> None:
    """It is compiled when a call first needs it: before the first call with such sizes."""
    run = compiled(lambda a: a.t().contiguous() + 1)
    for sizes in ((70, 131), (128, 192), (128, 192), (64, 12), (127, 64)):
        a = torch.randn(sizes).bfloat16()
        assert (run(a) == a.t() + 1).all()
        finish()
    assert [set(found.stores[1].accesses) for found in results] == [{2}, {2}, {16}, {2}, {2}]
    assert [set(found.loads[0].accesses) for found in results] == [{2}, {16}, {16}, {2}, {16}]  # the kernel for any size looks, too
    torch._dynamo.reset()
    compiled(lambda a: a.t().contiguous() + 1)(torch.randn(64, 128).bfloat16())
    assert set(results[-1].loads[0].accesses) == set(results[-1].stores[1].accesses) == {16}


@pytest.mark.parametrize("name", ["heads apart", "heads together"])
def test_rows_that_stay_together_are_whole_accesses(name: str, results: list[Result]) -> None:
    graph = TRANSPOSES[name]
    run = compiled(graph.function)
    for sizes in ((6, 11), (3, 127)):
        run(*leaves(graph.make(*sizes)))
    for found in results:
        assert set(found.loads[0].accesses) == set(found.stores[1].accesses) == {16}
