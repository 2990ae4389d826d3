"""What opt-driver reads, writes and hears."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lamina.core.errors import CompileError

_SPLIT = re.compile(r"^[ \t]*// -----[ \t]*$", re.MULTILINE)


def split(data: bytes, at_marks: bool) -> list[tuple[int, bytes]]:
    """The pieces of the input with the number of their first line."""
    if not at_marks:
        return [(1, data)]
    text = data.decode("utf-8", "surrogateescape")
    pieces, start, first = [], 0, 1
    for mark in [*_SPLIT.finditer(text), None]:
        piece = text[start : mark.start() if mark else len(text)]
        pieces.append((first, piece.encode("utf-8", "surrogateescape")))
        first += piece.count("\n")
        start = mark.end() if mark else start
    return pieces


def write_output(file: str, text: str) -> None:
    """Writes to a file, or to standard output for "-"."""
    text += "" if text.endswith("\n") else "\n"
    try:
        if file == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            Path(file).write_text(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        if file == "-":
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # takes what is left when the process ends
        where = "<stdout>" if file == "-" else file
        raise CompileError(f"cannot write: {error.strerror or error}", where=f"{where}:1:1") from error


def replace_closed() -> None:
    """Standard streams that were closed by whoever started us become ones that fail when used, not None. Errors go nowhere."""
    for number, (name, mode) in enumerate((("stdin", "w"), ("stdout", "r"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, mode))


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Catches what LLVM's option parser prints to standard error by itself; the list gets its lines."""
    lines: list[str] = []
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            lines += file.read().decode(errors="replace").split("\n")
