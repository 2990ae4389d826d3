"""Links an object file in memory (x86-64 ELF). Its sections are in one block of memory, so that code reaches all of them by 32-bit
offsets.

LLVM's own loader places sections wherever there is room, and aborts the process if they end up more than 2 GiB apart.
"""

import ctypes
import mmap
import struct
from collections.abc import Mapping

from lamina.core.errors import CompileError

from .elf import Object, Relocation, Symbol

PAGE = mmap.PAGESIZE
_READ_EXECUTE = 5  # PROT_READ | PROT_EXEC
_STUB = b"\xff\x25\0\0\0\0"  # jmp [rip]: jumps to the address in the next eight bytes
_SLOT = 16  # bytes of a stub with its address

# Kinds of relocations, R_X86_64_...
_64, _PC32, _PLT32, _GOTPCREL, _PC64, _GOTPCRELX, _REX_GOTPCRELX = 1, 2, 4, 9, 24, 41, 42
_THROUGH_TABLE = (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX)  # those that load an address from the global offset table


class Image:
    """An object file, loaded and linked. Its memory lives as long as the instance.

    addresses  the addresses of the symbols that the object leaves undefined

    The block of memory holds the executable sections, a stub for each undefined symbol, which jumps to its address, and from the
    next page on the other sections. Code calls a stub, or reads the address in it as from a global offset table.
    """

    def __init__(self, code: Object, addresses: Mapping[str, int]) -> None:
        self.addresses = addresses
        self._offsets: dict[int, int] = {}
        end = self._place(code, executable=True, start=0)
        self._stubs = -(-end // _SLOT) * _SLOT
        self._names = list(dict.fromkeys(code.undefined))
        code_end = -(-(self._stubs + _SLOT * len(self._names)) // PAGE) * PAGE
        size = max(self._place(code, executable=False, start=code_end), PAGE)
        self._memory = mmap.mmap(-1, size)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for section in code.sections:
            offset = self._offsets[section.number]
            self._memory[offset : offset + len(section.data)] = section.data
        for i, name in enumerate(self._names):
            offset = self._stubs + i * _SLOT
            self._memory[offset : offset + 14] = _STUB + struct.pack("<Q", addresses[name])
        for relocation in code.relocations:
            self._apply(relocation)
        if code_end and ctypes.CDLL(None, use_errno=True).mprotect(
            ctypes.c_void_p(self._base), ctypes.c_size_t(code_end), _READ_EXECUTE
        ):
            raise OSError(ctypes.get_errno(), "this system does not let compiled code be executed")

    def address(self, symbol: Symbol) -> int:
        """Returns the address of a symbol that the object defines."""
        assert symbol.section is not None
        return self._base + self._offsets[symbol.section] + symbol.value

    def _place(self, code: Object, *, executable: bool, start: int) -> int:
        """Assigns offsets to the sections that are executable, or to the others, from `start` on. Returns where they end."""
        for section in code.sections:
            if section.executable is executable:
                start = -(-start // section.align) * section.align
                self._offsets[section.number] = start
                start += len(section.data)
        return start

    def _apply(self, r: Relocation) -> None:
        """Applies a relocation. Raises CompileError for a kind that is not known."""
        offset = self._offsets[r.section] + r.offset
        here = self._base + offset
        if r.kind == _64:
            target = self.addresses[r.symbol.name] if self._is_outside(r.symbol) else self.address(r.symbol)
            self._memory[offset : offset + 8] = struct.pack("<Q", (target + r.addend) & (1 << 64) - 1)
        elif r.kind == _PC64:
            self._memory[offset : offset + 8] = struct.pack("<q", self._near(r.symbol) + r.addend - here)
        elif r.kind in (_PC32, _PLT32):
            self._memory[offset : offset + 4] = struct.pack("<i", self._near(r.symbol) + r.addend - here)
        elif r.kind in _THROUGH_TABLE and self._is_outside(r.symbol):
            table = self._near(r.symbol) + len(_STUB)
            self._memory[offset : offset + 4] = struct.pack("<i", table + r.addend - here)
        else:
            raise CompileError(f"compiled code has a relocation of kind {r.kind}", remedy="compile it as LLVM's small PIC code")

    def _is_outside(self, symbol: Symbol) -> bool:
        """Returns whether the object leaves a symbol undefined."""
        return symbol.section is None

    def _near(self, symbol: Symbol) -> int:
        """Returns an address within reach of 32-bit offsets: the symbol's, or that of the stub that jumps to it."""
        if not self._is_outside(symbol):
            return self.address(symbol)
        return self._base + self._stubs + _SLOT * self._names.index(symbol.name)
