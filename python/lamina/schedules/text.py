"""Reads and writes schedules as text, such as "forward{m=128 n=64}"."""

import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from lamina.core.errors import CompileError

_TEXT = re.compile(r"(\w+)\{([^{}]*)\}")


def write(schedule: Any) -> str:
    """Returns the text of a dataclass with integer fields and a `kind`."""
    return f"{schedule.kind}{{{' '.join(f'{key}={value}' for key, value in asdict(schedule).items())}}}"


def read(text: str, kinds: Sequence[type], of: str) -> Any:
    """Parses a schedule of one of these kinds; fields that the text leaves out have their defaults. of: what the schedule is for,
    named in errors. Raises CompileError for malformed text."""
    whole = _TEXT.fullmatch(text.strip())
    made: Any = {kind.kind: kind for kind in kinds}.get(whole[1] if whole else "")  # type: ignore[attr-defined]
    if whole is None or made is None:
        *some, last = (write(kind()) for kind in kinds)
        raise CompileError(f"{text!r} is no schedule of {of}", remedy=f"write one like {', '.join(some)} or {last}")
    known = [field.name for field in fields(made)]
    values: dict[str, int] = {}
    for part in whole[2].split():
        key, _, number = part.partition("=")
        if key not in known or not number.isdigit():
            raise CompileError(f"{part!r} is no part of {made.kind}{{...}}", remedy=f"it has {', '.join(known)}, each a number")
        values[key] = int(number)
    return made(**values)
