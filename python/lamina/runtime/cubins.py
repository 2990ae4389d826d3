"""Packs several cubins into one byte string, the code of a GPU artifact."""

import struct
from collections.abc import Sequence

_MAGIC = b"cubins\0\0"
_COUNT = struct.Struct("<Q")


def join(cubins: Sequence[bytes]) -> bytes:
    """Concatenates cubins behind a header with their number and their sizes in bytes. A single cubin is returned as it is."""
    if len(cubins) == 1:
        return cubins[0]
    return b"".join([_MAGIC, _COUNT.pack(len(cubins)), *(_COUNT.pack(len(c)) for c in cubins), *cubins])


def divide(code: bytes) -> list[bytes]:
    """Returns the cubins that `join` was given. Bytes without its header are one cubin."""
    if not code.startswith(_MAGIC):
        return [code]
    offset = len(_MAGIC) + _COUNT.size
    (count,) = _COUNT.unpack_from(code, len(_MAGIC))
    sizes = [_COUNT.unpack_from(code, offset + i * _COUNT.size)[0] for i in range(count)]
    offset += count * _COUNT.size
    cubins = []
    for size in sizes:
        cubins.append(code[offset : offset + size])
        offset += size
    return cubins
