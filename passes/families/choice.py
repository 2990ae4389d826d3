"""`graph.choice`: which kernel computes a call of a hot op, and which of the ops around it the kernel covers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.schedules.text import AnySchedule, KernelSchedule, made, read

from ..ir.locations import where

CHOICE = "graph.choice"
ROWS = "graph.rows"  # the same on a kernel function that reduces rows, in place of the cost model's schedule
SMALLER = "graph.smaller"
"""On a group with a choice, where a size is symbolic: {size = "s0*s1", upto = [{most = 64, kernel = ..., ...}, ...]}, choices for
calls in which it is at most so large, in order."""
Named = Literal["library", "direct", "nvvm"]
Extent = Literal["", "first", "prologue"]
_NAMED: tuple[Named, ...] = ("library", "direct", "nvvm")
_EXTENTS: tuple[Extent, ...] = ("first", "prologue")


@dataclass(frozen=True)
class Choice:
    """A kernel for a problem: in the IR {kernel = "triton", extent = "first", m = 128, n = 128}, without fields that have their
    defaults; for people, and as the name of a candidate, "first triton{m=128 n=128}".

    kernel  a schedule of Lamina's kernels or a user's; "library": the library's routine; "direct": direct convolution; "nvvm": the
            cost model's schedule of a program that reduces rows
    extent  the ops that the kernel covers: "": the problem's calls with the group that reads them; "first": the first of several
            calls with that group, while the library computes the others; "prologue": also the groups that only compute an operand
    """

    kernel: KernelSchedule | Named
    extent: Extent = ""

    @staticmethod
    def parse(text: str, schedules: Sequence[type[KernelSchedule]]) -> "Choice":
        """Reads an option's text, with a schedule of one of these kinds. Raises CompileError for any other text."""
        word, _, rest = text.partition(" ")
        extent: Extent = next((e for e in _EXTENTS if e == word), "")
        written = rest if extent else text
        named = next((n for n in _NAMED if n == written), None)
        return Choice(named or read(written, schedules), extent)

    @staticmethod
    def of(op: ir.Operation, schedules: Sequence[type[KernelSchedule]], name: str = CHOICE) -> "Choice | None":
        """Returns the choice on an op, with a schedule of one of these kinds; None without one. Raises CompileError, with the op's
        place, for a malformed one."""
        if name not in op.attributes:
            return None
        given = op.attributes[name]
        fields = {field.name: field.attr for field in given} if isinstance(given, ir.DictAttr) else {}
        words = {key: a.value for key, a in fields.items() if isinstance(a, ir.StringAttr)}
        numbers = {key: a.value for key, a in fields.items() if isinstance(a, ir.IntegerAttr)}
        whole = "kernel" in words and len(words) + len(numbers) == len(fields)
        kernel, said = words.pop("kernel", ""), words.pop("extent", "")
        extent = next((e for e in ("", *_EXTENTS) if e == said), None)
        named = next((n for n in _NAMED if n == kernel and not words and not numbers), None)
        try:
            if extent is None or not whole:
                raise CompileError(f"{given} is no choice", remedy='write one like {kernel = "triton", m = 128, n = 128}')
            return Choice(named or made(kernel, words | numbers, schedules), extent)
        except CompileError as e:
            raise CompileError(e.message, where=where(op.location), remedy=e.remedy) from None

    def write(self, op: ir.Operation) -> None:
        """Sets the choice on a call, or on a kernel function, where the cost model's own schedule needs no attribute."""
        if self == MODEL:
            return
        op.attributes[ROWS if op.operation.name == "func.func" else CHOICE] = self.attribute(op.context)

    def attribute(self, context: ir.Context) -> ir.DictAttr:
        """Returns the choice as an attribute."""
        words = {"kernel": self.kernel if isinstance(self.kernel, str) else self.kernel.kind, "extent": self.extent}
        said = {} if isinstance(self.kernel, str) else self.kernel.said
        i64 = ir.IntegerType.get_signless(64, context)
        attributes = {key: ir.StringAttr.get(word, context) for key, word in words.items() if word}
        for key, value in said.items():
            attributes[key] = ir.StringAttr.get(value, context) if isinstance(value, str) else ir.IntegerAttr.get(i64, value)
        return ir.DictAttr.get(attributes, context)

    def __str__(self) -> str:
        return f"{self.extent} {self.kernel}".strip()


def schedule_on(op: ir.Operation, schedules: Sequence[type[AnySchedule]], name: str = CHOICE) -> AnySchedule | None:
    """Returns the schedule, of one of these kinds, that is chosen on an op; None without one."""
    chosen = Choice.of(op, schedules, name)
    return next((chosen.kernel for kind in schedules if chosen is not None and isinstance(chosen.kernel, kind)), None)


LIBRARY, DIRECT, MODEL = Choice("library"), Choice("direct"), Choice("nvvm")
