"""The on-disk cache: what it keeps, what it drops, and what it refuses."""

import logging
import multiprocessing
import os
import stat
import time
from pathlib import Path

import pytest

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
