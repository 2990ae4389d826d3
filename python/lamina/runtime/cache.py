"""On-disk cache of compiled programs, keyed by a hash of all their inputs.

Each entry is one file, `<root>/<key>.lamina`: a line with the format and the SHA-256 of the key and the rest, a line of JSON with
sizes and `meta`, the program's JSON, the object file. Nothing in it is executed before the hash is checked, and nothing is pickled.
Files are written under a temporary name and renamed, so readers and writers in other processes see whole entries only. A damaged
entry is dropped and compiled again.

The folder holds machine code that will run as this user: its mode is 0700, and one that belongs to another user is not used. A file
that another user owns or may write to, put there while the folder was open to all, is dropped, and so is a renamed file.
"""

import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import platformdirs

from . import owned

LIMIT_BYTES = 1 << 30
_FORMAT = b"lamina-cache-2"
_SUFFIX = ".lamina"
_STALE_SECONDS = 3600  # a temporary file this old belongs to a process that died
_TOOLCHAIN = ("lamina", "torch", "torch-mlir", "llvmlite", "triton")
_SLACK = 16  # the part of the limit that a process may write before it looks through the folder again
_log = logging.getLogger("lamina")
_unseen: dict[tuple[Path, int], int] = {}  # the bytes that may still be written to a folder of a limit until then


@dataclass(frozen=True)
class Entry:
    """A compiled program.

    program_json  the program, by core/program_json.py
    object        the object file
    meta          what else is needed to use it, as JSON: kernels, messages, figures for reports
    """

    program_json: str
    object: bytes
    meta: Mapping[str, Any] = field(default_factory=dict)


def default_root() -> Path:
    """Returns LAMINA_CACHE_DIR, else `lamina` in the user's cache folder (XDG_CACHE_HOME or ~/.cache)."""
    given = os.environ.get("LAMINA_CACHE_DIR")
    return Path(given) if given else Path(platformdirs.user_cache_dir("lamina"))


def cache_key(**parts: str | bytes) -> str:
    """Hashes `parts` (the graph, the options, the target with its features) together with the versions of this toolchain."""
    digest = hashlib.sha256()
    for name, value in sorted({**parts, **{f"version of {n}": v for n, v in toolchain().items()}}.items()):
        data = value.encode() if isinstance(value, str) else value
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


@cache
def toolchain() -> dict[str, str]:
    """Returns the versions of everything that shapes the code. Lamina's own sources count by size and time, so that an edit is
    noticed."""
    versions = {}
    for name in _TOOLCHAIN:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for folder, _, files in sorted(os.walk(package, followlinks=True)):
        for file in sorted(f for f in files if f.endswith((".py", ".so"))):
            status = os.stat(os.path.join(folder, file))
            digest.update(f"{os.path.relpath(folder, package)}/{file} {status.st_size} {status.st_mtime_ns}\n".encode())
    return {**versions, "sources": digest.hexdigest()}


