"""Tests the tuning store: which answers it stores, for which keys, and which files it refuses."""

import json
import logging
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lamina.core.errors import CompileError
from lamina.tune.question import Answer, Identity, Question
from lamina.tune.store.records import dump
from lamina.tune.store.store import Store, default_path

HERE = Identity("a chip, 8 SMs", "lamina 1, torch 2, triton 3")
QUESTION = Question("mm f32 8x8", "aten.mm 8x8", ("own", "library", "other"))
ANSWER = Answer("library", (("own", 2e-3), ("library", 1e-3)), (("other", "does not compile: ValueError: no"),))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "folder" / "tuning.json")


def test_what_was_put_is_found(store: Store) -> None:
    assert store.get(QUESTION.key, HERE) is None and not store.path.exists()
    assert store.put(QUESTION, HERE, ANSWER)
    assert Store(store.path).get(QUESTION.key, HERE) == ANSWER
    better = Answer("own", (("own", 1e-3),))
    assert store.put(QUESTION, HERE, better) and store.get(QUESTION.key, HERE) == better
    (record,) = store.records()
    assert (record.question, record.identity, record.answer) == (QUESTION, HERE, better)


def test_another_device_or_version_has_answers_of_its_own(store: Store) -> None:
    store.put(QUESTION, HERE, ANSWER)
    for other in (replace(HERE, device="another chip"), replace(HERE, versions="lamina 2")):
        assert store.get(QUESTION.key, other) is None
        assert store.put(QUESTION, other, Answer("own"))
    assert store.get(QUESTION.key, HERE) == ANSWER and len(store.records()) == 3


def test_a_pin_outlives_measurements(store: Store) -> None:
    store.put(QUESTION, HERE, ANSWER)
    record = store.pin(QUESTION.key, "own")
    pinned = store.get(QUESTION.key, HERE)
    assert pinned and pinned.pinned and pinned.winner == "own"
    store.put(QUESTION, HERE, ANSWER)
    assert store.get(QUESTION.key, HERE) == replace(ANSWER, pin="own")
    store.unpin(record.id[:6])
    assert store.get(QUESTION.key, HERE) == ANSWER


def test_a_pin_that_cannot_be(store: Store) -> None:
    store.put(QUESTION, HERE, ANSWER)
    store.put(QUESTION, replace(HERE, device="another chip"), ANSWER)
    ids = [record.id for record in store.records()]
    with pytest.raises(CompileError, match="no candidate 'owm' .one of own, library, other"):
        store.pin(ids[0], "owm")
    with pytest.raises(CompileError, match="'other' was dropped: does not compile"):
        store.pin(ids[0], "other")
    with pytest.raises(CompileError, match=f"names 2 answers .one of .*{ids[1]}"):
        store.pin(QUESTION.key, "own")
    with pytest.raises(CompileError, match="no answer 'mm' .lamina tune show"):
        store.unpin("mm")
    assert not any(record.answer.pinned for record in store.records())


def test_answers_are_forgotten(store: Store) -> None:
    for key in ("a", "b", "c"):
        store.put(replace(QUESTION, key=key), HERE, ANSWER)
    assert store.clear("b") == 1 and [r.question.key for r in store.records()] == ["a", "c"]
    assert store.clear() == 2 and store.records() == []


def test_export_and_merge(store: Store, tmp_path: Path) -> None:
    for key in ("b", "a"):
        store.put(replace(QUESTION, key=key), HERE, ANSWER)
    text = store.export()
    assert [entry["key"] for entry in json.loads(text)["answers"]] == ["a", "b"]
    file = tmp_path / "shipped.json"
    file.write_text(text)
    other = Store(tmp_path / "other.json")
    assert other.merge(file) == (2, 0) and other.merge(file) == (0, 2)
    assert other.export() == text == store.export()
    third = Store(tmp_path / "third.json")
    assert third.merge(store.path) == (2, 0) and third.export() == text


def test_a_pin_wins_then_the_newer(tmp_path: Path) -> None:
    ours, theirs = Store(tmp_path / "ours"), Store(tmp_path / "theirs")
    theirs.put(QUESTION, HERE, Answer("own"))
    ours.put(QUESTION, HERE, ANSWER)
    assert ours.merge(theirs.path) == (0, 1)
    assert theirs.merge(ours.path) == (1, 0) and theirs.get(QUESTION.key, HERE) == ANSWER
    theirs.pin(QUESTION.key, "own")
    ours.put(QUESTION, HERE, ANSWER)
    assert ours.merge(theirs.path) == (1, 0) and theirs.merge(ours.path) == (0, 1)
    assert ours.get(QUESTION.key, HERE) == replace(ANSWER, pin="own")


