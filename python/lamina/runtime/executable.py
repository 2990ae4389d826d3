"""A callable compiled program: the native runner with the program and its loaded code."""

from collections.abc import Collection
from typing import Protocol

from lamina import _native
from lamina.core.program import Program

from .gpu import NVIDIA, Driver, gpu_spec_of
from .loader import loaded
from .recording.graph_status import Status, status_of
from .recording.graphs import Recorder
from .recording.recordable import draws_first, why_not_recorded
from .spec import spec_of


class Loadable(Protocol):
    """The part of an artifact (lamina.targets.base.Artifact) that running it needs."""

    @property
    def code(self) -> bytes:
        """The object file, or cubins."""

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of its entry points."""

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages of failed checks."""

    @property
    def target(self) -> str:
        """The target that it was compiled for."""


class Executable(_native.Runner):
    """Runs a program in native code: `executable(*tensors)`, or `executable([*tensors])`, which empties the list so that the
    caller's references die (AOTAutograd's boxed convention). The result is a tuple of tensors. Safe to call from several threads at
    once.

    Wrong arguments raise ValueError or TypeError that names the argument, what was expected and what was given. An index out of
    range, where eager checks it, raises IndexError (on the CPU).
    """

    def __init__(
        self,
        program: Program,
        artifact: Loadable,
        driver: Driver = NVIDIA,
        recorder: Recorder | None = None,
        frozen: Collection[int] = (),
    ) -> None:
        """Loads the code.

        driver    for a GPU: the library that launches kernels
        recorder  for a GPU: records runs as CUDA graphs
        frozen    for a CPU: the inputs whose elements do not change in place, so that packed copies of them may be kept
        """
        if program.device == "cuda":
            program = program if recorder is None else draws_first(program)
            self._why_not = "it was not asked for" if recorder is None else why_not_recorded(program, driver.tensors)
            recorder = None if self._why_not else recorder
            super().__init__(gpu_spec_of(program, artifact.code, artifact.kernels, artifact.target, driver, recorder))
        else:
            self._code = loaded(artifact.code, artifact.kernels)  # lives as long as its addresses are called
            super().__init__(spec_of(program, self._code.addresses, artifact.messages, frozen=frozen))
        self.program = program
        self._boxed_call = True  # on the instance: torch._dynamo.disable copies its attributes, not the class's

    def status(self) -> Status | None:
        """Returns whether the steps run as CUDA graphs on a GPU; None on the CPU."""
        found = self.graphs()
        return None if found is None else status_of(found, self._why_not)