class Cache:
    """A folder of entries with least-recently-used eviction beyond `limit_bytes`, which each process may exceed by a sixteenth."""

    def __init__(self, root: Path | str | None = None, limit_bytes: int = LIMIT_BYTES) -> None:
        self.root = Path(root) if root is not None else default_root()
        self.limit_bytes = limit_bytes
        self._warned = False

    def get(self, key: str) -> Entry | None:
        """Returns the entry, or None when there is no valid one."""
        path = self._path(key)
        try:
            with owned.folder(self.root) as opened:
                data = self._read(opened, path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._warn("is not used" if isinstance(error, owned.NotOwned) else "cannot be read", error)
            return None
        entry = _decode(key, data) if data else None
        if entry is None:
            self.drop(key)
            return None
        with suppress(OSError):  # a read-only folder keeps its order
            os.utime(path)  # marks it as just used
        return entry

    @staticmethod
    def _read(opened: int, path: Path) -> bytes | None:
        """Returns the file's bytes; None if another user may have written it."""
        try:
            return owned.read(opened, path.name)
        except owned.NotOwned as error:
            _log.warning("lamina: an entry of the cache may be somebody else's, %s: %s", path, error.strerror)
            return None

    def drop(self, key: str) -> None:
        """Removes a damaged entry and warns."""
        path = self._path(key)
        _log.warning("lamina: dropped a damaged entry of the cache, %s", path)
        _remove(path)

    def put(self, key: str, entry: Entry) -> bool:
        """Stores the entry. Returns False when it exceeds the limit, or, after one warning, when the folder cannot be written."""
        data = _encode(key, entry)
        if len(data) > self.limit_bytes:
            return False
        temporary = None
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with owned.folder(self.root):
                handle, temporary = tempfile.mkstemp(prefix=".new-", dir=self.root)
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                os.replace(temporary, self._path(key))
        except OSError as error:
            if temporary:
                _remove(Path(temporary))
            self._warn("is not used" if isinstance(error, owned.NotOwned) else "cannot be written", error)
            return False
        folder = self.root, self.limit_bytes
        _unseen[folder] = _unseen.get(folder, 0) - len(data)
        if _unseen[folder] < 0:
            self._shrink()
            _unseen[folder] = self.limit_bytes // _SLACK
        return True

    def clear(self) -> None:
        """Removes every entry."""
        for path in self._files():
            _remove(path)

    def size(self) -> int:
        """Returns the bytes of all entries."""
        return sum(_status(path)[1] for path in self._files())

    def _path(self, key: str) -> Path:
        if not key.isalnum():
            raise ValueError(f"{key!r} is not a key that cache_key made")
        return self.root / f"{key}{_SUFFIX}"

    def _files(self) -> list[Path]:
        try:
            return [Path(e.path) for e in os.scandir(self.root) if e.name.endswith(_SUFFIX)]
        except OSError:
            return []

    def _shrink(self) -> None:
        """Removes the least recently used entries beyond the limit, and temporary files of dead processes."""
        entries = sorted((*_status(path), path) for path in self._files())
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= self.limit_bytes:
                break
            _remove(path)
            total -= size
        for path in self.root.glob(".new-*"):
            if _status(path)[0] < time.time() - _STALE_SECONDS:
                _remove(path)

    def _warn(self, what: str, error: object) -> None:
        if not self._warned:
            self._warned = True
            reason = getattr(error, "strerror", None) or error
            _log.warning("lamina: the cache folder %s %s (%s): set LAMINA_CACHE_DIR to another one", self.root, what, reason)


def _encode(key: str, entry: Entry) -> bytes:
    program = entry.program_json.encode()
    head = json.dumps({"program": len(program), "object": len(entry.object), "meta": dict(entry.meta)}).encode()
    body = b"\n".join((head, program + entry.object))
    return b"%s %s\n%s" % (_FORMAT, _hash(key, body), body)


def _hash(key: str, body: bytes) -> bytes:
    """Hashes an entry together with its key, so that a renamed file is not valid."""
    return hashlib.sha256(b"%s\n%s" % (key.encode(), body)).hexdigest().encode()


def _decode(key: str, data: bytes) -> Entry | None:
    first, _, body = data.partition(b"\n")
    if first != b"%s %s" % (_FORMAT, _hash(key, body)):
        return None
    try:
        head, _, rest = body.partition(b"\n")
        sizes = json.loads(head)
        split = int(sizes["program"])
        if split < 0 or len(rest) != split + int(sizes["object"]) or not isinstance(sizes["meta"], dict):
            return None
        return Entry(rest[:split].decode(), rest[split:], sizes["meta"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _status(path: Path) -> tuple[float, int]:
    """Returns time of last use and size; zeros for a file that another process has just removed."""
    try:
        found = path.stat()
    except OSError:
        return 0.0, 0
    return found.st_mtime, found.st_size


def _remove(path: Path) -> None:
    with suppress(OSError):  # another process was first, or the folder is read-only
        path.unlink()
