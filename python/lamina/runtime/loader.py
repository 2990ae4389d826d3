"""Object files into this process. Imports neither MLIR nor torch: a warm start pays for LLVM's loader alone."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from lamina.core.errors import CompileError

from .elf import Malformed, undefined_symbols


class Code:
    """A loaded object file; its memory lives as long as this does.

    addresses  of the kernels, by name: `void (*)(void *const *bufs, int64_t lo, int64_t hi)`
    """

    def __init__(self, code: bytes, kernels: tuple[str, ...]) -> None:
        _initialise()
        try:
            unknown = [name for name in undefined_symbols(code) if not _known(name)]
        except Malformed as error:
            raise CompileError(f"not a whole object file: {error}", remedy="clear the cache") from error
        if unknown:  # LLVM's loader would end the process
            raise CompileError(
                f"compiled code calls {', '.join(unknown)}, which no loaded library has",
                remedy="load the library first, or compile the kernels that call it for another target",
            )
        machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="small")
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        try:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        except (RuntimeError, ValueError) as error:
            raise CompileError(f"not an object file for this machine: {error}", remedy="clear the cache") from error
        self._engine.finalize_object()
        self.addresses: dict[str, int] = {name: self._engine.get_function_address(name) for name in kernels}
        absent = [name for name, address in self.addresses.items() if not address]
        if absent:
            raise CompileError(f"the object file has no kernel {', '.join(absent)}", remedy="clear the cache")


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _known(name: str) -> bool:
    """Whether the dynamic linker finds a symbol, in the C math library too."""
    if llvm.address_of_symbol(name):
        return True
    try:
        llvm.load_library_permanently("libm.so.6")
    except RuntimeError:
        return False
    return bool(llvm.address_of_symbol(name))
