"""Tests kernels that start before the work in front of them has ended, launched one by one and in CUDA graphs."""

import programs as p
import pytest
import torch
from fake_gpu import Cubin, on_gpu

from lamina.core.gpu import Gpu
from lamina.core.program import Program
from lamina.runtime.executable import Executable
from lamina.runtime.recording.graphs import Recorder
from lamina.targets.ptx import assemble

_INC = """
.version 8.0
.target ARCH
.address_size 64
.visible .entry inc(.param .u64 source, .param .u64 result) {
  .reg .b64 %at<5>;
  .reg .b32 %i<5>;
  .reg .f32 %x<3>;
  griddepcontrol.wait;
  griddepcontrol.launch_dependents;
  ld.param.u64 %at1, [source];
  ld.param.u64 %at2, [result];
  cvta.to.global.u64 %at1, %at1;
  cvta.to.global.u64 %at2, %at2;
  mov.u32 %i1, %ctaid.x;
  mov.u32 %i2, %ntid.x;
  mov.u32 %i3, %tid.x;
  mad.lo.s32 %i4, %i1, %i2, %i3;
  mul.wide.u32 %at3, %i4, 4;
  add.s64 %at1, %at1, %at3;
  add.s64 %at2, %at2, %at3;
  ld.global.f32 %x1, [%at1];
  add.f32 %x2, %x1, 0f3F800000;
  st.global.f32 [%at2], %x2;
  ret;
}
"""


@pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.get_device_capability() < (9, 0), reason="needs sm_90")
class TestDependent:
    """Kernels with griddepcontrol.wait, launched before what is ahead of them has ended."""

    COUNT, SIZE = 50, 1 << 16

    def chain(self, recorder: Recorder | None = None) -> Executable:
        arch = Gpu.of_capability(*torch.cuda.get_device_capability()).arch
        code = assemble(_INC.replace("ARCH", arch), arch).cubin
        program: Program = on_gpu(p.inc_chain(self.SIZE, self.COUNT), dependent=True)
        return Executable(program, Cubin(code, ("inc",), f"nvvm:{arch}"), recorder=recorder)

    @pytest.mark.parametrize("recorder", [None, Recorder(measured=False)])
    def test_a_chain(self, recorder: Recorder | None) -> None:
        """Also as a graph, whose kernels' parameters change."""
        run = self.chain(recorder)
        kept = []
        for i in range(40):
            x = torch.full((self.SIZE,), float(i), device="cuda")
            kept.append((run(x)[0], i))
        assert all(bool((y == i + self.COUNT).all()) for y, i in kept)
        status = run.status()
        assert status is not None and status.state == ("recorded" if recorder else "off")

    def test_torch_records_it(self) -> None:
        run = self.chain()
        x = torch.zeros(self.SIZE, device="cuda")
        run(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = run(x)[0]
        for i in range(10):
            x.fill_(i)
            graph.replay()
            assert (y == i + self.COUNT).all()
