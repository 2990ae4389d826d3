"""Tests the choice of threads, CTAs and registers for kernels that reduce along rows on a GPU."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distributed

from lamina.core.program import Launch
from lamina.schedules.nvvm_rows import ALONE, REGISTERS, RowKernel, ctas_of_few, row_reduction, row_walk

SMS = 132


@pytest.mark.parametrize("rows", [2048, 4096, 100000])
@pytest.mark.parametrize("extent", [516, 768, 1000, 1024])
def test_many_rows_have_a_warp_each(rows: int, extent: int) -> None:
    """No CTA has two warps, whose barrier and launch took as long as the rows."""
    config = row_walk(RowKernel(extent, 4, rows, SMS), 8)
    assert config.threads * config.pack >= 128 and config.lanes >= extent


def test_one_sm_does_not_read_much_alone() -> None:
    row = RowKernel(16384, 2, 1, SMS, row_bytes=16384 * 48)
    assert ctas_of_few(row, 8) == 8
    assert ctas_of_few(replace(row, row_bytes=ALONE), 8) == 1  # little
    assert ctas_of_few(replace(row, rows=100), 8) == 1  # no SM is idle
    config = row_reduction(row, most_ctas=8, walking=8)
    assert config.cluster == 8 and config.lanes >= 16384


@pytest.mark.parametrize("values", [3, 5])
def test_loads_of_several_inputs_find_room_in_registers(values: int) -> None:
    config = row_walk(RowKernel(65536, 4, 512, SMS, values=values))
    held = config.vec * config.chunks * values
    assert 1 < config.resident <= REGISTERS // (config.threads * held)
    windows = row_walk(RowKernel(65536, 4, 512, SMS, values=20))  # as many loads leave room for one access of each
    assert windows.chunks == 1 and windows.resident > 1
    assert all(row_walk(RowKernel(65536, 4, 512, SMS, values=values)).resident == 0 for values in (0, 100))


@pytest.mark.parametrize("rows", [12289, 16384])
def test_losses_at_indices(rows: int) -> None:
    """A cluster of CTAs gathers what one SM would take long to read, and adds it up."""
    x, target = torch.randn(rows, 3), torch.randint(3, (rows,))
    module, program = distributed(F.cross_entropy, (x, target))
    *_, last = (step for step in program.steps if isinstance(step, Launch))
    assert last.cluster > 1
    (found,) = Simulated(module, program)(x, target)
    torch.testing.assert_close(found.double(), F.cross_entropy(x.double(), target))
