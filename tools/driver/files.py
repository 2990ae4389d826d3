"""Handles opt-driver's input, output and standard streams."""

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
    """Splits the input at `// -----` lines if `at_marks`; returns each piece with the number of its first line, from 1."""
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
    """Writes text, ended by a newline, to a file, or to standard output for "-".

    Raises CompileError if that fails, but BrokenPipeError where the reader has gone.
    """
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
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # discards what is still buffered when the process ends
        where = "<stdout>" if file == "-" else file
        raise CompileError(f"cannot write: {error.strerror or error}", where=f"{where}:1:1") from error


def replace_closed() -> None:
    """Replaces standard streams that the parent process closed, which are None, by /dev/null.

    Standard input and output then fail when used; standard error discards what is written.
    """
    for number, (name, mode) in enumerate((("stdin", "w"), ("stdout", "r"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, mode))


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Captures what LLVM's option parser itself prints to standard error; after the block the yielded list has its lines."""
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
