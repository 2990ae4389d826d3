"""Files that this user alone can have written: folders and files are checked by their open descriptors before they are read."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotOwned(OSError):
    """A folder or file that somebody else owns or may write to, or that is no plain file."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.strerror = why


@contextmanager
def folder(root: Path) -> Iterator[int]:
    """The descriptor of a folder of this user. One that others may enter is closed to them; NotOwned for somebody else's."""
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(opened)
        if status.st_uid != os.getuid():
            raise NotOwned(f"it belongs to user {status.st_uid}")
        if stat.S_IMODE(status.st_mode) & 0o077:
            os.fchmod(opened, 0o700)
        yield opened
    finally:
        os.close(opened)


def read(opened: int, name: str) -> bytes:
    """The bytes of a file in an open folder. NotOwned for a link, for what is no plain file, and for a file that somebody else owns
    or may write to: one that was put there while the folder was open to all."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=opened)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise NotOwned("it is no plain file") from error
        raise
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise NotOwned("it is no plain file")
        if status.st_uid != os.getuid():
            raise NotOwned(f"it belongs to user {status.st_uid}")
        if stat.S_IMODE(status.st_mode) & 0o022:
            raise NotOwned("others may write to it")
        with os.fdopen(file, "rb", closefd=False) as data:
            return data.read()
    finally:
        os.close(file)
