"""Compares kernels that lamina-route-to-triton compiles through Triton with float64 on the GPU."""

import pytest
import torch
from gpu_programs import tiled
from test_route_to_triton import CASES, PASS

from lamina.core.gpu import Gpu
from lamina.core.program_needs import with_needs
from lamina.core.target import Target
from lamina.runtime.executable import Executable
from lamina.targets.nvvm.backend import NvvmBackend


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    fn, inputs = CASES[name]
    module, program = tiled(fn, inputs, last=PASS)
    major, minor = torch.cuda.get_device_capability()
    artifact = NvvmBackend(Target("nvvm", Gpu.of_capability(major, minor))).compile(module)
    run = Executable(with_needs(program, artifact.needs), artifact)
    found = run(
        *(t.cuda() if t.is_contiguous() else torch.empty_strided(t.shape, t.stride(), device="cuda").copy_(t) for t in inputs)
    )
    wanted = fn(*(a.double() if a.is_floating_point() else a for a in inputs))
    for ours, exact in zip(found, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
        bound = {torch.bfloat16: 1e-2, torch.float32: 1e-5}.get(ours.dtype, 1e-9)
        torch.testing.assert_close(ours.cpu().double(), exact.double(), rtol=bound, atol=bound)
