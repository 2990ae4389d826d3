"""Schedules of kernels as text, such as "forward{m=128 n=64}"."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar

from lamina.core.errors import CompileError

_SHOWN = 2  # fields that are always written: the sizes of blocks
_TEXT = re.compile(r"(\w+)\{([^{}]*)\}")


@dataclass(frozen=True)
class KernelSchedule:
    """A schedule of a kernel; subclasses have integer fields. kind: the word before its fields in text."""

    kind: ClassVar[str]

    def __str__(self) -> str:
        """The text that `read` takes: the first two fields, and others without their defaults."""
        values: list[tuple[Any, int]] = [(f, getattr(self, f.name)) for f in fields(self)]
        said = [f"{f.name}={value}" for i, (f, value) in enumerate(values) if i < _SHOWN or value != f.default]
        return f"{self.kind}{{{' '.join(said)}}}"

    @classmethod
    def read(cls, text: str) -> Self:
        """Parses text such as "forward{m=128 n=64}"; raises CompileError for anything else."""
        return read(text, (cls,))

    def check(self) -> None:
        """Raises CompileError for numbers that the kernel cannot have."""


AnySchedule = TypeVar("AnySchedule", bound=KernelSchedule)


def read(text: str, kinds: Sequence[type[AnySchedule]]) -> AnySchedule:
    """Parses a schedule of one of these kinds; fields that the text leaves out have their defaults. Raises CompileError for
    malformed text, and for numbers that the kernel cannot have."""
    whole = _TEXT.fullmatch(text.strip())
    made = {kind.kind: kind for kind in kinds}.get(whole[1] if whole else "")
    if whole is None or made is None:
        some = " or ".join(str(kind()) for kind in kinds)
        raise CompileError(f"{text!r} is no schedule", remedy=f"write one like {some}")
    known = [field.name for field in fields(made)]
    values: dict[str, int] = {}
    for part in whole[2].split():
        key, _, number = part.partition("=")
        if key not in known or not number.isdigit():
            raise CompileError(f"{part!r} is no part of {made.kind}{{...}}", remedy=f"it has {', '.join(known)}, each a number")
        values[key] = int(number)
    found = made(**values)
    found.check()
    return found
