"""Stores answers in one file that any number of processes read and write, and whose text is that of an export.

An answer is found by its question's key, the device and the versions it was measured with. It names candidates only, never code,
and a name that is not among a question's candidates is ignored: another user's store can make a program slower, not wrong.

The file is replaced as a whole, under a lock of all that write: those that read need no lock, and never see half of it.
"""

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from socket import gethostname
from typing import Any, TypeVar

import platformdirs

from lamina.core.errors import CompileError

from ..question import Answer, Identity, Question
from .records import Damaged, Key, Mark, Record, document, dump, find, from_json, merged, now, parse

_log = logging.getLogger("lamina")
T = TypeVar("T")


def default_path() -> Path:
    """Returns LAMINA_TUNE_STORE, else `lamina/tuning.json` in the user's data folder (XDG_DATA_HOME or ~/.local/share)."""
    given = os.environ.get("LAMINA_TUNE_STORE")
    return Path(given) if given else Path(platformdirs.user_data_dir("lamina")) / "tuning.json"


@dataclass
class _Contents:
    """The contents of a store's file: records, and marks of candidates that are being run for the first time. A mark that outlives
    its process shows that the candidate ended it."""

    records: dict[Key, Record] = field(default_factory=dict)
    running: list[Mark] = field(default_factory=list)

    def died(self, key: Key) -> list[Mark]:
        """Returns the marks of a question whose process, on this host, has ended. Those of other hosts cannot be checked."""
        return [mark for mark in self.running if mark[:3] == key and mark[4] == gethostname() and not _is_alive(mark[5])]

    def forget(self, key: Key) -> None:
        """Removes what `died` returns."""
        died = self.died(key)
        self.running = [mark for mark in self.running if mark not in died]


