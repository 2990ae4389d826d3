"""Marks of candidates that are being run for the first time: what a process leaves behind that such a candidate has ended."""

import os
import sqlite3
from socket import gethostname

Key = tuple[str, str, str]
"""Of a question, a device, versions."""

TABLE = "CREATE TABLE running (key TEXT, device TEXT, versions TEXT, candidate TEXT, host TEXT, process INTEGER)"
WHERE = "WHERE key = ? AND device = ? AND versions = ?"
_MINE = f"{WHERE} AND candidate = ? AND host = ? AND process = ?"


def begin(connection: sqlite3.Connection, key: Key, candidate: str) -> None:
    connection.execute("INSERT INTO running VALUES (?, ?, ?, ?, ?, ?)", (*key, candidate, gethostname(), os.getpid()))


def end(connection: sqlite3.Connection, key: Key, candidate: str) -> None:
    connection.execute(f"DELETE FROM running {_MINE}", (*key, candidate, gethostname(), os.getpid()))


def left(connection: sqlite3.Connection, key: Key) -> list[str]:
    """Candidates whose process is no more. Of other hosts' nothing is known."""
    rows = connection.execute(f"SELECT candidate, host, process FROM running {WHERE} ORDER BY candidate", key).fetchall()
    return [candidate for candidate, host, process in rows if host == gethostname() and not _is_alive(process)]


def forget(connection: sqlite3.Connection, key: Key) -> None:
    """Takes away what `left` found."""
    for candidate in left(connection, key):
        connection.execute(f"DELETE FROM running {WHERE} AND candidate = ? AND host = ?", (*key, candidate, gethostname()))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True
