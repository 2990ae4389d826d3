"""Stores answers in one SQLite file that any number of processes read and write.

An answer is found by its question's key, the device and the versions it was measured with. It names candidates only, never code,
and a name that is not among a question's candidates is ignored: another user's store can make a program slower, not wrong.
"""

import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import platformdirs

from lamina.core.errors import CompileError

from ..question import Answer, Identity, Question
from . import marks, rows
from .database import is_damage, move_aside, opened
from .records import Record, dump, merged, now, parse

_log = logging.getLogger("lamina")
T = TypeVar("T")
U = TypeVar("U")


def default_path() -> Path:
    """Returns LAMINA_TUNE_STORE, else `lamina/tuning.sqlite` in the user's data folder (XDG_DATA_HOME or ~/.local/share)."""
    given = os.environ.get("LAMINA_TUNE_STORE")
    return Path(given) if given else Path(platformdirs.user_data_dir("lamina")) / "tuning.sqlite"


class Store:
    """The answers in a file, which is created when the first is put.

    A file that cannot be read, is of another version or is damaged counts as empty; one that cannot be written keeps its answers.
    Each case causes one warning, no error. A damaged file is moved aside.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._warned: set[str] = set()

    def get(self, key: str, identity: Identity) -> Answer | None:
        """Returns what is known of the question with this key; None for nothing."""

        def work(connection: sqlite3.Connection) -> Answer | None:
            return rows.known(connection, (key, identity.device, identity.versions))

        return self._read(work, None)

    def state(self, identity: Identity) -> str:
        """Returns a digest of all answers under this identity, "" where there are none: compilations with equal states choose
        alike."""
        known = {
            r.question.key: (r.answer.winner, sorted(dict(r.answer.dropped))) for r in self.records() if r.identity == identity
        }
        return hashlib.sha256(json.dumps(sorted(known.items())).encode()).hexdigest() if known else ""

    def put(self, question: Question, identity: Identity, answer: Answer) -> bool:
        """Stores what was measured; a pin stays. Returns False where the file cannot be written."""

        def work(connection: sqlite3.Connection) -> None:
            key = (question.key, identity.device, identity.versions)
            old = rows.get(connection, key)
            marks.forget(connection, key)  # their candidates are dropped in the answer, which came from `get`
            pin = old.answer.pin if old and old.answer.pin in question.candidates else ""
            rows.put(connection, Record(question, identity, replace(answer, pin=pin), now()))

        return self._put(work)

    def takes(self) -> bool:
        """Returns whether the file, which is created, can be written; a warning gives the reason if not."""
        return self._put(lambda connection: None)

    @contextmanager
    def trying(self, key: str, identity: Identity, candidate: str) -> Iterator[None]:
        """Surrounds a candidate's first run: if that ends the process, other processes find the candidate dropped."""
        place = (key, identity.device, identity.versions)
        marked = self._put(lambda connection: marks.begin(connection, place, candidate))
        try:
            yield
        finally:
            if marked:
                self._put(lambda connection: marks.end(connection, place, candidate))

    def records(self) -> list[Record]:
        """Returns all answers."""
        return self._read(lambda connection: list(rows.every(connection)), [])

    def find(self, which: str) -> Record:
        """Returns the answer named by its key, its id or a prefix of the id. Raises CompileError for none or several."""
        return rows.find(self.records(), which)

    def pin(self, which: str, candidate: str) -> Record:
        """Fixes the choice of one answer, named as for `find`. Raises CompileError for a candidate that was dropped or does not
        exist."""

        def change(record: Record) -> Record:
            why = dict(record.answer.dropped).get(candidate)
            if why is not None:
                raise CompileError(f"{candidate!r} was dropped: {why}", remedy=f"lamina tune clear {record.id} forgets that")
            if candidate not in record.question.candidates:
                known = ", ".join(record.question.candidates)
                raise CompileError(f"{record.question.what} has no candidate {candidate!r}", remedy=f"one of {known}")
            return replace(record, answer=replace(record.answer, pin=candidate), time=now())

        return self._change(which, change)

    def unpin(self, which: str) -> Record:
        """Removes the pin of one answer: the measured choice holds again."""
        return self._change(which, lambda record: replace(record, answer=replace(record.answer, pin="")))

    def clear(self, which: str = "") -> int:
        """Deletes one answer, or all. Returns how many."""

        def work(connection: sqlite3.Connection) -> int:
            records = [rows.find(rows.every(connection), which)] if which else list(rows.every(connection))
            if which:
                rows.delete(connection, rows.key_of(records[0]))
            else:
                rows.delete_all(connection)
            return len(records)

        return self._must_write(work)

    def export(self) -> str:
        """Returns all answers as text that Store.merge reads: the same answers give the same text."""
        return dump(self.records())

    def merge(self, file: Path) -> tuple[int, int]:
        """Merges the answers of an export or of another store: those to new questions, pinned ones, newer ones. Returns how many it
        took and how many it left. Raises CompileError, naming the file, for anything else or another version."""
        records = read(file)

        def work(connection: sqlite3.Connection) -> int:
            taken = 0
            for theirs in records:
                ours = rows.get(connection, rows.key_of(theirs))
                best = merged(ours, theirs) if ours else theirs
                if best != ours:
                    rows.put(connection, best)
                    taken += 1
            return taken

        taken = self._must_write(work)
        return taken, len(records) - taken

    def _put(self, work: Callable[[sqlite3.Connection], object]) -> bool:
        """Runs `work` in a transaction. Returns False, after a warning, where the file cannot be written."""
        try:
            return self._write(lambda connection: (work(connection),), None) is not None
        except CompileError as error:
            self._warn("is not used", error.message)
            return False

    def _change(self, which: str, change: Callable[[Record], Record]) -> Record:
        def work(connection: sqlite3.Connection) -> Record:
            record = change(rows.find(rows.every(connection), which))
            rows.put(connection, record)
            return record

        return self._must_write(work)

    def _must_write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        done = self._write(lambda connection: (work(connection),), None)
        if done is None:
            raise CompileError("the store cannot be written", where=str(self.path), remedy="set LAMINA_TUNE_STORE to another file")
        return done[0]

    def _read(self, work: Callable[[sqlite3.Connection], T], otherwise: U) -> T | U:
        try:
            return self._attempt(lambda: _work_in(self.path, work, otherwise), otherwise, "cannot be read")
        except CompileError as error:
            self._warn("is not used", error.message)
            return otherwise

    def _write(self, work: Callable[[sqlite3.Connection], T], otherwise: U) -> T | U:
        def run() -> T:
            with opened(self.path, create=True) as connection:
                assert connection is not None
                return work(connection)

        return self._attempt(run, otherwise, "cannot be written")

    def _attempt(self, work: Callable[[], T], otherwise: U, failing: str) -> T | U:
        """Runs `work`, and once more where the file was damaged and has been moved aside."""
        for _ in range(2):
            try:
                return work()
            except sqlite3.Error as error:
                if not is_damage(error):
                    self._warn(failing, error)
                    return otherwise
                try:
                    if aside := move_aside(self.path):
                        _log.warning("lamina: the store of tuning %s is damaged: moved to %s, a new one begins", self.path, aside)
                except OSError as reason:
                    self._warn("is damaged and cannot be moved aside", reason)
                    return otherwise
            except OSError as error:
                self._warn(failing, error)
                return otherwise
        return otherwise

    def _warn(self, what: str, error: object) -> None:
        if what not in self._warned:
            self._warned.add(what)
            reason = getattr(error, "strerror", None) or error
            _log.warning("lamina: the store of tuning %s %s (%s): set LAMINA_TUNE_STORE to another file", self.path, what, reason)


def read(file: Path) -> list[Record]:
    """Returns the answers of an export or a store, whose file is not changed. Raises CompileError, naming the file, for anything
    else."""
    try:
        data = file.read_bytes()
        if data.startswith(b"SQLite format 3\0"):
            return _work_in(file, lambda connection: list(rows.every(connection)), [])
        return parse(data.decode(), file)
    except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
        raise CompileError(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=str(file)) from error


def _work_in(path: Path, work: Callable[[sqlite3.Connection], T], otherwise: U) -> T | U:
    with opened(path) as connection:
        return work(connection) if connection else otherwise
