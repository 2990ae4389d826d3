"""Schedules of kernels as text, such as "forward{m=128 n=64}"."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar

from lamina.core.errors import CompileError

_SHOWN = 2  # fields that are always written: the sizes of blocks
_TEXT = re.compile(r"(\w+)\{([^{}]*)\}")


@dataclass(frozen=True)
class KernelSchedule:
    """A schedule of a kernel; subclasses have fields that are integers or text. kind: the word before its fields in text."""

    kind: ClassVar[str]

    @property
    def said(self) -> dict[str, int | str]:
        """The fields that are written: the first two, and others without their defaults."""
        values: list[tuple[Any, int | str]] = [(f, getattr(self, f.name)) for f in fields(self)]
        return {f.name: value for i, (f, value) in enumerate(values) if i < _SHOWN or value != f.default}

    def __str__(self) -> str:
        """The text that `read` takes."""
        return f"{self.kind}{{{' '.join(f'{name}={value}' for name, value in self.said.items())}}}"

    @classmethod
    def read(cls, text: str) -> Self:
        """Parses text such as "forward{m=128 n=64}"; raises CompileError for anything else."""
        return read(text, (cls,))

    def check(self) -> None:
        """Raises CompileError for numbers that the kernel cannot have."""


AnySchedule = TypeVar("AnySchedule", bound=KernelSchedule)


def read(text: str, kinds: Sequence[type[AnySchedule]]) -> AnySchedule:
    """Parses a schedule of one of these kinds; raises CompileError as `made` does, and for malformed text."""
    whole = _TEXT.fullmatch(text.strip())
    if whole is None:
        raise _unknown(text, kinds)
    parts = [part.partition("=") for part in whole[2].split()]
    return made(whole[1], {key: int(number) if number.isdigit() else number for key, _, number in parts}, kinds)


def made(kind: str, values: Mapping[str, object], kinds: Sequence[type[AnySchedule]]) -> AnySchedule:
    """Returns the schedule of a kind, one of `kinds`, with these fields; the others have their defaults. Raises CompileError for
    other kinds and fields, and for numbers that the kernel cannot have."""
    of = next((one for one in kinds if one.kind == kind), None)
    if of is None:
        raise _unknown(kind, kinds)
    known = {field.name: type(field.default) for field in fields(of)}
    for key, value in values.items():
        if type(value) is not known.get(key):
            each = "a number" if int in known.values() else "a text"
            raise CompileError(f"'{key}={value}' is no part of {kind}{{...}}", remedy=f"it has {', '.join(known)}, each {each}")
    found = of(**values)
    found.check()
    return found


def _unknown(text: str, kinds: Sequence[type[KernelSchedule]]) -> CompileError:
    return CompileError(f"{text!r} is no schedule", remedy=f"write one like {' or '.join(str(kind()) for kind in kinds)}")