class Store:
    """The answers in a file, which is created when the first is put.

    A file that cannot be read, is of another version or is damaged counts as empty; one that cannot be written keeps its answers.
    Each case causes one warning, no error. A damaged file is moved aside by the next that writes.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._warned: set[str] = set()

    def get(self, key: str, identity: Identity) -> Answer | None:
        """Returns the stored answer to the question with this key, with candidates that ended their process among the dropped; None
        for nothing."""
        contents, place = self._read(), (key, identity.device, identity.versions)
        found = contents.records.get(place)
        answer = found.answer if found else Answer("")
        died = dict.fromkeys(mark[3] for mark in contents.died(place))
        more = tuple((name, "it ended the process") for name in died if name not in dict(answer.dropped))
        return replace(answer, dropped=answer.dropped + more) if found or more else None

    def state(self, identity: Identity) -> str:
        """Returns a digest of all answers under this identity, "" if there are none: compilations with equal states choose
        alike."""
        known = {
            r.question.key: (r.answer.winner, sorted(dict(r.answer.dropped))) for r in self.records() if r.identity == identity
        }
        return hashlib.sha256(json.dumps(sorted(known.items())).encode()).hexdigest() if known else ""

    def put(self, question: Question, identity: Identity, answer: Answer) -> bool:
        """Stores what was measured; a pin stays. Returns False if the file cannot be written."""

        def change(contents: _Contents) -> None:
            """Stores the new answer, with the pin of the old one."""
            new = Record(question, identity, answer, now())
            contents.forget(new.key)  # their candidates are dropped in the answer, which came from `get`
            pin = contents.records[new.key].answer.pin if new.key in contents.records else ""
            new_pin = pin if pin in question.candidates else ""
            contents.records[new.key] = replace(new, answer=replace(answer, pin=new_pin))

        return self._put(change)

    def takes(self) -> bool:
        """Returns whether the file, which is created, can be written; a warning gives the reason if not."""
        return self._put(lambda contents: None)

    @contextmanager
    def trying(self, key: str, identity: Identity, candidate: str) -> Iterator[None]:
        """Surrounds a candidate's first run: if that ends the process, other processes find the candidate dropped."""
        mark = (key, identity.device, identity.versions, candidate, gethostname(), os.getpid())
        marked = self._put(lambda contents: contents.running.append(mark))
        try:
            yield
        finally:
            if marked:
                self._put(lambda contents: contents.running.remove(mark) if mark in contents.running else None)

    def records(self) -> list[Record]:
        """Returns all answers, in an order that depends on their questions and identities alone."""
        return list(self._read().records.values())

    def find(self, name: str) -> Record:
        """Returns the answer named by its key, its id or a prefix of the id. Raises CompileError for none or several."""
        return find(self.records(), name)

    def pin(self, name: str, candidate: str) -> Record:
        """Fixes the choice of one answer, named as for `find`. Raises CompileError for a candidate that was dropped or does not
        exist."""

        def pinned(record: Record) -> Record:
            """Pins the candidate. Raises CompileError if the question has no such candidate."""
            why = dict(record.answer.dropped).get(candidate)
            if why is not None:
                raise CompileError(f"{candidate!r} was dropped: {why}", remedy=f"lamina tune clear {record.id} forgets that")
            if candidate not in record.question.candidates:
                known = ", ".join(record.question.candidates)
                raise CompileError(f"{record.question.what} has no candidate {candidate!r}", remedy=f"one of {known}")
            return replace(record, answer=replace(record.answer, pin=candidate), time=now())

        return self._change(name, pinned)

    def unpin(self, name: str) -> Record:
        """Removes the pin of one answer: the measured choice holds again."""
        return self._change(name, lambda record: replace(record, answer=replace(record.answer, pin="")))

    def clear(self, name: str = "") -> int:
        """Deletes one answer, or all. Returns how many."""

        def change(contents: _Contents) -> int:
            """Drops the chosen answers and returns their number."""
            gone = [find(contents.records.values(), name).key] if name else list(contents.records)
            for key in gone:
                del contents.records[key]
                contents.forget(key)
            contents.running = contents.running if name else []
            return len(gone)

        return self._must_update(change)

    def export(self) -> str:
        """Returns all answers as text that Store.merge reads: the same answers give the same text."""
        return dump(self.records())

    def merge(self, file: Path) -> tuple[int, int]:
        """Merges the answers of an export or of another store: those to new questions, pinned ones, newer ones. Returns how many it
        took and how many it left. Raises CompileError, naming the file, for anything else or another version."""
        try:
            imported = parse(file.read_text(), file)
        except (OSError, UnicodeDecodeError) as error:
            raise CompileError(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=str(file)) from error

        def change(contents: _Contents) -> int:
            """Takes the better answers and returns their number."""
            best = {r.key: merged(contents.records[r.key], r) if r.key in contents.records else r for r in imported}
            taken = sum(contents.records.get(key) != record for key, record in best.items())
            contents.records |= best
            return taken

        taken = self._must_update(change)
        return taken, len(imported) - taken

    def _change(self, name: str, new: Callable[[Record], Record]) -> Record:
        def change(contents: _Contents) -> Record:
            """Replaces the record."""
            record = new(find(contents.records.values(), name))
            contents.records[record.key] = record
            return record

        return self._must_update(change)

    def _read(self) -> _Contents:
        """Returns the contents of the file; nothing, after a warning, if it cannot be used."""
        try:
            return self._load()
        except CompileError as error:
            self._warn("is not used", error.message)
        except OSError as error:
            self._warn("cannot be read", error)
        return _Contents()

    def _put(self, change: Callable[[_Contents], object]) -> bool:
        """Updates the file. Returns False, after a warning, where it cannot be used or written."""
        try:
            self._update(change)
        except CompileError as error:
            self._warn("is not used", error.message)
        except OSError as error:
            self._warn("cannot be written", error)
        else:
            return True
        return False

    def _must_update(self, change: Callable[[_Contents], T]) -> T:
        try:
            return self._update(change)
        except OSError as error:
            self._warn("cannot be written", error)
            remedy = "set LAMINA_TUNE_STORE to another file"
            raise CompileError("the store cannot be written", where=str(self.path), remedy=remedy) from error

    def _load(self) -> _Contents:
        """Raises CompileError for a file of another kind or version, Damaged for a damaged one, OSError."""
        try:
            text = self.path.read_text(errors="replace")
        except FileNotFoundError:
            return _Contents()
        records, running = _parsed(text, self.path) if text else ((), ())
        return _Contents({r.key: r for r in records}, list(running))

    def _update(self, change: Callable[[_Contents], T]) -> T:
        """Replaces the file by one with changed contents. Raises as `_load`, but moves a damaged file aside."""
        path = self.path.resolve()  # the file behind a link
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(f"{path}.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                contents = self._load()
            except Damaged:
                contents, number = _Contents(), 1
                while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
                    number += 1
                os.rename(path, aside)
                _log.warning("lamina: the store of tuning %s is damaged: moved to %s, a new one begins", self.path, aside)
            result = change(contents)
            new = path.with_name(f"{path.name}.new")
            new.write_text(dump(contents.records.values(), contents.running))
            os.replace(new, path)
        return result

    def _warn(self, what: str, error: object) -> None:
        if what not in self._warned:
            self._warned.add(what)
            reason = getattr(error, "strerror", None) or error
            _log.warning("lamina: the store of tuning %s %s (%s): set LAMINA_TUNE_STORE to another file", self.path, what, reason)


@lru_cache(4)
def _parsed(text: str, path: Path) -> tuple[tuple[Record, ...], tuple[Mark, ...]]:
    """Returns the records and marks in a store's text. Answers that read wrong, such as one edited by hand, are left out, with a
    warning."""
    found, records = document(text, path), []
    for entry in found["answers"]:
        try:
            records.append(from_json(entry))
        except ValueError:
            _log.warning("lamina: an answer of the store of tuning reads wrong and is ignored: %.80s", entry)
    marks: Any = (tuple(mark) for mark in found.get("running", ()) if isinstance(mark, list) and len(mark) == 6)
    return tuple(records), tuple(marks)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # alive, but another user's
        return True
    return True
