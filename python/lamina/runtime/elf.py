"""As much of the ELF format as it takes to tell whether an object file is whole and which symbols it leaves to others."""

import struct

_SYMBOL_TABLE, _NO_BITS, _UNDEFINED = 2, 8, 0
_RELOCATABLE = 1


class Malformed(ValueError):
    """Bytes that are no whole relocatable 64-bit ELF object."""


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Names that a 64-bit ELF object refers to and does not define. Raises Malformed; LLVM's loader would read past the end."""
    try:
        return _undefined_symbols(code)
    except (struct.error, ValueError, IndexError) as error:
        raise Malformed(str(error)) from error


def _undefined_symbols(code: bytes) -> tuple[str, ...]:
    if code[:5] != b"\x7fELF\x02":
        raise Malformed("no 64-bit ELF header")
    (kind,) = struct.unpack_from("<H", code, 0x10)
    (sections_at,) = struct.unpack_from("<Q", code, 0x28)
    entry_size, count = struct.unpack_from("<HH", code, 0x3A)
    if kind != _RELOCATABLE or entry_size != 64:
        raise Malformed("not a relocatable object")
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, sections_at + i * entry_size) for i in range(count)]
    names: list[str] = []
    for _, kind, _, _, offset, size, link, _, _, each in sections:
        if kind != _NO_BITS and offset + size > len(code):
            raise Malformed("a section ends beyond the file")
        if kind != _SYMBOL_TABLE:
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, each):
            name, _, _, section = struct.unpack_from("<IBBH", code, at)
            if section == _UNDEFINED and name:
                start = strings + name
                names.append(code[start : code.index(b"\0", start)].decode())
    return tuple(names)
