"""Implements `lamina tune show | export | merge | pin | unpin | clear`: inspects and edits the tuning store."""

import argparse
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from lamina.report.amounts import counted, duration
from lamina.report.plain import plain_table, wide_console
from lamina.tune.store.records import Record
from lamina.tune.store.store import Store

from .driver.files import write_output

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

_WHICH = "an answer: its id in the table, the id's beginning, or the key of its question"


def add_commands(commands: "Commands") -> None:
    """Adds the commands as subparsers; each sets `work`."""

    def add(name: str, work: Any, about: str) -> argparse.ArgumentParser:
        """Adds a subcommand."""
        parser: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        parser.set_defaults(work=work)
        parser.add_argument(
            "--store", metavar="FILE", help="the store (default: LAMINA_TUNE_STORE, else in the user's data folder)"
        )
        return parser

    show = add("show", _show, "Shows the answers, or all that is known of one.")
    show.add_argument("which", nargs="?", default="", metavar="KEY", help=_WHICH)
    add("export", _export, "Writes all answers as text.").add_argument("file", metavar="FILE", help="- for standard output")
    add("merge", _merge, "Takes the answers of an export or of another store.").add_argument("file", type=Path, metavar="FILE")
    pin = add("pin", _pin, "Fixes the choice of an answer.")
    pin.add_argument("which", metavar="KEY", help=_WHICH)
    pin.add_argument("candidate", metavar="CANDIDATE")
    add("unpin", _unpin, "Takes a pin away.").add_argument("which", metavar="KEY", help=_WHICH)
    clear = add("clear", _clear, "Forgets an answer, or all.")
    clear.add_argument("which", nargs="?", default="", metavar="KEY", help=_WHICH)


def _show(args: argparse.Namespace) -> None:
    store = Store(args.store)
    records = [store.find(args.which)] if args.which else store.records()
    if records:
        wide_console().print(_details(records[0]) if args.which else _all(records))
    else:
        print(f"{store.path} holds no answers")


def _export(args: argparse.Namespace) -> None:
    write_output(args.file, Store(args.store).export())


def _merge(args: argparse.Namespace) -> None:
    taken, left = Store(args.store).merge(args.file)
    print(f"{counted(taken, 'answer')} taken, {left} left as they were")


def _pin(args: argparse.Namespace) -> None:
    record = Store(args.store).pin(args.which, args.candidate)
    print(f"{record.id}: {record.question.what} uses {record.answer.winner}")


def _unpin(args: argparse.Namespace) -> None:
    record = Store(args.store).unpin(args.which)
    print(f"{record.id}: {record.question.what} uses {record.answer.winner or 'what the cost model says'}")


def _clear(args: argparse.Namespace) -> None:
    print(f"{counted(Store(args.store).clear(args.which), 'answer')} forgotten")


def _all(records: Iterable[Record]) -> RenderableType:
    """Returns a table for each pair of device and versions."""
    columns = ("id", "op", "choice", "time", "first choice", "its time", "measured", "dropped")
    parts: list[RenderableType] = []
    for identity, group in groupby(records, key=lambda record: record.identity):
        title = Text(f"{identity.device}; {identity.versions}", style="bold")
        parts += [*([""] if parts else []), title, plain_table(columns, map(_row, group))]
    return Group(*parts)


def _row(record: Record) -> list[str]:
    answer, first = record.answer, record.question.candidates[0]
    times = dict(answer.times)
    choice = f"{answer.winner or 'none'}{' (pinned)' if answer.pinned else ''}"
    measured = f"{len(times)} of {len(record.question.candidates)}"
    dropped = str(len(answer.dropped) or "")
    return [record.id, record.question.what, choice, _time(times, answer.winner), first, _time(times, first), measured, dropped]


def _details(record: Record) -> RenderableType:
    answer, times, dropped = record.answer, dict(record.answer.times), dict(record.answer.dropped)
    notes = {name: f"dropped: {why}" for name, why in dropped.items()}
    notes[answer.winner] = f"chosen{', pinned' if answer.pinned else ''}"
    rows = [(name, _time(times, name), notes.get(name, "")) for name in record.question.candidates]
    head = f"{record.id}: {record.question.what}\n{record.question.key}\n{record.identity.device}; {record.identity.versions}"
    return Group(Text(f"{head}\n{record.time.astimezone():%Y-%m-%d %H:%M}"), plain_table(("candidate", "time", ""), rows))


def _time(times: dict[str, float], name: str) -> str:
    return duration(times[name]) if name in times else ""
