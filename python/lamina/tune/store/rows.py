"""Reads and writes records as rows of the store's table, with candidates that ended their process among the dropped."""

import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lamina.core.errors import CompileError

from ..question import Answer
from . import marks
from .records import Record, from_json, to_json

_log = logging.getLogger("lamina")


def key_of(record: Record) -> marks.Key:
    """Returns the primary key of a record."""
    return record.question.key, record.identity.device, record.identity.versions


def known(connection: sqlite3.Connection, key: marks.Key) -> Answer | None:
    """Returns the answer, with the candidates that ended their process among the dropped; None where nothing is known."""
    found, died = get(connection, key), marks.left(connection, key)
    answer = found.answer if found else Answer("")
    more = tuple((name, "it ended the process") for name in died if name not in dict(answer.dropped))
    return replace(answer, dropped=answer.dropped + more) if found or more else None


def get(connection: sqlite3.Connection, key: marks.Key) -> Record | None:
    """Returns the record with this key; None where there is none, or it does not parse."""
    row = connection.execute(f"SELECT record FROM answers {marks.WHERE}", key).fetchone()
    found = _decode(row[0]) if row else None
    return found if found and key_of(found) == key else None


def put(connection: sqlite3.Connection, record: Record) -> None:
    """Stores a record in place of the old one."""
    text = json.dumps(to_json(record), ensure_ascii=False)
    connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", (*key_of(record), text))


def delete(connection: sqlite3.Connection, key: marks.Key) -> None:
    """Deletes the answer with this key, and marks of candidates that ended their process."""
    connection.execute(f"DELETE FROM answers {marks.WHERE}", key)
    marks.forget(connection, key)


def delete_all(connection: sqlite3.Connection) -> None:
    """Deletes all answers and marks."""
    for table in ("answers", "running"):
        connection.execute(f"DELETE FROM {table}")


def every(connection: sqlite3.Connection) -> Iterator[Record]:
    """Yields all records, in an order that depends on the keys alone."""
    rows = connection.execute("SELECT record FROM answers ORDER BY device, versions, key").fetchall()
    return (record for (text,) in rows if (record := _decode(text)))


def find(records: Iterable[Record], which: str) -> Record:
    """Returns the record named by its key, its id or a prefix of the id. Raises CompileError for none or several."""
    found = [r for r in records if r.question.key == which or r.id.startswith(which)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise CompileError(f"the store has no answer {which!r}", remedy="lamina tune show lists them")
    raise CompileError(f"{which!r} names {len(found)} answers", remedy=f"one of {', '.join(r.id for r in found)}")


def _decode(text: object) -> Record | None:
    """The record; None, with a warning, for text that does not parse, such as one edited by hand."""
    try:
        return from_json(json.loads(str(text)))
    except ValueError:
        _log.warning("lamina: an answer of the store of tuning reads wrong and is ignored: %.80s", text)
        return None
