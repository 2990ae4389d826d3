"""Marks candidates that are being run for the first time. A mark that outlives its process shows that the candidate crashed it."""

import os
import sqlite3
from socket import gethostname

Key = tuple[str, str, str]
"""(question's key, device, versions)."""

TABLE = "CREATE TABLE running (key TEXT, device TEXT, versions TEXT, candidate TEXT, host TEXT, process INTEGER)"
WHERE = "WHERE key = ? AND device = ? AND versions = ?"
_MINE = f"{WHERE} AND candidate = ? AND host = ? AND process = ?"


def begin(connection: sqlite3.Connection, key: Key, candidate: str) -> None:
    """Marks a candidate as running in this process."""
    connection.execute("INSERT INTO running VALUES (?, ?, ?, ?, ?, ?)", (*key, candidate, gethostname(), os.getpid()))


def end(connection: sqlite3.Connection, key: Key, candidate: str) -> None:
    """Removes this process's mark of a candidate."""
    connection.execute(f"DELETE FROM running {_MINE}", (*key, candidate, gethostname(), os.getpid()))


def left(connection: sqlite3.Connection, key: Key) -> list[str]:
    """Returns the marked candidates whose process, on this host, has ended. Marks of other hosts cannot be checked."""
    rows = connection.execute(f"SELECT candidate, host, process FROM running {WHERE} ORDER BY candidate", key).fetchall()
    return [candidate for candidate, host, process in rows if host == gethostname() and not _is_alive(process)]


def forget(connection: sqlite3.Connection, key: Key) -> None:
    """Removes this host's marks of the candidates that `left` returns."""
    for candidate in left(connection, key):
        connection.execute(f"DELETE FROM running {WHERE} AND candidate = ? AND host = ?", (*key, candidate, gethostname()))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # alive, but another user's
        return True
    return True
