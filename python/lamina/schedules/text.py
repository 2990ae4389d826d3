"""Reads and writes schedules as text, such as "forward{m=128 n=64}"."""

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from lamina.core.errors import CompileError

_SHOWN = 2  # fields that are always written: the sizes of blocks
_TEXT = re.compile(r"(\w+)\{([^{}]*)\}")


def write(schedule: Any) -> str:
    """Returns the text of a dataclass with integer fields and a `kind`: the first two fields, and others without their defaults."""
    values = [(f, getattr(schedule, f.name)) for f in fields(schedule)]
    said = [f"{f.name}={value}" for i, (f, value) in enumerate(values) if i < _SHOWN or value != f.default]
    return f"{schedule.kind}{{{' '.join(said)}}}"


def read(text: str, kinds: Sequence[type], of: str) -> Any:
    """Parses a schedule of one of these kinds; fields that the text leaves out have their defaults. of: what the schedule is for,
    named in errors. Raises CompileError for malformed text."""
    whole = _TEXT.fullmatch(text.strip())
    made: Any = {kind.kind: kind for kind in kinds}.get(whole[1] if whole else "")  # type: ignore[attr-defined]
    if whole is None or made is None:
        some = " or ".join(write(kind()) for kind in kinds)
        raise CompileError(f"{text!r} is no schedule of {of}", remedy=f"write one like {some}")
    known = [field.name for field in fields(made)]
    values: dict[str, int] = {}
    for part in whole[2].split():
        key, _, number = part.partition("=")
        if key not in known or not number.isdigit():
            raise CompileError(f"{part!r} is no part of {made.kind}{{...}}", remedy=f"it has {', '.join(known)}, each a number")
        values[key] = int(number)
    return made(**values)
