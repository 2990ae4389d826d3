"""Loads object files into this process and resolves their symbols. Imports neither LLVM nor MLIR nor torch."""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from weakref import WeakValueDictionary

from lamina.core.errors import CompileError

from .elf import Malformed, read
from .image import Image

_LOADED: WeakValueDictionary[tuple[bytes, tuple[str, ...]], Code] = WeakValueDictionary()


def loaded(code: bytes, kernels: tuple[str, ...]) -> Code:
    """Returns an object file as `Code`: the same for as long as it is used, as programs that differ in sizes share theirs."""
    found = _LOADED.get((code, kernels))
    if found is None:
        found = _LOADED[code, kernels] = Code(code, kernels)
    return found


class Code:
    """A loaded object file. Its memory lives as long as the instance. Raises CompileError for an object that cannot be loaded here.

    addresses  of the kernels, by name: `void (*)(void *const *bufs, int64_t lo, int64_t hi)`
    """

    def __init__(self, code: bytes, kernels: tuple[str, ...]) -> None:
        try:
            code_object = read(code)
        except Malformed as error:
            raise CompileError(f"not a whole object file for this machine: {error}", remedy="clear the cache") from error
        if platform.machine() != "x86_64":
            raise CompileError(f"compiled code is for x86-64; this machine is {platform.machine()}", remedy="compile on it")
        outside = {name: _address(name) for name in code_object.undefined}
        if unknown := [name for name, address in outside.items() if not address]:
            raise CompileError(
                f"compiled code calls {', '.join(unknown)}, which no loaded library has",
                remedy="load the library first, or compile the kernels that call it for another target",
            )
        self._image = Image(code_object, outside)
        own = {s.name: s for s in code_object.symbols if s.section is not None}
        if absent := [name for name in kernels if name not in own]:
            raise CompileError(f"the object file has no kernel {', '.join(absent)}", remedy="clear the cache")
        self.addresses: dict[str, int] = {name: self._image.address(own[name]) for name in kernels}


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """Returns the libraries that are searched for symbols: all that the process has loaded, and the C math library."""
    return ctypes.CDLL(None), ctypes.CDLL("libm.so.6")


def _address(name: str) -> int:
    """Returns the address of a symbol; 0 if no library has it."""
    for library in _libraries():
        try:
            return ctypes.cast(library[name], ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    return 0
