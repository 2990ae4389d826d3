"""`graph.choice`: which kernel computes a call of a hot op, and which of the ops around it the kernel covers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.schedules.text import AnySchedule, KernelSchedule, read

from ..ir.locations import where

CHOICE = "graph.choice"
ROWS = "graph.rows"  # the same on a kernel function that reduces rows, in place of the cost model's schedule
SMALLER = "graph.smaller"
"""On a group with a choice, where a size is symbolic: {size = "s0*s1", most = [64, ...], choices = ["triton{m=32 n=64}", ...]}, the
choices for calls in which it is at most so large, in order."""
Named = Literal["library", "direct", "simt"]
Cover = Literal["", "first", "prologue"]
_NAMED: tuple[Named, ...] = ("library", "direct", "simt")
_COVERS: tuple[Cover, ...] = ("first", "prologue")


@dataclass(frozen=True)
class Choice:
    """A kernel for a problem; in options, in the IR, and as the name of a candidate, text such as "first triton{m=128 n=128}".

    kernel  a schedule of Lamina's kernels or a user's; "library": the library's routine; "direct": direct convolution; "simt": the
            cost model's schedule of a program that reduces rows
    cover  the ops that the kernel covers: "": the problem's calls with the group that reads them; "first": the first of several
            calls with that group, while the library computes the others; "prologue": also the groups that only compute an operand
    """

    kernel: KernelSchedule | Named
    cover: Cover = ""

    @staticmethod
    def parse(text: str, schedules: Sequence[type[KernelSchedule]]) -> "Choice":
        """Reads the text of a choice, with a schedule of one of these kinds. Raises CompileError for any other text."""
        word, _, rest = text.partition(" ")
        cover: Cover = next((e for e in _COVERS if e == word), "")
        written = rest if cover else text
        named = next((n for n in _NAMED if n == written), None)
        return Choice(named or read(written, schedules), cover)

    @staticmethod
    def of(op: ir.Operation, schedules: Sequence[type[KernelSchedule]], name: str = CHOICE) -> "Choice | None":
        """Returns the choice on an op, with a schedule of one of these kinds; None without one. Raises CompileError, with the op's
        place, for a malformed one."""
        if name not in op.attributes:
            return None
        given = op.attributes[name]
        try:
            return Choice.parse(given.value if isinstance(given, ir.StringAttr) else str(given), schedules)
        except CompileError as e:
            raise CompileError(e.message, where=where(op.location), remedy=e.remedy) from None

    def write(self, op: ir.Operation) -> None:
        """Sets the choice on a call, or on a kernel function, where the cost model's own schedule needs no attribute."""
        if self == MODEL:
            return
        kernel = self.kernel if isinstance(self.kernel, str) else self.kernel.text
        name = ROWS if op.operation.name == "func.func" else CHOICE
        op.attributes[name] = ir.StringAttr.get(f"{self.cover} {kernel}".strip(), op.context)

    def __str__(self) -> str:
        return f"{self.cover} {self.kernel}".strip()


def schedule_on(op: ir.Operation, schedules: Sequence[type[AnySchedule]], name: str = CHOICE) -> AnySchedule | None:
    """Returns the schedule, of one of these kinds, that is chosen on an op; None without one."""
    chosen = Choice.of(op, schedules, name)
    return next((chosen.kernel for kind in schedules if chosen is not None and isinstance(chosen.kernel, kind)), None)


LIBRARY, DIRECT, MODEL = Choice("library"), Choice("direct"), Choice("simt")
