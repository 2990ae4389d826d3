"""A program with its code, ready to be called."""

from collections.abc import Collection
from typing import Protocol

from lamina import _native
from lamina.core.program import Program

from .gpu import NVIDIA, Driver, gpu_spec_of
from .graph_status import Status, status_of
from .graphs import Recorder
from .loader import Code
from .recordable import draws_first, why_not_recorded
from .spec import spec_of


class Loadable(Protocol):
    """What is needed of an artifact (lamina.targets.base.Artifact): an object file or a cubin, its entry points, what failed checks
    mean, what it was compiled for."""

    @property
    def code(self) -> bytes: ...
    @property
    def kernels(self) -> tuple[str, ...]: ...
    @property
    def messages(self) -> tuple[str, ...]: ...
    @property
    def target(self) -> str: ...


class Executable(_native.Runner):
    """Calls run in native code: `executable(*tensors)`, or `executable([*tensors])`, which empties the list so that the caller's
    references die (AOTAutograd's boxed convention). The result is a tuple of tensors. Safe to call from several threads at once.

    Wrong arguments are a ValueError or TypeError that names the argument, what was expected and what was given. An index out of
    range, where eager checks it, is an IndexError (on the CPU).
    """

    def __init__(
        self,
        program: Program,
        artifact: Loadable,
        driver: Driver = NVIDIA,
        recorder: Recorder | None = None,
        frozen: Collection[int] = (),
    ) -> None:
        """For a GPU: `driver`, what launches kernels, and `recorder`, through which runs are recorded as CUDA graphs. For a CPU:
        `frozen`, the inputs whose elements do not change in place, so that packed copies of them may be kept."""
        if program.device == "cuda":
            program = program if recorder is None else draws_first(program)
            self._why_not = "it was not asked for" if recorder is None else why_not_recorded(program, driver.tensors)
            recorder = None if self._why_not else recorder
            super().__init__(gpu_spec_of(program, artifact.code, artifact.kernels, artifact.target, driver, recorder))
        else:
            self._code = Code(artifact.code, artifact.kernels)  # lives as long as its addresses are called
            super().__init__(spec_of(program, self._code.addresses, artifact.messages, frozen=frozen))
        self.program = program
        self._boxed_call = True  # of the instance: torch._dynamo.disable copies its attributes, not the class's

    def status(self) -> Status | None:
        """How the steps run on a GPU, as CUDA graphs or not; None on the CPU."""
        found = self.graphs()
        return None if found is None else status_of(found, self._why_not)
