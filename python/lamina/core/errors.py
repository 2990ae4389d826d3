"""The exception that Lamina raises for what it cannot compile."""

from collections.abc import Iterable
from difflib import get_close_matches


class CompileError(Exception):
    """A model, pipeline or kernel that cannot be compiled: what is wrong, where in the user's source, and how to fix it.

    message  one line, no traceback needed to understand it
    where    "file:line" in the user's model, or "" when unknown
    remedy   what to do about it, or ""
    """

    def __init__(self, message: str, *, where: str = "", remedy: str = "") -> None:
        self.message, self.where, self.remedy = message, where, remedy
        text = f"{where}: {message}" if where else message
        super().__init__(f"{text} ({remedy})" if remedy else text)


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Returns the remedy for a name that is not known: the names most like it, else `otherwise`, else all names."""
    known = list(known)
    if near := get_close_matches(name, known, 3):
        return f"did you mean {' or '.join(map(repr, near))}?"
    return otherwise or (f"one of {', '.join(known)}" if known else "there are none")
