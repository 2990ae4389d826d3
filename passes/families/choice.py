"""`graph.choice`: which kernel computes a call of a hot op, and which of the ops around it the kernel covers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.schedules import rows
from lamina.schedules.text import KernelSchedule, read

from ..ir.locations import where
from ..space.schedule_gpu import ROWS

CHOICE = "graph.choice"
Extent = Literal["", "first", "prologue"]
_EXTENTS: tuple[Extent, ...] = ("first", "prologue")
_NAMED = ("library", "direct")


@dataclass(frozen=True)
class Choice:
    """A kernel for a problem. Its text, as in the IR and in the store of measurements, is "first triton{m=128 n=128 ...}".

    kernel  a schedule of Lamina's kernels; "library": the library's routine; "direct": direct convolution; "nvvm": the cost model's
            schedule of a program that reduces rows
    extent  the ops that the kernel covers: "": the problem's calls with the group that reads them; "first": the first of several
            calls with that group, while the library computes the others; "prologue": also the groups that only compute an operand
    """

    kernel: KernelSchedule | Literal["library", "direct", "nvvm"]
    extent: Extent = ""

    @staticmethod
    def parse(text: str, schedules: Sequence[type[KernelSchedule]]) -> "Choice":
        """Reads a choice's text, with a schedule of one of these kinds. Raises CompileError for any other text."""
        word, _, rest = text.partition(" ")
        extent: Extent = next((e for e in _EXTENTS if e == word), "")
        written = rest if extent else text
        if written in _NAMED:
            return Choice("library" if written == "library" else "direct", extent)
        return Choice(read(written, schedules), extent)

    @staticmethod
    def of(op: ir.Operation, schedules: Sequence[type[KernelSchedule]]) -> "Choice | None":
        """Returns the choice on an op; None without one. Raises CompileError, with the op's place, for a malformed one."""
        if CHOICE not in op.attributes:
            return None
        try:
            return Choice.parse(ir.StringAttr(op.attributes[CHOICE]).value, schedules)
        except CompileError as e:
            raise CompileError(e.message, where=where(op.location), remedy=e.remedy) from None

    def write(self, op: ir.Operation) -> None:
        """Sets the choice on a call, or as `graph.rows` on a kernel function that reduces rows."""
        if self.kernel != rows.MODEL:
            op.attributes[ROWS if isinstance(self.kernel, rows.Rows) else CHOICE] = ir.StringAttr.get(str(self), op.context)

    def __str__(self) -> str:
        return f"{self.extent} {self.kernel}".strip()


LIBRARY, DIRECT, MODEL = Choice("library"), Choice("direct"), Choice("nvvm")
