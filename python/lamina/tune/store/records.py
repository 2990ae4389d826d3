"""Serializes tuning records as JSON, the format of the store, of exported files, and of the answers that ship with Lamina.

A store also has "running": the marks of candidates that are being run for the first time.

{"format": "lamina-tune", "version": 1, "answers": [{"key": ..., "device": ..., "versions": ..., "what": ...,
 "candidates": [...], "measured": ..., "pin": ..., "seconds": {...}, "dropped": {...}, "time": "2026-11-22T04:00:00+00:00"}]}
"""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lamina.core.errors import CompileError

from ..question import Answer, Identity, Question

VERSION = 1
_FORMAT = "lamina-tune"
_BEGIN = f'{{\n "format": "{_FORMAT}"'
_TEXTS = ("key", "device", "versions", "what", "measured", "pin", "time")


Key = tuple[str, str, str]
"""(question's key, device, versions)."""
Mark = tuple[str, str, str, str, str, int]
"""A candidate that a process runs: (question's key, device, versions, candidate, host, process)."""


class Damaged(CompileError):
    """Text that begins as `dump` begins, and is not what it returned."""


@dataclass(frozen=True)
class Record:
    """An answer with its question and identity; `time` is when it was measured or pinned."""

    question: Question
    identity: Identity
    answer: Answer
    time: datetime

    @property
    def id(self) -> str:
        """A short name for people to type."""
        return hashlib.sha256("\0".join(self.key).encode()).hexdigest()[:12]

    @property
    def key(self) -> Key:
        """The key by which an answer is found."""
        return self.question.key, self.identity.device, self.identity.versions


def now() -> datetime:
    """Returns the current time in UTC."""
    return datetime.now(UTC)


def to_json(record: Record) -> dict[str, Any]:
    """Returns a record as a dict that `from_json` reads."""
    answer = record.answer
    return {
        "key": record.question.key,
        "device": record.identity.device,
        "versions": record.identity.versions,
        "what": record.question.what,
        "candidates": list(record.question.candidates),
        "measured": answer.measured,
        "pin": answer.pin,
        "seconds": dict(answer.times),
        "dropped": dict(answer.dropped),
        "time": record.time.isoformat(),
    }


def from_json(data: Any) -> Record:
    """Reads the data of `to_json`. Raises ValueError for anything else."""
    try:
        key, device, versions, what, measured, pin, time = (_text(data[name]) for name in _TEXTS)
        candidates = tuple(_text(name) for name in data["candidates"])
        times = tuple((_text(name), _seconds(value)) for name, value in data["seconds"].items())
        dropped = tuple((_text(name), _text(why)) for name, why in data["dropped"].items())
        moment = datetime.fromisoformat(time)
        if moment.tzinfo is None or not {measured, pin} <= {"", *candidates}:
            raise ValueError("a time without a zone, or a choice that is none of the candidates")
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    answer = Answer(measured, times, dropped, pin)
    return Record(Question(key, what, candidates), Identity(device, versions), answer, moment)


def dump(records: Iterable[Record], running: Sequence[Mark] = ()) -> str:
    """Returns records as text, in an order that depends on their questions and identities alone, and marks, if there are any."""
    ordered = sorted(records, key=lambda r: (r.identity.device, r.identity.versions, r.question.key))
    document = {"format": _FORMAT, "version": VERSION, "answers": [to_json(r) for r in ordered]}
    return json.dumps(document | ({"running": running} if running else {}), indent=1, ensure_ascii=False) + "\n"


def document(text: str, file: Path) -> dict[str, Any]:
    """Reads the JSON of `dump`. Raises CompileError, naming the file, for anything else."""
    try:
        export = json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = Damaged if text.startswith(_BEGIN) else CompileError
        raise kind(f"this is not an export of tuning: {error}", where=str(file)) from error
    if not isinstance(export, dict) or export.get("format") != _FORMAT:
        raise CompileError("this is not an export of tuning", where=str(file), remedy="lamina tune export FILE writes one")
    if export.get("version") != VERSION:
        message = f"tuning in format {export.get('version')}, this Lamina reads format {VERSION}"
        remedy = "tune again with this version, or export with one that writes it"
        raise CompileError(message, where=str(file), remedy=remedy)
    if not isinstance(export.get("answers"), list):
        raise Damaged("an answer is damaged: the answers are not a list", where=str(file))
    return export


def parse(text: str, file: Path) -> list[Record]:
    """Returns the records in what `dump` returned. Raises CompileError, naming the file, for anything else."""
    try:
        return [from_json(entry) for entry in document(text, file)["answers"]]
    except ValueError as error:
        raise CompileError(f"an answer is damaged: {error}", where=str(file)) from error


def find(records: Iterable[Record], name: str) -> Record:
    """Returns the record named by its key, its id or a prefix of the id. Raises CompileError for none or several."""
    found = [r for r in records if r.question.key == name or r.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise CompileError(f"the store has no answer {name!r}", remedy="lamina tune show lists them")
    raise CompileError(f"{name!r} names {len(found)} answers", remedy=f"one of {', '.join(r.id for r in found)}")


def merged(one: Record, other: Record) -> Record:
    """Merges two records of the same question: returns the pinned one, else the newer, with the candidates that the other dropped
    added, unless it has timed them."""
    first, second = sorted((one, other), key=lambda r: (r.answer.pinned, r.time), reverse=True)
    best = first.answer
    known = {name for name, _ in (*best.times, *best.dropped)} | {best.winner}
    more = tuple((name, why) for name, why in second.answer.dropped if name not in known)
    return replace(first, answer=replace(best, dropped=best.dropped + more)) if more else first


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value >= 0):
        raise TypeError(f"{value!r} is not a time")
    return float(value)
