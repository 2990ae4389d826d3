"""Tests the choice of threads, CTAs and registers for kernels that reduce along rows on a GPU."""

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distributed

from lamina.core.program import Launch
from lamina.schedules import nvvm

SMS = 132


@pytest.mark.parametrize("rows", [2048, 4096, 100000])
@pytest.mark.parametrize("extent", [516, 768, 1000, 1024])
def test_many_rows_have_a_warp_each(rows: int, extent: int) -> None:
    """No CTA has two warps, whose barrier and launch took as long as the rows."""
    config = nvvm.row_walk(extent, 4, rows, SMS, 8)
    assert config.threads * config.pack >= 128 and config.lanes >= extent


def test_one_sm_does_not_read_much_alone() -> None:
    assert nvvm.ctas_of_few(1, 16384 * 48, SMS, 8) == 8
    assert nvvm.ctas_of_few(1, nvvm.ALONE, SMS, 8) == 1  # little
    assert nvvm.ctas_of_few(100, 16384 * 48, SMS, 8) == 1  # no SM is idle
    config = nvvm.row_reduction(16384, 2, 1, 1, SMS, 8, ctas=8)
    assert config.cluster == 8 and config.lanes >= 16384


@pytest.mark.parametrize("values", [3, 5])
def test_loads_of_several_inputs_find_room_in_registers(values: int) -> None:
    config = nvvm.row_walk(65536, 4, 512, SMS, 1, values)
    held = config.vec * config.chunks * values
    assert 1 < config.resident <= nvvm.REGISTERS // (config.threads * held)
    windows = nvvm.row_walk(65536, 4, 512, SMS, 1, 20)  # as many loads leave room for one access of each
    assert windows.chunks == 1 and windows.resident > 1
    assert nvvm.row_walk(65536, 4, 512, SMS, 1, 0).resident == nvvm.row_walk(65536, 4, 512, SMS, 1, 100).resident == 0


@pytest.mark.parametrize("rows", [12289, 16384])
def test_losses_at_indices(rows: int) -> None:
    """A cluster of CTAs gathers what one SM would take long to read, and adds it up."""
    x, target = torch.randn(rows, 3), torch.randint(3, (rows,))
    module, program = distributed(F.cross_entropy, (x, target))
    *_, last = (step for step in program.steps if isinstance(step, Launch))
    assert last.cluster > 1
    (found,) = Simulated(module, program)(x, target)
    torch.testing.assert_close(found.double(), F.cross_entropy(x.double(), target))