def test_what_either_dropped_stays_dropped(tmp_path: Path) -> None:
    ours, theirs = Store(tmp_path / "ours"), Store(tmp_path / "theirs")
    theirs.put(QUESTION, HERE, Answer("", (), (("own", "wrong"), ("other", "cost the device"))))
    ours.put(QUESTION, HERE, Answer("own", (("own", 1e-3),)))
    ours.merge(theirs.path)
    assert ours.get(QUESTION.key, HERE) == Answer("own", (("own", 1e-3),), (("other", "cost the device"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "this is not an export of tuning: Expecting"),
        ("[]", "this is not an export of tuning (lamina tune export"),
        ('{"format": "lamina-tune", "version": 99, "answers": []}', "tuning in format 99, this Lamina reads format 1 (tune again"),
        ('{"format": "lamina-tune", "version": 1, "answers": [{"key": 1}]}', "an answer is damaged"),
        ('{"format": "lamina-tune", "version": 1}', "an answer is damaged"),
        ("\udcff", "cannot be read"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_no_export(store: Store, tmp_path: Path, text: str | None, message: str) -> None:
    store.put(QUESTION, HERE, ANSWER)
    file = tmp_path / "shipped.json"
    if text is not None:
        file.write_text(text, errors="surrogateescape")
    with pytest.raises(CompileError) as caught:
        store.merge(file)
    assert str(caught.value).startswith(f"{file}: {message}")
    assert store.get(QUESTION.key, HERE) == ANSWER


@pytest.mark.parametrize("field", ["device", "candidates", "seconds", "dropped", "time", "pin", "measured"])
def test_a_damaged_answer_is_named(store: Store, tmp_path: Path, field: str) -> None:
    store.put(QUESTION, HERE, ANSWER)
    document = json.loads(store.export())
    wrong = {"candidates": [1], "seconds": {"own": float("nan")}, "dropped": {"own": None}, "device": None}
    document["answers"][0][field] = wrong.get(field, "nonsense")
    (tmp_path / "shipped.json").write_text(json.dumps(document))
    with pytest.raises(CompileError, match="shipped.json: an answer is damaged"):
        store.merge(tmp_path / "shipped.json")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"format": "lamina-tune", "version": 99, "answers": []}', "tuning in format 99, this Lamina reads format 1"),
        (b'{"format": "another", "version": 1, "answers": []}', "this is not an export of tuning"),
        (b"hello\n", "this is not an export of tuning: Expecting"),
        (b"[" * 9999, "this is not an export of tuning"),
        (b"SQLite format 3\0" + b"\x00\xfe" * 1000, "this is not an export of tuning: Expecting"),
    ],
    ids=["another version", "another format", "text", "brackets", "noise"],
)
def test_a_file_of_another_kind_is_ignored_and_left_alone(
    store: Store, data: bytes, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(data)
    with caplog.at_level(logging.WARNING, "lamina"):
        assert store.get(QUESTION.key, HERE) is None and store.records() == []
        assert not store.put(QUESTION, HERE, ANSWER)
    assert len(caplog.records) == 1 and f"{store.path} is not used ({message}" in caplog.text
    for change in (lambda: store.pin(QUESTION.key, "own"), store.clear):
        with pytest.raises(CompileError, match="tuning.json"):
            change()
    with pytest.raises(CompileError, match="tuning.json"):
        Store(store.path.with_name("new")).merge(store.path)
    assert store.path.read_bytes() == data
    assert {file.name for file in store.path.parent.iterdir()} == {"tuning.json", "tuning.json.lock"}


@pytest.mark.parametrize("damage", ["zeroed", "cut", "no answers"])
def test_a_damaged_file_is_moved_aside(store: Store, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(20):
        store.put(replace(QUESTION, key=f"{number}"), HERE, ANSWER)
    data = store.path.read_bytes()
    zeroed = data[:4096] + bytes(2048) + data[6144:]
    none = data[: data.index(b'"answers"')] + b'"answers": 3}'
    damaged = {"zeroed": zeroed, "cut": data[: len(data) // 2], "no answers": none}[damage]
    store.path.write_bytes(damaged)
    with caplog.at_level(logging.WARNING, "lamina"):
        assert store.records() == []
        assert store.put(QUESTION, HERE, ANSWER)
    aside = store.path.with_name("tuning.json.damaged-1")
    assert len(caplog.records) == 2 and str(aside) in caplog.text and aside.read_bytes() == damaged
    assert store.get(QUESTION.key, HERE) == ANSWER


def test_an_answer_changed_by_hand_is_ignored(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.put(QUESTION, HERE, ANSWER)
    document = json.loads(store.path.read_text())
    document["answers"].append({"key": 3})
    document["answers"][0]["seconds"] = "none"
    document["running"] = [3, []]
    store.path.write_text(json.dumps(document))
    with caplog.at_level(logging.WARNING, "lamina"):
        assert store.get(QUESTION.key, HERE) is None
    assert caplog.text.count("reads wrong") == 2
    assert store.put(QUESTION, HERE, ANSWER) and store.get(QUESTION.key, HERE) == ANSWER


def test_a_link_to_a_store_stays_a_link(store: Store, tmp_path: Path) -> None:
    store.put(QUESTION, HERE, ANSWER)
    link = tmp_path / "link.json"
    link.symlink_to(store.path)
    assert Store(link).put(replace(QUESTION, key="other"), HERE, ANSWER) and link.is_symlink()
    assert len(store.records()) == 2


def test_an_empty_file_is_a_new_store(store: Store) -> None:
    store.path.parent.mkdir()
    store.path.touch()
    assert store.records() == []
    assert store.put(QUESTION, HERE, ANSWER) and store.get(QUESTION.key, HERE) == ANSWER


@pytest.mark.parametrize("what", ["a folder", "below a file"])
def test_a_place_that_takes_no_file_is_one_warning(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    place = tmp_path / "place"
    place.mkdir() if what == "a folder" else place.write_text("in the way")
    store = Store(place if what == "a folder" else place / "tuning.json")
    with caplog.at_level(logging.WARNING, "lamina"):
        assert not store.put(QUESTION, HERE, ANSWER) and not store.put(QUESTION, HERE, ANSWER)
    assert len(caplog.records) == 1 and "LAMINA_TUNE_STORE" in caplog.text
    with pytest.raises(CompileError, match="the store cannot be written .set LAMINA_TUNE_STORE"):
        store.merge(_shipped(tmp_path))
    assert store.get(QUESTION.key, HERE) is None


def _shipped(folder: Path) -> Path:
    source = Store(folder / "source.json")
    source.put(QUESTION, HERE, ANSWER)
    (folder / "shipped.json").write_text(source.export())
    return folder / "shipped.json"


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user may look into, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        os.chmod(folder, 0o755)


def _as_somebody_else(path: str, found: "multiprocessing.SimpleQueue[object]") -> None:
    if os.getuid() == 0:
        os.setuid(65534)  # root may write everything
    store = Store(path)
    written = store.put(QUESTION, HERE, Answer("own"))
    try:
        store.pin(QUESTION.key, "own")
        message = ""
    except CompileError as error:
        message = str(error)
    found.put((store.get(QUESTION.key, HERE), written, message))


def test_a_store_that_may_only_be_read_is_read(public: Path) -> None:
    path = public / "tuning.json"
    Store(path).put(QUESTION, HERE, ANSWER)
    path.chmod(0o444)
    public.chmod(0o555)
    context = multiprocessing.get_context("fork")
    found: multiprocessing.SimpleQueue[object] = context.SimpleQueue()
    process = context.Process(target=_as_somebody_else, args=(str(path), found))
    process.start()
    process.join(60)
    message = f"{path}: the store cannot be written (set LAMINA_TUNE_STORE to another file)"
    assert found.get() == (ANSWER, False, message)


def _hammer(path: str, seed: int) -> int:
    """Puts answers that other processes put too; how many were refused or read back wrong."""
    store, wrong = Store(path), 0
    for i in range(25):
        for key in (f"{seed} {i}", f"shared {i}"):
            wrong += not store.put(replace(QUESTION, key=key), HERE, ANSWER)
            wrong += store.get(key, HERE) != ANSWER
    return wrong


def test_processes_share_it(store: Store) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert pool.starmap(_hammer, [(str(store.path), seed) for seed in range(4)]) == [0] * 4
    assert len(store.records()) == 5 * 25


def _begin_anew(path: str, seed: int) -> bool:
    return Store(path).put(replace(QUESTION, key=f"{seed}"), HERE, ANSWER)


def test_processes_that_meet_a_damaged_file_move_one(store: Store) -> None:
    store.path.parent.mkdir()
    store.path.write_text(dump([])[:40])
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert all(pool.starmap(_begin_anew, [(str(store.path), seed) for seed in range(4)]))
    assert len(store.records()) == 4
    assert len(list(store.path.parent.glob("*.damaged-*"))) == 1


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAMINA_TUNE_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "lamina" / "tuning.json"
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(tmp_path / "mine"))
    assert Store().path == tmp_path / "mine"


def test_tests_leave_the_users_store_alone() -> None:
    assert default_path().is_relative_to(Path(tempfile.gettempdir()))


@pytest.mark.parametrize(("candidates", "reference"), [((), ""), (("a", "a"), ""), (("a",), "b")])
def test_questions_that_are_none(candidates: tuple[str, ...], reference: str) -> None:
    with pytest.raises(ValueError, match="aten.mm"):
        Question("k", "aten.mm", candidates, reference)


def _die(path: str) -> None:
    with Store(path).trying(QUESTION.key, HERE, "own"):
        os._exit(3)


def test_a_candidate_that_ended_its_process_is_dropped(store: Store) -> None:
    with store.trying(QUESTION.key, HERE, "library"):
        assert store.get(QUESTION.key, HERE) is None  # this process lives
    process = multiprocessing.get_context("spawn").Process(target=_die, args=(str(store.path),))
    process.start()
    process.join(60)
    died = Answer("", (), (("own", "it ended the process"),))
    assert store.get(QUESTION.key, HERE) == died
    assert store.get(QUESTION.key, replace(HERE, device="another chip")) is None
    store.put(QUESTION, HERE, replace(died, measured="library"))
    assert store.get(QUESTION.key, HERE) == replace(died, measured="library")
    store.clear(QUESTION.key)
    assert store.get(QUESTION.key, HERE) is None


def test_errors_and_interrupts_leave_no_mark(store: Store) -> None:
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), store.trying(QUESTION.key, HERE, "own"):
            raise error
    assert "running" not in store.path.read_text()
