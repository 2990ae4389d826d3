"""Tests the on-disk cache: which entries it stores, evicts and refuses."""

import json
import logging
import multiprocessing
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import lamina
from lamina.report import roofline
from lamina.report.explanation import Peaks
from lamina.runtime import cache as module
from lamina.runtime.cache import Cache, Entry, cache_key, default_root

ENTRY = Entry('{"version": 1, "é": "\\n"}', bytes(range(256)) * 5 + b"\n", {"kernels": ["a", "b"], "messages": []})


def entry_file(root: Path) -> Path:
    (path,) = root.glob("*.lamina")
    return path


def test_what_was_put_is_found(tmp_path: Path) -> None:
    key = cache_key(graph="a")
    assert Cache(tmp_path / "c").get(key) is None
    assert Cache(tmp_path / "c").put(key, ENTRY)
    assert Cache(tmp_path / "c").get(key) == ENTRY


def test_keys_tell_parts_and_toolchains_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {
        cache_key(graph="ab", options="c"),
        cache_key(graph="a", options="bc"),
        cache_key(graph=b"ab"),
        cache_key(graph="ab", target="x"),
    }
    assert len(keys) == 4
    before = cache_key(graph="ab")
    assert before == cache_key(graph="ab")
    versions = dict(module.toolchain())
    monkeypatch.setattr(module, "toolchain", lambda: {**versions, "llvmlite": "0.0"})
    assert cache_key(graph="ab") != before


