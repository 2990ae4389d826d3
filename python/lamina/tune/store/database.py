"""Opens the store's SQLite file, which may be absent, another program's, of another version, or damaged."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from lamina.core.errors import CompileError

from . import marks
from .records import VERSION, other_version

_APPLICATION = 0x4C614D74  # in the file's header: "LaMt"
_BUSY_SECONDS = 30.0
_TABLE = "CREATE TABLE answers (key TEXT, device TEXT, versions TEXT, record TEXT, PRIMARY KEY (key, device, versions))"


@contextmanager
def opened(path: Path, *, create: bool = False) -> Iterator[sqlite3.Connection | None]:
    """Yields a connection in a transaction, which may write where `create`; None for an absent or empty file that is not to be
    created.

    Writes are committed once the block ends without an error. Without `create`, a read-only file can be opened too. Raises
    CompileError for another version or another program's file.
    """
    if create:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    elif not path.exists():
        yield None
        return
    if _is_text(path):
        raise CompileError("it holds text, no store", where=str(path), remedy="lamina tune merge FILE takes an export in")
    uri = f"file:{quote(str(path.absolute()))}?mode={'rwc' if create else 'rw'}"
    with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")  # views and triggers of a file that somebody else wrote run no functions
        connection.execute("BEGIN IMMEDIATE" if create else "BEGIN")  # all reads see one state of the file
        if _is_new(connection, path):
            if not create:
                yield None
                return
            connection.execute(_TABLE)
            connection.execute(marks.TABLE)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        yield connection
        if create:
            connection.execute("COMMIT")


def _is_text(path: Path) -> bool:
    """Returns whether the file holds text, such as an export: SQLite would report it as a damaged database."""
    try:
        with open(path, "rb") as file:
            start = file.read(64)
    except OSError:  # absent, or SQLite will report the error
        return False
    return bool(start) and not start.startswith(b"SQLite format 3") and all(32 <= c < 127 or c in b"\t\n\r" for c in start)


def _is_new(connection: sqlite3.Connection, path: Path) -> bool:
    """Returns whether the database is empty."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, found) == (_APPLICATION, VERSION):
        return False
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return True
    raise other_version(path, found if application == _APPLICATION else "of another program")


def is_damage(error: sqlite3.Error) -> bool:
    """Returns whether the error means that the file is not an intact database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def move_aside(path: Path) -> Path | None:
    """Renames a damaged file and returns its new path; None where another process has done so since. Raises OSError where it cannot
    be renamed."""
    with open(path.with_name(path.name + ".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # else a second process would move the new file that the first has begun
        if not _is_damaged(path):
            return None
        number = 1
        while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
            number += 1
        os.rename(path, aside)
        with suppress(FileNotFoundError):  # SQLite would roll the journal back into the new file
            os.rename(f"{path}-journal", f"{aside}-journal")
        return aside


def _is_damaged(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=rw", uri=True, timeout=_BUSY_SECONDS)) as connection:
            return bool(connection.execute("PRAGMA quick_check").fetchone() != ("ok",))
    except sqlite3.DatabaseError as error:
        return is_damage(error)
