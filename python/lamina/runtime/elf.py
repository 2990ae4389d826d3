"""Reads the sections, symbols and relocations of object files made by LLVM (System V ABI, AMD64 supplement; 64-bit, little-endian
ELF)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

_SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 2, 4, 8
_ALLOCATED, EXECUTABLE = 2, 4
_RELOCATABLE, _AMD64 = 1, 62
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2


class Malformed(ValueError):
    """Bytes that are not a whole relocatable 64-bit ELF object for this machine."""


@dataclass(frozen=True)
class Section:
    """A section that takes memory.

    data        its bytes, zeros where the file has none
    executable  it holds code
    """

    number: int
    data: bytes
    align: int
    executable: bool


@dataclass(frozen=True)
class Symbol:
    """A symbol.

    section  the number of its section, None if the symbol is defined elsewhere
    value    bytes from the section's start
    """

    name: str
    section: int | None
    value: int


@dataclass(frozen=True)
class Relocation:
    """A relocation at `offset` of section `section`: of `kind` (R_X86_64_...), to `symbol` + `addend`."""

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int


@dataclass(frozen=True)
class Object:
    """A parsed object file."""

    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]

    @property
    def undefined(self) -> tuple[str, ...]:
        """The names of symbols that the object refers to and does not define."""
        return tuple(s.name for s in self.symbols if s.section is None and s.name)


def read(code: bytes) -> Object:
    """Parses an object file. Raises Malformed for other bytes."""
    try:
        return _read(code)
    except (struct.error, ValueError, IndexError) as error:
        raise Malformed(str(error)) from error


def _read(code: bytes) -> Object:
    if code[:5] != b"\x7fELF\x02":
        raise Malformed("no 64-bit ELF header")
    kind, machine = struct.unpack_from("<HH", code, 0x10)
    (sections_at,) = struct.unpack_from("<Q", code, 0x28)
    entry_size, count = struct.unpack_from("<HH", code, 0x3A)
    if kind != _RELOCATABLE or machine != _AMD64 or entry_size != 64:
        raise Malformed("not a relocatable object for x86-64")
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, sections_at + i * entry_size) for i in range(count)]
    sections: list[Section] = []
    symbols: list[Symbol] = []
    for number, (_, kind, flags, _, offset, size, link, _, align, each) in enumerate(headers):
        if kind != _NO_BITS and offset + size > len(code):
            raise Malformed("a section ends beyond the file")
        if flags & _ALLOCATED:
            data = bytes(size) if kind == _NO_BITS else code[offset : offset + size]
            sections.append(Section(number, data, max(align, 1), bool(flags & EXECUTABLE)))
        if kind == _SYMBOL_TABLE:
            symbols = [_symbol(code, offset_of_entry, headers[link][4]) for offset_of_entry in range(offset, offset + size, each)]
    placed = {s.number: s for s in sections}
    relocations: list[Relocation] = []
    for _, kind, _, _, offset, size, _, target, _, each in headers:
        if kind == _RELOCATIONS and target in placed:
            relocations += [_relocation(code, entry, placed[target], symbols) for entry in range(offset, offset + size, each)]
    return Object(tuple(sections), tuple(symbols), tuple(relocations))


def _relocation(code: bytes, offset: int, section: Section, symbols: Sequence[Symbol]) -> Relocation:
    where, info, addend = struct.unpack_from("<QQq", code, offset)
    if where + 4 > len(section.data):
        raise Malformed("a relocation lies beyond its section")
    return Relocation(section.number, where, info & 0xFFFFFFFF, symbols[info >> 32], addend)


def _symbol(code: bytes, offset: int, strings: int) -> Symbol:
    name_at, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", code, offset)
    start = strings + name_at
    name = code[start : code.index(b"\0", start)].decode()
    if section in (_ABSOLUTE, _COMMON):
        if name and section == _COMMON:
            raise Malformed(f"{name} has no place")
        return Symbol("", None, value)
    return Symbol(name, None if section == _UNDEFINED else section, value)