def test_the_folder_is_closed_to_others(tmp_path: Path) -> None:
    root = tmp_path / "c"
    Cache(root).put("k", ENTRY)
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    root.chmod(0o777)
    assert Cache(root).get("k") == ENTRY
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry_file(root).stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "foreign"])
def test_a_damaged_entry_is_dropped(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache(tmp_path)
    cache.put("k", ENTRY)
    path = entry_file(tmp_path)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    path.write_bytes({"truncate": data[:-1], "flip": data, "empty": b"", "foreign": b"hello\nworld"}[damage])
    with caplog.at_level(logging.WARNING, "lamina"):
        assert cache.get("k") is None
    assert len(caplog.records) == 1 and "damaged" in caplog.text
    assert not path.exists()
    assert cache.put("k", ENTRY) and cache.get("k") == ENTRY


def test_an_entry_under_another_name_is_dropped(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("k", ENTRY)
    entry_file(tmp_path).rename(tmp_path / "other.lamina")
    assert cache.get("other") is None and not list(tmp_path.glob("*.lamina"))


@pytest.mark.parametrize("what", ["of another user", "open to others", "a link", "a pipe", "a folder"])
def test_a_file_of_somebody_else_is_not_read(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may have put it there while the folder was writable to all."""
    root = tmp_path / "c"
    cache = Cache(root)
    cache.put("k", ENTRY)
    path = entry_file(root)
    if what == "of another user":
        real = os.fstat

        def fstat(file: int) -> os.stat_result:
            found = list(real(file))
            if stat.S_ISREG(found[stat.ST_MODE]):
                found[stat.ST_UID] += 1
            return os.stat_result(found)

        monkeypatch.setattr(os, "fstat", fstat)
    elif what == "open to others":
        path.chmod(0o666)
    else:
        path.rename(tmp_path / "elsewhere")
        if what == "a link":
            path.symlink_to(tmp_path / "elsewhere")
        elif what == "a pipe":
            os.mkfifo(path)
        else:
            path.mkdir()
    with caplog.at_level(logging.WARNING, "lamina"):
        assert cache.get("k") is None
    assert "somebody else" in caplog.text
    monkeypatch.undo()
    assert what == "a folder" or (cache.put("k", ENTRY) and cache.get("k") == ENTRY)


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_text("{}"), lambda path: path.chmod(0o666)], ids=["text", "open to others"]
)
def test_peaks_that_cannot_be_trusted_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object]
) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    measured = iter((Peaks("x", 1, 1.0, 2.0), Peaks("x", 1, 3.0, 4.0)))
    assert [roofline.cached_peaks("x", lambda: next(measured), again=False).flops for _ in range(2)] == [2.0, 2.0]
    (entry,) = tmp_path.iterdir()
    damage(entry)
    assert roofline.cached_peaks("x", lambda: next(measured), again=False) == Peaks("x", 1, 3.0, 4.0)


# What is wrong with the metadata of an entry whose hash is right, by the name of what is changed.
CHANGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "no interface": lambda meta, program: meta.pop("interface"),
    "no kernels": lambda meta, program: meta.pop("kernels"),
    "a kernel that is a number": lambda meta, program: meta.update(kernels=[3]),
    "kernels as one text": lambda meta, program: meta.update(kernels="add"),
    "another kernel": lambda meta, program: meta.update(kernels=["other"]),
    "no kernel": lambda meta, program: meta.update(kernels=[]),
    "interface of numbers": lambda meta, program: meta.update(interface=7),
    "no choices": lambda meta, program: meta.update(choices=None),
    "a target that is none": lambda meta, program: meta.update(target=[]),
    "another number of arguments": lambda meta, program: meta["interface"].__setitem__(0, 5),
    "an argument that is not there": lambda meta, program: meta["interface"].__setitem__(1, [9]),
    "a captured tensor that is not there": lambda meta, program: meta["interface"].__setitem__(2, ["nothing"]),
    "no results": lambda meta, program: meta["interface"].__setitem__(3, []),
    "a program of another version": lambda meta, program: program.update(version=0),
    "a program without steps": lambda meta, program: program["program"].pop(6),
    "a step of another kernel": lambda meta, program: program["program"][6][0]["Launch"].__setitem__(0, "other"),
    "an argument in no buffer": lambda meta, program: program["program"][6][0]["Launch"][1][0].__setitem__(0, 99),
    "a result beyond its buffer": lambda meta, program: program["program"][7][0].__setitem__(1, 1 << 20),
    "inputs of another shape": lambda meta, program: program["program"][3][0].__setitem__(1, [2, 2]),
}


def shifted_sine(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + 1


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The entry of shifted_sine."""
    root = tmp_path_factory.mktemp("stored")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINA_CACHE_DIR", str(root))
        lamina.compile(shifted_sine, (torch.randn(7, 5),))
    return entry_file(root)


@pytest.mark.parametrize("what", [*CHANGES, "code that is none", "a program that is no JSON"])
def test_an_entry_that_fits_nothing_is_compiled_again(
    tmp_path: Path, what: str, stored: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    x, whole, key = torch.randn(7, 5), stored.read_bytes(), stored.stem
    entry = Cache(stored.parent).get(key)
    assert entry is not None
    meta, program, code = json.loads(json.dumps(dict(entry.meta))), json.loads(entry.program_json), entry.object
    if what in CHANGES:
        CHANGES[what](meta, program)
    text = "[" if what == "a program that is no JSON" else json.dumps(program)
    assert Cache().put(key, Entry(text, code[:50] if what == "code that is none" else code, meta))
    with caplog.at_level(logging.WARNING, "lamina"):
        got = lamina.compile(shifted_sine, (x,))(x)
    assert (got - torch.sin(x.double()) - 1).abs().max() < 1e-6
    assert "dropped a damaged entry" in caplog.text
    assert entry_file(tmp_path).read_bytes() == whole  # compiled again


def test_results_that_are_views_in_another_dtype_are_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    x = torch.randn(7, 5)

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.sin(x) + 1
        return y, y.view(torch.int32)

    with caplog.at_level(logging.WARNING, "lamina"):
        for _ in range(2):
            y, bits = lamina.compile(model, (x,))(x)
            assert torch.equal(y.view(torch.int32), bits)
    assert "dropped a damaged entry" not in caplog.text


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    one = Entry("{}", b"x" * 1000)
    cache = Cache(tmp_path, limit_bytes=3600)
    for age, key in ((30, "a"), (20, "b"), (10, "c")):
        cache.put(key, one)
        os.utime(tmp_path / f"{key}.lamina", (time.time() - age,) * 2)
    assert cache.get("a") == one  # used now
    cache.put("d", one)
    assert [key for key in "abcd" if cache.get(key)] == ["a", "c", "d"]
    assert cache.size() <= 3600
    assert not cache.put("e", Entry("{}", b"x" * 4000))
    cache.clear()
    assert cache.size() == 0


def test_a_folder_is_looked_through_for_every_sixteenth_of_its_limit(tmp_path: Path) -> None:
    """Not at every new entry: there may be tens of thousands."""
    cache, looks = Cache(tmp_path, limit_bytes=160_000), []
    for key in "abcdef":
        (tmp_path / ".new-left").touch()
        os.utime(tmp_path / ".new-left", (0, 0))
        cache.put(key, Entry("{}", b"x" * 3000))
        looks.append(not (tmp_path / ".new-left").exists())
    assert looks == [True, False, False, False, True, False]


def test_leftovers_of_dead_processes_are_removed(tmp_path: Path) -> None:
    old, fresh = tmp_path / ".new-old", tmp_path / ".new-fresh"
    for path in (old, fresh):
        path.write_bytes(b"half an entry")
    os.utime(old, (time.time() - 7200,) * 2)
    Cache(tmp_path).put("k", ENTRY)
    assert not old.exists() and fresh.exists()


@pytest.mark.parametrize("what", ["a file", "below a file", "somebody else's"])
def test_a_folder_that_takes_nothing_is_one_line(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "c"
    if what == "somebody else's":
        root.mkdir()
        monkeypatch.setattr(os, "getuid", lambda: 123456)
    else:
        root.write_text("in the way")
        root = root if what == "a file" else root / "below"
    cache = Cache(root)
    with caplog.at_level(logging.WARNING, "lamina"):
        assert cache.get("k") is None
        assert not cache.put("k", ENTRY)
        assert not cache.put("l", ENTRY)
    assert len(caplog.records) == 1
    assert str(root) in caplog.text and "LAMINA_CACHE_DIR" in caplog.text


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAMINA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "lamina"
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path / "mine"))
    assert Cache().root == tmp_path / "mine"


def test_a_key_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a key"):
        Cache(tmp_path).get("../../etc/passwd")


def _hammer(root: str, seed: int) -> int:
    """Puts and gets entries that other processes put and evict; returns how many reads found something wrong."""
    cache, wrong = Cache(root, limit_bytes=20_000), 0
    for i in range(60):
        key = f"k{(i * 7 + seed) % 11}"
        found = cache.get(key)
        wrong += found is not None and found.program_json != key
        cache.put(key, Entry(key, key.encode() * 1000))
    return wrong


def test_processes_share_it(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.starmap(_hammer, [(str(tmp_path), seed) for seed in range(3)]) == [0, 0, 0]
