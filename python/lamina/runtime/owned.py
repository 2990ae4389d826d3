"""Reads files that only this user can have written. Folders and files are checked through their open descriptors before reading."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotOwned(OSError):
    """A folder or file that another user owns or may write to, or that is not a regular file."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.strerror = why


@contextmanager
def folder(root: Path) -> Iterator[int]:
    """Opens a folder of this user and yields its descriptor. Closes it to other users; raises NotOwned if another user owns
    it."""
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
    """Returns the bytes of a file in an open folder. Raises NotOwned for a link, for anything but a regular file, and for a file
    that another user owns or may write to, which may have been put there while the folder was open to all."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=opened)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise NotOwned("it is not a plain file") from error
        raise
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise NotOwned("it is not a plain file")
        if status.st_uid != os.getuid():
            raise NotOwned(f"it belongs to user {status.st_uid}")
        if stat.S_IMODE(status.st_mode) & 0o022:
            raise NotOwned("others may write to it")
        with os.fdopen(file, "rb", closefd=False) as data:
            return data.read()
    finally:
        os.close(file)
