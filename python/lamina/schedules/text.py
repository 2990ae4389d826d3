"""Schedules of kernels as text, such as "forward{m=128 n=64}"."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

from lamina.core.errors import CompileError

_SHOWN = 2  # fields that are always written: the sizes of blocks
_TEXT = re.compile(r"(\w+)\{(.*)\}")


@dataclass(frozen=True)
class KernelSchedule:
    """A schedule of a kernel. Its fields are integers or text; what numbers they take is declared by `power_of_two` and the like.

    kind  the word before its fields in text
    """

    kind: ClassVar[str]

    @property
    def text(self) -> str:
        """The text that `read` parses: the first two fields, and others that differ from their defaults."""
        values: list[tuple[Any, int | str]] = [(f, getattr(self, f.name)) for f in fields(self)]
        shown = (f"{f.name}={value}" for i, (f, value) in enumerate(values) if i < _SHOWN or value != f.default)
        return f"{self.kind}{{{' '.join(shown)}}}"

    def __str__(self) -> str:
        """Returns the text for people, which is also the name of a candidate."""
        return self.text

    @classmethod
    def read(cls, text: str) -> Self:
        """Parses text such as "forward{m=128 n=64}"; raises CompileError for anything else."""
        return read(text, (cls,))

    def check(self) -> None:
        """Raises CompileError for numbers that the kernel cannot have: those that fields are not declared for."""
        for f in fields(self):
            number = getattr(self, f.name)
            if (allowed := f.metadata.get("of")) is not None and not allowed.holds(number):
                raise CompileError(f"{self.kind}{{{f.name}={number}}}", remedy=f"{f.name} is {allowed}")


@dataclass(frozen=True)
class _Numbers:
    """The numbers that a field may have: the `listed` ones, and powers of two, or any number, from `least` to `most`."""

    listed: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None
    powers: bool = False

    def holds(self, number: int) -> bool:
        """Returns whether it takes a number."""
        if number in self.listed:
            return True
        beyond = self.least is None or number < self.least or (self.most is not None and number > self.most)
        return not beyond and not (self.powers and number & (number - 1))

    def __str__(self) -> str:
        kinds = list(map(str, self.listed))
        if self.powers:
            start, end = (f" from {self.least}" if self.least != 1 else ""), (f" up to {self.most}" if self.most else "")
            kinds.append(f"a power of two{start}{end}")
        elif self.least is not None:
            kinds.append(f"at least {self.least}")
        return " or ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)


def power_of_two(default: int, least: int = 1, most: int | None = None, *, also: tuple[int, ...] = ()) -> Any:
    """Declares a field of a schedule that takes powers of two in a range, and the numbers `also`."""
    return field(default=default, metadata={"of": _Numbers(also, least, most, powers=True)})


def positive(default: int) -> Any:
    """Declares a field that takes numbers from 1 on."""
    return field(default=default, metadata={"of": _Numbers(least=1)})


def one_of(default: int, *numbers: int) -> Any:
    """Declares a field that takes these numbers."""
    return field(default=default, metadata={"of": _Numbers(numbers)})


def flag(default: int) -> Any:
    """Declares a field that is 0 or 1."""
    return one_of(default, 0, 1)


AnySchedule = TypeVar("AnySchedule", bound=KernelSchedule)


def read(text: str, kinds: Sequence[type[AnySchedule]]) -> AnySchedule:
    """Parses a schedule of one of these kinds; fields that the text leaves out have their defaults. Raises CompileError for other
    text, kinds and fields, and for numbers that the kernel cannot have."""
    whole = _TEXT.fullmatch(text.strip())
    kind = next((one for one in kinds if whole is not None and one.kind == whole[1]), None)
    if whole is None or kind is None:
        examples = " or ".join(one().text for one in kinds)
        raise CompileError(f"{text!r} is not a schedule", remedy=f"write one like {examples}")
    known, values = {f.name: type(f.default) for f in fields(kind)}, {}
    for part in [whole[2]] if str in known.values() else whole[2].split():  # a field that is text, the only one, may have spaces
        key, _, value = part.partition("=")
        values[key] = int(value) if known.get(key) is int and value.isdigit() else value
        if type(values[key]) is not known.get(key):
            each = "a number" if int in known.values() else "a text"
            raise CompileError(f"'{part}' is not part of {kind.kind}{{...}}", remedy=f"it has {', '.join(known)}, each {each}")
    found = kind(**values)
    found.check()
    return found
